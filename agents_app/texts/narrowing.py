"""Patterns that a database engine can search for fast, to leave out the rows in which something cannot stand.

A pattern matches each text in which `matching` would find what is looked for, and some more: whoever uses one reads those that it
matches with `matching`. `matching` sees through escapes, full-width letters and letters that nobody sees; a pattern matches every text
that has a sign of these. It names each letter in all its cases, so that no engine's language decides what it matches.
"""

import sys
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any

from django.db import connection, models
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast

from agents_app.texts.matching import LONG, Phrase, Phrases, Terms
from routerweb import holds
from training_app.engine.data.examples import normalise

Column = models.Field[Any, Any]

#: Pieces of which a pattern is made at most.
PIECES = 200
#: Letters that are written as others in another case, and what begins an escape of JSON, HTML or an address.
ALWAYS = "\\&%ıİſK"
#: Vowels and final consonants of Hangul that are composed with what stands before them.
JAMO = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
LETTERS_AND_DIGITS = (*range(ord("0"), ord("9") + 1), *range(ord("A"), ord("Z") + 1), *range(ord("a"), ord("z") + 1))


@dataclass(frozen=True, slots=True)
class Pattern:
    """A text may hold what is looked for where one of the `pieces` stands in it, or a sign that it must be read another way."""

    pieces: tuple[str, ...]

    def re2(self) -> str:
        """In the syntax of RE2, for DuckDB."""
        return self.written(lambda code: f"\\x{{{code:x}}}")

    def postgresql(self) -> str:
        """In PostgreSQL's syntax."""
        return self.written(lambda code: f"\\U{code:08x}")

    def written(self, sign: Callable[[int], str]) -> str:
        """With characters as `sign` writes their codes."""
        letters, compatible = set("".join(self.pieces).casefold()), _compatible()
        signs = _always().union(*(compatible.get(letter, ()) for letter in letters))
        either = ("".join(_place(letter, sign) for letter in piece) for piece in self.pieces)
        return "|".join((*either, _one_of(signs, sign)))


def of(lookup: object) -> Pattern | None:
    """The pattern of what is looked for; None where none would help."""
    if isinstance(lookup, Terms):
        return of_pieces(max(term.split(), key=len) for term in lookup.terms)
    if isinstance(lookup, Phrase):
        return of_texts([lookup.text])
    return of_texts(lookup.texts) if isinstance(lookup, Phrases) else None


def of_texts(texts: Collection[str]) -> Pattern | None:
    """The pattern of texts that are one of these but for case and space, begin like one, or hold one."""
    return of_pieces(normalise(text)[:LONG].strip() for text in texts)


def of_pieces(pieces: Iterable[str]) -> Pattern | None:
    """The pattern of texts that hold one of these; None of none, of too many, and where one is empty."""
    distinct = tuple(dict.fromkeys(pieces))
    return Pattern(distinct) if 0 < len(distinct) <= PIECES and all(distinct) else None


def narrowed(rows: QuerySet[Any], columns: Collection[Column], pattern: Pattern | None) -> QuerySet[Any]:
    """Of the rows those in whose columns the pattern stands, as far as the database can tell: all, where it is not PostgreSQL, or
    where a column is packed."""
    if pattern is None or not columns or connection.vendor != "postgresql" or not all(map(_is_plain, columns)):
        return rows
    texts = {f"{column.attname}_as_text": Cast(column.attname, TextField()) for column in columns}
    written = pattern.postgresql()
    return rows.alias(**texts).filter(reduce(or_, (Q((f"{name}__regex", written)) for name in texts)))


def _is_plain(column: Column) -> bool:
    """Whether the database sees what a column says: text as it is, or JSON."""
    if holds.packing(column) is not holds.AS_IT_STANDS or isinstance(column, models.BinaryField):
        return False
    return isinstance(column, models.JSONField) or not hasattr(column, "from_db_value")


def _place(letter: str, sign: Callable[[int], str]) -> str:
    if letter.isspace():  # any white space, of which there may be more
        return f"[^{_ranges(LETTERS_AND_DIGITS, sign)}]+"
    forms = _forms(letter)
    codes = {ord(form) for form in (letter, *forms) if len(form) == 1}
    return _one_of(codes.union(*(_cases().get(form, ()) for form in forms)), sign)


def _one_of(codes: Collection[int], sign: Callable[[int], str]) -> str:
    return f"[{_ranges(codes, sign)}]"


def _ranges(codes: Iterable[int], sign: Callable[[int], str]) -> str:
    found: list[list[int]] = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return "".join(sign(first) if first == last else f"{sign(first)}-{sign(last)}" for first, last in found)


@cache
def _characters() -> str:
    """The characters that have a meaning: one in eight of all codes. The others are read as they are, in all cases."""
    every = map(chr, range(1, sys.maxunicode + 1))
    return "".join(character for character in every if unicodedata.category(character) not in ("Cn", "Co", "Cs"))


def _forms(letter: str) -> set[str]:
    return {letter.casefold(), letter.lower(), letter.upper()}


@cache
def _cases() -> Mapping[str, set[int]]:
    """A letter → the codes of the characters that are it in another case."""
    cases: dict[str, set[int]] = defaultdict(set)
    for character in _characters():
        for form in _forms(character) - {character}:
            cases[form].add(ord(character))
    return dict(cases)


@cache
def _always() -> frozenset[int]:
    """The characters that say that a text must be read: that nobody sees, or that are one letter with those before them."""
    unseen = {ord(character) for character in _characters() if unicodedata.category(character) in ("Cf", "Mn")}
    pairs = (unicodedata.decomposition(character).split() for character in _characters())
    composed = {int(pair[1], 16) for pair in pairs if len(pair) == 2 and not pair[0].startswith("<")}
    return frozenset({*unseen, *composed, *JAMO, *map(ord, ALWAYS)})


@cache
def _compatible() -> Mapping[str, set[int]]:
    """A letter → the codes of the characters that are read as it, and perhaps others, by NFKC or in another case by more than one."""
    codes: dict[str, set[int]] = defaultdict(set)
    for character in _characters():
        if character.casefold() == unicodedata.normalize("NFKC", character) == character:
            continue
        read = normalise(character)
        if read not in (character, character.lower()):
            for letter in read:
                codes[letter].add(ord(character))
    return dict(codes)
