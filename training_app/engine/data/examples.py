"""Agents, labeled examples, rows, when two texts are the same, and which split a query belongs to.

`files.py` reads and writes them. Standard library only.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from training_app.engine.data.conversations import as_json, before, opening

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, slots=True)
class Agent:
    """One specialised agent. `id` is a small integer within its pool and never changes its meaning."""

    id: int
    name: str
    description: str = ""
    keywords: tuple[str, ...] = ()
    code: str = ""
    cost: float = 0.0
    #: Its name in programs, where it has one. What an agent is does not hang on it.
    key: str = field(default="", compare=False)
    #: Queries that it is for, by whoever describes it; nobody has confirmed them.
    examples: tuple[str, ...] = field(default=(), compare=False)

    @property
    def facts(self) -> dict[str, Any]:
        """What a model learns of the agent and keeps in its artifact: all but the key and the examples."""
        return {name: value for name, value in asdict(self).items() if name not in ("key", "examples")}


@dataclass(frozen=True, slots=True)
class Example:
    """One labeled query. `asked` are the agents that the label speaks about; None means all of them.
    An agent that was not asked is neither required nor a negative. `text` may be a `Turn` of a conversation; `group` names the
    conversation, where the data does: all of its turns stay in one split and in one fold. What does not `judge` is only learnt
    from."""

    id: str
    text: str
    required: frozenset[int]
    asked: frozenset[int] | None = None
    split: str = ""
    group: str = ""
    judges: bool = True

    @property
    def fold_key(self) -> str:
        """What rows share that may not stand on both sides of a fold."""
        return conversation_key(self.group) if self.group else split_key(self.text)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file. `required` None means unlabeled; `asked` None means that the file does not say.
    `text` is a `Turn` where the row has `messages`; `conversation` is then the id of the conversation, where there is one. `extra`
    holds every other key or column."""

    line: int
    id: str
    text: str
    required: frozenset[int] | None = None
    asked: frozenset[int] | None = None
    split: str = ""
    extra: dict[str, Any] = field(default_factory=dict)
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class RowError:
    """Why the row that begins at `line` was left out. `field` is the key or column at fault, "" for the whole row."""

    line: int
    reason: str
    field: str = ""
    excerpt: str = ""

    def __str__(self) -> str:
        where = f"line {self.line}" + (f", {self.field}" if self.field else "")
        return f"{where}: {self.reason}" + (f" ({self.excerpt})" if self.excerpt else "")


