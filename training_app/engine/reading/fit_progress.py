"""How far the search for a scorer is: one number that grows evenly, while one scorer after another is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from training_app.engine.progress import ScorerProgress

#: What each fit takes, in fits of the linear scorer: processor seconds on subsets of 80 to 600 queries of six pools, 27 November 2026.
#: That of a student and of a teacher is a guess. A name's beginning up to a comma counts.
COSTS = {
    "choosing": 1, "linear": 1, "n-grams and descriptions": 1, "student": 20, "teacher": 60, "sequence": 20, "sentence encoder": 5,
    "precedents": 1,
}  # fmt: skip
STEPS = 1_000


class FitProgress:
    """Reports each of the `planned` fits, in their order, as its part of the whole; one that is left out is passed over."""

    def __init__(self, planned: Sequence[str], progress: ScorerProgress) -> None:
        ends = list(accumulate(COSTS[name.partition(",")[0]] for name in planned))
        self._parts = {
            name: (end - COSTS[name.partition(",")[0]], end) for name, end in zip(planned, ends, strict=True)
        }
        self._whole = ends[-1] if ends else 1
        self._progress = progress

    def of(self, name: str) -> ScorerProgress:
        """What the fit of that name reports to."""
        start, end = self._parts.get(name, (0, self._whole))

        def report(done: int, total: int, message: str) -> None:
            reached = start + (end - start) * min(done / total, 1.0) if total else start
            self._progress(round(STEPS * reached / self._whole), STEPS, f"{name}: {message}")

        return report
