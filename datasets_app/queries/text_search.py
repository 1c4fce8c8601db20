"""Queries whose text holds some words, in any case, the same in both databases."""

import unicodedata

from django.db import connection
from django.db.models import Q

from training_app.engine.reading.languages import SPACELESS_LETTER

#: Letters that a word to be sought has at least: fewer would find everything. Where a sign is a syllable or a word, two are a word.
LETTERS, SIGNS = 3, 2


def holding(word: str, field: str = "text") -> Q:
    """The condition that a text holds the word. SQLite knows the cases of English letters alone, so that the word is sought
    there as it stands, in capitals, in small letters and as a name. Neither database knows those of Turkish. Letters with marks count
    alike in one sign and in several."""
    spelled = {word, unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)}
    if not word.isascii():
        spelled |= {form for one in spelled for form in _turkish(one)}
        if connection.vendor == "sqlite":
            spelled |= {form for one in spelled for form in (one.lower(), one.upper(), one.capitalize())}
    condition = Q()
    for one in sorted(spelled):
        condition |= Q(**{f"{field}__icontains": one})
    return condition


def is_long_enough(term: str) -> bool:
    """Whether so few letters are worth a search."""
    return len(term) >= (SIGNS if SPACELESS_LETTER.search(term) else LETTERS)


def _turkish(word: str) -> tuple[str, ...]:
    """The word in the small letters of Turkish, in which I is ı and İ is i, in its capitals, and as a name."""
    if not set(word) & set("iıIİ"):
        return ()
    small = word.replace("i\u0307", "i").replace("İ", "i").replace("I", "ı").lower()
    capitals = small.replace("i", "İ").replace("ı", "I").upper()
    return small, capitals, capitals[:1] + small[1:]