class DataError(Exception):
    """Files that cannot be used as they are. `errors` holds (file name, RowError) pairs."""

    def __init__(self, errors: Sequence[tuple[str, RowError]]) -> None:
        self.errors = tuple(errors)
        shown = [f"{name}, {error}" for name, error in self.errors[:5]]
        more = len(self.errors) - len(shown)
        super().__init__("; ".join(shown) + (f"; and {more} more" if more > 0 else ""))


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of labeled queries: agents and the three splits as they stand in the files. Of its `unlabeled` rows,
    `texts` are those of train."""

    agents: tuple[Agent, ...]
    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]
    unlabeled: int = 0
    texts: tuple[str, ...] = ()

    @property
    def examples(self) -> tuple[Example, ...]:
        return self.train + self.val + self.test


# ---------------------------------------------------------------------------------------------------- normal forms


def normalise(text: str) -> str:
    """The form in which a text is unique within a dataset: NFKC, case folded, white space collapsed."""
    if text.isascii():
        return " ".join(text.lower().split())
    # Case folding may leave NFKC (U+0345, for one), so it is normalised again.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


#: Marks that choose how the sign before them is drawn, or that nobody sees: the combining grapheme joiner and variation selectors.
UNSEEN = frozenset(map(chr, (0x034F, *range(0x180B, 0x180E), 0x180F, *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))


class _Letters(dict[int, int | None]):
    """What `str.translate` keeps of a text: letters, marks and digits that somebody sees. Common characters are looked up once."""

    def __missing__(self, code: int) -> int | None:
        kept = None if chr(code) in UNSEEN or unicodedata.category(chr(code))[0] in "PSZC" else code
        if code < 1 << 16:
            self[code] = kept
        return kept


_LETTERS = _Letters()


def group_key(text: str) -> str:
    """The form in which two texts say the same: `normalise` without punctuation, symbols, space, and what nobody sees. A text of
    nothing else, as of emoji alone, keeps its punctuation and symbols. Conversations say the same where all their turns do."""
    earlier = before(text)
    if earlier:
        return "\n".join([*(f"{m.role} {_keys(m.content)[1]}" for m in earlier), _keys(text)[1]])
    return _keys(text)[1]


def split_key(text: str) -> str:
    """What puts two queries into one split group: that they say the same, or that their conversations open with the same words."""
    return _keys(opening(text))[1]


def conversation_key(identifier: str) -> str:
    """The split group of all turns of the conversation of that id."""
    return f"conversation\n{identifier}"


def keys_of(text: str) -> tuple[str, str]:
    """(what makes a query unique within a dataset, its `split_key`): for a text its `normalise` and its `group_key`."""
    earlier = before(text)
    if earlier:
        transcript = "\n".join([*(f"{m.role} {normalise(m.content)}" for m in earlier), normalise(text)])
        return f"conversation\n{transcript}", split_key(text)
    return _keys(text)


def _keys(text: str) -> tuple[str, str]:
    normal = normalise(text)
    if letters := normal.translate(_LETTERS):
        return normal, letters
    return normal, "".join(c for c in normal if c not in UNSEEN and unicodedata.category(c) != "Cf") or normal


#: A message as short as "yes" is said in many conversations: alone it makes none of them the same.
TELLING = 16


def of_one_conversation(first: str, second: str) -> bool:
    """Whether two queries, of which at least one is a turn, are turns of one conversation as far as their messages tell: the first
    three that both have are the same, and together they are long enough for that to be no chance."""
    if not (before(first) or before(second)):
        return False
    mine, theirs = ([(m["role"], normalise(m["content"])) for m in as_json(text)] for text in (first, second))
    both = min(len(mine), len(theirs), 3)
    return mine[:both] == theirs[:both] and sum(len(content) for _role, content in mine[:both]) >= TELLING


def news(written: Sequence[Example], labeled: Sequence[Example]) -> list[Example]:
    """Those of the written examples that say the same as none of the labeled ones, nor as another before them."""
    seen = {group_key(example.text) for example in labeled}
    fresh = []
    for example in written:
        if (key := group_key(example.text)) not in seen:
            seen.add(key)
            fresh.append(example)
    return fresh


# ------------------------------------------------------------------------------------------------------------- splits


def assign_splits(
    groups: Sequence[str],
    sizes: Sequence[int],
    splits: Sequence[str],
    *,
    ratios: Mapping[str, float] | None = None,
    seed: int = 0,
) -> list[str]:
    """A split for every row: rows that have one keep it, rows that have none ("") are filled in.

    groups (N): each row's `group_key`; one group gets one split. sizes (N): how many agents each row requires, the
    stratum. splits (N): "train", "val", "test" or "". A group with a split already gives it to its new rows. Every
    other group goes where its stratum lacks most of its share; what does not divide evenly is drawn by lot and goes where
    all strata together lack most. The lots are hashes of seed and group, so the answer does not depend on the order of the
    rows. `ratios` defaults to 0.7, 0.15, 0.15.
    """
    shares = _shares(ratios or {"train": 0.7, "val": 0.15, "test": 0.15})
    split_of: dict[str, str] = {}
    stratum: dict[str, int] = {}
    for group, size, split in zip(groups, sizes, splits, strict=True):
        stratum[group] = min(size, stratum.get(group, size))
        # Where an import put one text into two splits, its new rows join the earlier of train, val, test: a test row
        # more would be one that training has seen.
        if split and (group not in split_of or SPLITS.index(split) < SPLITS.index(split_of[group])):
            split_of[group] = split

    strata: dict[int, list[str]] = {}
    for group, size in stratum.items():
        strata.setdefault(size, []).append(group)

    def rank(group: str) -> bytes:
        return hashlib.sha256(f"{seed}\0{group}".encode(errors="surrogatepass")).digest()

    owed = dict.fromkeys(SPLITS, 0.0)  # what all strata together lack of each split
    undivided: list[str] = []  # what does not divide evenly
    for members in strata.values():
        lack = {split: int(share * len(members)) for split, share in shares.items()}
        for split, share in shares.items():
            owed[split] += share * len(members)
        for group in members:
            if group in split_of:
                lack[split_of[group]] -= 1
                owed[split_of[group]] -= 1
        for group in sorted((g for g in members if g not in split_of), key=rank):
            wanted = [split for split in SPLITS if lack[split] > 0]
            if not wanted:
                undivided.append(group)
                continue
            split = max(wanted, key=lambda s: (lack[s], -SPLITS.index(s)))
            split_of[group] = split
            lack[split] -= 1
            owed[split] -= 1
    # By lot and not by stratum, or the small strata that come first would always go to the same split.
    for group in sorted(undivided, key=rank):
        split = max((s for s in SPLITS if shares[s] > 0), key=lambda s: (owed[s], -SPLITS.index(s)))
        split_of[group] = split
        owed[split] -= 1
    return [split or split_of[group] for group, split in zip(groups, splits, strict=True)]


def _shares(ratios: Mapping[str, float]) -> dict[str, float]:
    """The ratios as shares of one, 0 for a split that has none."""
    total = sum(ratios.values())
    if set(ratios) - set(SPLITS) or total <= 0 or min(ratios.values()) < 0:
        raise ValueError("ratios name train, val and test, are not negative, and do not sum to zero")
    return {split: ratios.get(split, 0.0) / total for split in SPLITS}
