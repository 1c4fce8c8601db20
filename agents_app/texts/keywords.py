"""Finding agents' keywords in a text, in every script."""

import re
from collections.abc import Iterable

from training_app.engine.reading.languages import MARKS, SPACELESS

#: Korean writes its particles onto a word: what begins with a keyword is the keyword.
_HANGUL = r"\uac00-\ud7af"
_NO_SPACE_BEFORE, _NO_SPACE_BEHIND = re.compile(f"[{SPACELESS}]"), re.compile(f"[{SPACELESS}{_HANGUL}]")


def pattern(words: Iterable[str]) -> re.Pattern[str]:
    """What finds each of the words, whole and in any case, the longest first; in scripts that put no space between words, wherever
    its letters stand."""
    return re.compile("|".join(map(_whole, sorted(words, key=len, reverse=True))), re.IGNORECASE)


def folded(word: str) -> str:
    """The form in which a keyword is the same in all cases, the Turkish İ and ı among them."""
    return word.casefold().replace("i\u0307", "i").replace("ı", "i")


def _whole(word: str) -> str:
    before = "" if _NO_SPACE_BEFORE.match(word[0]) else rf"(?<![\w{MARKS}])"
    behind = "" if _NO_SPACE_BEHIND.match(word[-1]) else rf"(?![\w{MARKS}])"
    return f"{before}{re.escape(word)}{behind}"
