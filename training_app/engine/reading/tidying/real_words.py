"""The words that exist: typo correction never changes one of them. Imported by workers only.

The lists are those of the package `wordfreq` (Speer 2022), from subtitles, books, news and the web: of 42 languages what occurs once
in a million words (968,000 words of four letters and more, 1.3 s to load), and of the languages that a pool's texts are written in all
that the package knows, which inflected languages need. With the short lists alone two of 3,495 Russian words were changed that exist;
with the long list none, while "insurace", "thusday" and "apprecaite" are still corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from functools import lru_cache
from itertools import islice

from wordfreq import available_languages, get_frequency_list

from training_app.engine.reading.tidying.tidied import WORD

#: Texts are written in the language whose short list holds most of their words, and in those that hold at least this share as many.
#: English texts reach 0.72 in Portuguese. A pool of a few words looks like many languages: three are enough.
SPOKEN_SHARE, MOST_SPOKEN = 0.75, 3


@lru_cache(maxsize=1)
def _short_lists() -> dict[str, frozenset[str]]:
    lists = {language: frozenset(_words(language, "small")) for language in sorted(available_languages("small"))}
    get_frequency_list.cache_clear()
    return lists


@lru_cache(maxsize=1)
def _every_language() -> frozenset[str]:
    return frozenset().union(*_short_lists().values())


@lru_cache(maxsize=4)
def _long_list(language: str) -> frozenset[str]:
    words = frozenset(_words(language, "large"))
    get_frequency_list.cache_clear()
    return words


def _words(language: str, size: str) -> Iterator[str]:
    for bucket in get_frequency_list(language, size):
        yield from filter(WORD.fullmatch, bucket)


class RealWords(Container[str]):
    """The words of all languages, with the long lists of the languages that `words`, those of a pool's texts, are from."""

    def __init__(self, words: Collection[str]) -> None:
        shared = {language: sum(map(listed.__contains__, words)) for language, listed in _short_lists().items()}
        highest = max(shared.values())
        long = available_languages("large")
        spoken = [
            language
            for language, count in shared.items()
            if count and count >= SPOKEN_SHARE * highest and language in long
        ]
        self._lists = [*map(_long_list, spoken), _every_language()]

    def __contains__(self, word: object) -> bool:
        return any(word in listed for listed in self._lists)

    def among(self, words: Collection[str]) -> set[str]:
        """Those of the words that are in here."""
        return set().union(*(listed.intersection(words) for listed in self._lists))

    def letters(self) -> set[str]:
        """The letters of some of the words of the pool's languages."""
        return set().union(*islice(self._lists[0], 5_000))
