"""Patterns that a database engine can search for fast, to leave out the texts in which something cannot stand.

A pattern, in RE2's syntax, matches each text in which `matching` would find what is looked for, and some more: whoever uses one reads
those that it matches with `matching`. `matching` sees through escapes, full-width letters and letters that nobody sees; a pattern
matches every text that has a sign of these.
"""

import re
import sys
import unicodedata
from collections.abc import Collection, Sequence
from functools import cache

from agents_app.texts.matching import Terms
from training_app.engine.data.examples import normalise

#: Letters of a query's text of which a pattern is made, and queries up to which one is.
LETTERS, QUERIES = 24, 50
#: What begins an escape, what nobody sees, and the letters that are an i, an s or a k in another case.
ALWAYS = r"\\&%\p{Cf}\p{Mn}ıİſK"


def of_terms(terms: Terms) -> str:
    """A pattern of the texts in which somebody may stand: the longest piece without space of each term."""
    pieces = [max(term.split(), key=len) for term in terms.terms]
    return _either([re.escape(piece) for piece in pieces], pieces)


def of_queries(texts: Collection[str]) -> str | None:
    """A pattern of the texts that may be one of these but for case, space, punctuation and the like; None of too many, and where one
    has no letters and digits."""
    pieces = ["".join(filter(str.isalnum, normalise(text)))[:LETTERS] for text in texts]
    if not pieces or len(pieces) > QUERIES or not all(pieces):
        return None
    return _either([r"[^\pL\pN]*".join(map(re.escape, piece)) for piece in pieces], pieces)


def _either(patterns: Sequence[str], pieces: Sequence[str]) -> str:
    letters = set("".join(pieces).casefold())
    hidden = "".join(f"\\x{{{ord(sign):x}}}" for sign, read in _compatible() if letters & set(read))
    return f"(?i){'|'.join(patterns)}|[{ALWAYS}{hidden}]"


@cache
def _compatible() -> list[tuple[str, str]]:
    """Each character that is read as others, with those: by NFKC, or in another case by more than one letter."""
    signs = (chr(code) for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    every = ((sign, unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", sign).casefold())) for sign in signs)
    return [(sign, read) for sign, read in every if read not in (sign, sign.lower())]
