"""The words that exist: typo correction never changes one of them. Imported by workers only.

The lists are those of the package `wordfreq` (Speer 2022), from subtitles, books, news and the web: of 42 languages what occurs once
in a million words (968,000 words of four letters and more, 1.3 s to load), and of the languages that a pool's texts are written in all
that the package knows, which inflected languages need. With the short lists alone two of 3,495 Russian words were changed that exist;
with the long list none, while "insurace", "thusday" and "apprecaite" are still corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Set
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from wordfreq import available_languages, get_frequency_list

from training_app.engine.reading.tidying.tidied import WORD

#: Texts are written in the language whose short list holds most of their words, and in those that hold at least this share as many.
#: English texts reach 0.72 in Portuguese. A pool of a few words looks like many languages.
SPOKEN_SHARE = 0.75


class WordHashes:
    """A set of words by their hashes, of 64 bits: eight bytes a word, where a million texts take 130 MB. That a word which is not
    there has the hash of one that is happens once in 10^13 words. `letters` are those of all of them."""

    def __init__(self, hashes: NDArray[np.int64], letters: Set[str]) -> None:
        self.hashes, self.letters = hashes, letters  # int64[W], ascending

    @classmethod
    def of(cls, words: Iterable[str]) -> WordHashes:
        listed = list(words)
        return cls(np.sort(_hashed(listed)), frozenset().union(*listed))

    @classmethod
    def together(cls, sets: Collection[WordHashes]) -> WordHashes:
        """The words of all."""
        hashes = np.sort(np.concatenate([one.hashes for one in sets]))
        return cls(hashes, frozenset().union(*(one.letters for one in sets)))

    def among(self, words: Collection[str]) -> set[str]:
        """Those of the words that are in it."""
        if not len(self.hashes):
            return set()
        listed, wanted = list(words), _hashed(words)
        order = np.argsort(wanted)  # neighbours are looked for one after the other, which is quick in a long list
        wanted = wanted[order]
        places = np.minimum(self.hashes.searchsorted(wanted), len(self.hashes) - 1)
        return {listed[i] for i in order[self.hashes[places] == wanted].tolist()}


def _hashed(words: Collection[str]) -> NDArray[np.int64]:
    return np.fromiter(map(hash, words), np.int64, len(words))


@lru_cache(maxsize=1)
def _short_lists() -> dict[str, WordHashes]:
    return {language: _listed(language, "small") for language in sorted(available_languages("small"))}


@lru_cache(maxsize=1)
def _every_language() -> WordHashes:
    return WordHashes.together(_short_lists().values())


@lru_cache(maxsize=4)
def _long_list(language: str) -> WordHashes:
    return _listed(language, "large")


def _listed(language: str, size: str) -> WordHashes:
    listed = WordHashes.of(_words(language, size))
    get_frequency_list.cache_clear()  # else the package keeps the texts
    return listed


def _words(language: str, size: str) -> Iterator[str]:
    for bucket in get_frequency_list(language, size):
        yield from filter(WORD.fullmatch, bucket)


class RealWords(Container[str]):
    """The words of all languages, with the long lists of the languages that `words`, those of a pool's texts, are from."""

    def __init__(self, words: Collection[str]) -> None:
        shared = {language: len(listed.among(words)) for language, listed in _short_lists().items()}
        highest = max(shared.values())
        long = available_languages("large")
        spoken = [
            language
            for language, count in shared.items()
            if count and count >= SPOKEN_SHARE * highest and language in long
        ]
        long_lists = [_long_list(language) for language in spoken]
        self.listed = WordHashes.together([*long_lists, _every_language()])
        #: Of the words of the pool's languages.
        self.letters = frozenset().union(*(one.letters for one in long_lists or [self.listed]))

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and bool(self.listed.among([word]))

    def among(self, words: Collection[str]) -> set[str]:
        """Those of the words that are in here."""
        return self.listed.among(words)
