"""Changes to a text that should not change who is needed: what a scorecard measures robustness by. Standard library only."""

from __future__ import annotations

import random
import re
from collections.abc import Callable


def slip(text: str, rng: random.Random) -> str:
    """Two neighbouring letters change places in every tenth word, in one word at least."""
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if len(word) > 3]
    for i in rng.sample(long, min(len(long), max(1, len(words) // 10))):
        at = rng.randrange(1, len(words[i]) - 2)
        words[i] = words[i][:at] + words[i][at + 1] + words[i][at] + words[i][at + 2 :]
    return " ".join(words)


def double(text: str, rng: random.Random) -> str:
    """One word twice."""
    words = text.split(" ")
    at = rng.randrange(len(words))
    return " ".join([*words[: at + 1], *words[at:]])


#: Each a text and a random generator to text.
PERTURBATIONS: dict[str, Callable[[str, random.Random], str]] = {
    "typos": slip,
    "upper_case": lambda text, rng: text.upper(),
    "no_punctuation": lambda text, rng: " ".join(re.sub(r"[^\w\s]", " ", text).split()) or text,
    "repeated_word": double,
    "prefix": lambda text, rng: "hi, quick question: " + text,
    "signature": lambda text, rng: text + "\n\nBest regards,\nRobin Hall\n+44 20 7946 0000",
    "quoted_mail": lambda text, rng: (
        text + "\n\nOn Tuesday the support team wrote:\n> Thank you for your message. We will come back to you shortly."
    ),
}
