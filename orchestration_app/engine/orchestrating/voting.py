"""One answer out of several: a majority over normalised answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from training_app.engine.data.examples import group_key

_NUMBER = re.compile(r"[-+]?\d[\d\s,_]*\.?\d*")


def normalised(answer: str) -> str:
    """The form in which two answers are the same: case, punctuation and space aside, a bare number by its value."""
    stripped = answer.strip().rstrip(".")
    if _NUMBER.fullmatch(stripped):
        digits = re.sub(r"[\s,_]", "", stripped)
        try:
            return f"{float(digits):g}"
        except ValueError:
            pass
    return group_key(answer)


def majority(answers: Sequence[str | None]) -> str | None:
    """The answer that most paths gave, as the first of them wrote it; of equals the one that came first. None where nobody
    answered."""
    present = [answer for answer in answers if answer is not None]
    if not present:
        return None
    counts = Counter(normalised(answer) for answer in present)
    return max(present, key=lambda answer: counts[normalised(answer)])
