"""What a text says, whatever way it was written: a scorer behind a reader that mends what people type. numpy only.

    margins(text) = child(tidy(text))        tidy: greeting, sign-off and quoted mail left out; capitals made small; slips mended

A greeting, a signature or a swapped letter changes nothing about who is needed, and n-grams see in each of them something new. So the
text is brought into one form before it is scored, the training rows as well. What is done is the same for every pool, but for the
words. A word is read as another where no training row holds it, where it exists in no language (`real_words.py`), and where it is one
slip away from a word of the training rows (Damerau 1964: a letter swapped with its neighbour, left out, put in, or typed for another).
The more it takes to mend, the longer the word has to be. The first letter is seldom the wrong one, and another last letter is mostly
another form of the word, which n-grams read well enough. Only words in Latin, Greek and Cyrillic letters are corrected.

Nothing is ever left of a text but its own: where all of it is a greeting, it stays as it is.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.conversations import before, text_of
from training_app.engine.reading.scorers import FittedScorer, load_scorer
from training_app.engine.reading.tidying.framing import unframed

if TYPE_CHECKING:
    from training_app.engine.reading.tidying.real_words import RealWords

#: A word that may be corrected: at least four letters, all Latin, Greek or Cyrillic, none with a combining mark. In scripts without
#: spaces one letter is a word, and in most others one letter makes another word.
LETTER = r"[A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\u0370-\u03ff\u0400-\u052f]"
WORD = re.compile(rf"(?<![\w\u0300-\u036f]){LETTER}{{4,30}}(?![\w\u0300-\u036f])")
HIDDEN = "\0"
MOST_WORDS = 50_000  # known; the most frequent
KEPT, LONGEST_TOKEN = 20_000, 40  # words that are remembered, when full it starts again; a longer run of signs is not
#: The fewest letters that a word has in which a slip of this kind is mended.
SWAPPED, MISSING, OTHER = 4, 6, 8
ASKED_AT_ONCE = 50  # words whose slips are looked for among the real ones together
MOST_INDEXED = 10_000  # words that slips are mended to, by other letters than their own; the most frequent


class Spelling:
    """Corrects slips towards `words`: those of the training rows, lower case, the most frequent first, with how often each was met.
    A word that is among them or among `real_words` stays. Immutable but for what it remembers; safe to share between threads."""

    def __init__(self, words: Mapping[str, int], real_words: RealWords | frozenset[str] = frozenset()) -> None:
        self.words = dict(words)
        self.real_words = real_words
        self._mended: dict[str, str] = {}
        self._fine: set[str] = set()  # what stands between white space and has no slip: most of a text costs a look-up
        #: A word with one of its letters hidden -> the most frequent such word.
        self._hidden: dict[str, str] = {}
        for word in islice(self.words, MOST_INDEXED):
            if len(word) >= MISSING:
                for at in range(1, len(word) - 1):
                    self._hidden.setdefault(word[:at] + HIDDEN + word[at + 1 :], word)

    @classmethod
    def of(cls, texts: Iterable[str]) -> Spelling:
        """Corrects towards the words of the texts, all that was said before them included. Loads the lists of real words."""
        from training_app.engine.reading.tidying.real_words import RealWords  # workers only

        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(WORD.findall(text.lower()))
            for message in before(text):
                counts.update(set(WORD.findall(message.content.lower())))
        words = dict(sorted(counts.items(), key=lambda c: (-c[1], c[0]))[:MOST_WORDS])
        return cls(words, RealWords(words))

    def decisive(self) -> frozenset[str]:
        """The real words that would be corrected if nobody knew that they exist: all that an artifact has to store of them."""
        if isinstance(self.real_words, frozenset):
            return self.real_words
        letters: dict[str, set[str]] = {}  # of each alphabet
        for letter in set().union(*self.words, self.real_words.letters):
            letters.setdefault(_alphabet(letter), set()).add(letter)
        near: set[str] = set()
        ranked = enumerate(self.words)
        while some := list(islice(ranked, ASKED_AT_ONCE)):
            slips = (_slips(word, letters[_alphabet(word[0])], hidden=rank < MOST_INDEXED) for rank, word in some)
            near |= self.real_words.among(set().union(*slips))
        near.difference_update(self.words)
        return frozenset(word for word in near if self._near(word) != word)

    def served(self) -> Spelling:
        """The same corrections without the lists of real words."""
        return Spelling(self.words, self.decisive())

    def __call__(self, text: str) -> str:
        """The text with its slips mended; itself, the same object, where there are none."""
        tokens = text.split()
        fine, slips = self._fine, False
        if fine.issuperset(tokens):
            return text
        for token in tokens:
            if token in fine:
                continue
            if WORD.sub(self._word, token) != token:
                slips = True
            elif len(token) <= LONGEST_TOKEN:
                if len(fine) >= KEPT:
                    fine = self._fine = set()
                fine.add(token)
        return WORD.sub(self._word, text) if slips else text

    def _word(self, match: re.Match[str]) -> str:
        word = match[0].lower()
        if word in self.words or word in self.real_words:
            return match[0]
        mended = self._mended.get(word)
        if mended is None:
            mended = self._near(word)
            if len(self._mended) >= KEPT:
                self._mended = {}
            self._mended[word] = mended
        return match[0] if mended == word else mended

    def _near(self, word: str) -> str:
        """The known word that is one slip away, of several the most frequent; the word itself where none is."""
        frequencies, hidden, size = self.words, self._hidden, len(word)
        halves = [(word[:at], word[at:]) for at in range(1, size)]
        tried: list[Iterable[str]] = []
        if size >= SWAPPED:
            tried.append(a + b[1] + b[0] + b[2:] for a, b in halves if len(b) > 1)
        if size >= MISSING:
            left_out = (hidden.get(a + HIDDEN + b, "") for a, b in halves)
            tried.append(chain((a + b[1:] for a, b in halves if len(b) > 1), left_out))
        if size >= OTHER:
            tried.append(hidden.get(a + HIDDEN + b[1:], "") for a, b in halves if len(b) > 1)
        for words in tried:
            candidates = {w for w in words if w in frequencies}
            if candidates:
                return max(candidates, key=lambda w: (frequencies[w], w))
        return word


def _alphabet(letter: str) -> str:
    return "latin" if letter < "\u0370" or letter > "\u1dff" else "greek" if letter < "\u0400" else "cyrillic"


def _slips(word: str, letters: Iterable[str], *, hidden: bool) -> list[str]:
    """All words that may be mended to `word`, and some more; to one that is `hidden`, also by other letters than its own."""
    halves = [(word[:at], word[at:]) for at in range(1, len(word))]
    slips = [start + end[1] + end[0] + end[2:] for start, end in halves if len(end) > 1]
    if len(word) + 1 >= MISSING:
        slips += [start + letter + end for start, end in halves for letter in letters]
    if hidden and len(word) - 1 >= MISSING:
        slips += [start + end[1:] for start, end in halves]
    if hidden and len(word) >= OTHER:
        slips += [start + letter + end[1:] for start, end in halves for letter in letters]
    return slips


def tidied(text: str, spelling: Spelling | None = None) -> str:
    """The query as it is read; of a conversation the last turn."""
    cleaned = unframed(str(text))
    if spelling is not None:
        cleaned = spelling(cleaned)
    return text if cleaned == str(text) else text_of(cleaned, before(text))


class TidiedMargins:
    """The margins of `child` for texts as `tidied` reads them; without `spelling` words stay as they are typed."""

    kind: ClassVar[str] = "tidied"

    def __init__(self, child: FittedScorer, spelling: Spelling | None) -> None:
        self.child, self.spelling = child, spelling

    @property
    def children(self) -> tuple[FittedScorer, ...]:
        """What reads the tidied text."""
        return (self.child, *getattr(self.child, "children", ()))

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        return self.child.logits(self.tidied(texts))

    def tidied(self, texts: Sequence[str]) -> list[str]:
        """The texts as they are read."""
        return [tidied(text, self.spelling) for text in texts]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        tensors = {f"child.{name}": tensor for name, tensor in self.child.tensors().items()}
        if self.spelling is not None:
            tensors["counts"] = np.array(list(self.spelling.words.values()), np.int64)
        return tensors

    def config(self) -> dict[str, Any]:
        """The known words, and all about what reads the tidied text."""
        values: dict[str, Any] = {"child kind": self.child.kind, "child": dict(self.child.config())}
        if self.spelling is None:
            return values
        return {**values, "words": list(self.spelling.words), "real words": sorted(self.spelling.decisive())}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> TidiedMargins:
        """Raises ValueError where the parts do not fit."""
        try:
            kind = config["child kind"]
            if kind == cls.kind:
                raise ValueError("what is tidied is not tidied again")
            own = {name.removeprefix("child."): t for name, t in tensors.items() if name.startswith("child.")}
            spelling = None
            if "counts" in tensors:
                words = [str(word) for word in config["words"]]
                real_words = frozenset(str(word) for word in config["real words"])
                spelling = Spelling(dict(zip(words, tensors["counts"].tolist(), strict=True)), real_words)
            return cls(load_scorer(kind, config["child"], own), spelling)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the tidied scorer lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """The parts of the text as it is read."""
        return self.child.explain(tidied(text, self.spelling), top)
