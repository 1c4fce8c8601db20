"""What people said, as docs/labeling.md and docs/design.md have it, in plain Python: every answer is worked out anew.

Nothing here is taken from the product's code, and no result is kept up to date: statements, merges and holders are lists of what
happened.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

TIERS = ("adjudication", "human", "import")
Voice = tuple[str, str]  # the source, and the person for people's


@dataclass(eq=False)
class Statement:
    """One label: who said what about which agents. `whole`: it replaces what the voice said before. `time`: when."""

    key: int
    voice: Voice
    required: frozenset[int]
    asked: frozenset[int]
    whole: bool
    time: int
    unsure: bool = False
    fallback: bool = False
    independent: bool = True
    review: bool = False
    withdrawn: bool = False
    closed_before: bool | None = None  # None: it did not close the query's item

    @property
    def closes(self) -> bool:
        return self.closed_before is not None and not self.withdrawn


@dataclass(eq=False)
class Item:
    """One question to people. `people`: who holds, has answered or has skipped it."""

    wanted: bool = True
    decided: bool = False
    extra: int = 0
    people: dict[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> int:
        return sum(state != "skipped" for state in self.people.values())


@dataclass(eq=False)
class Query:
    key: int
    dataset: int
    text: int
    group: int
    deleted: bool = False
    erased: bool = False
    said: list[Statement] = field(default_factory=list)
    drafts: set[tuple[str, int | None]] = field(default_factory=set)
    looked: set[str] = field(default_factory=set)
    items: dict[int | None, Item] = field(default_factory=dict)


@dataclass(eq=False)
class Sent:
    """One submit of a person."""

    person: str
    query: Query
    agent: int | None
    statement: Statement
    key: str
    time: int
    undone: bool = False


@dataclass(eq=False)
class Change:
    """One bulk change: the queries that it was begun for, and what it did to each."""

    key: int
    action: str
    agent: int | None
    queries: list[Query]
    finished: bool = False
    undone: bool = False
    made: dict[int, Statement] = field(default_factory=dict)
    before: dict[int, tuple[bool, int, bool]] = field(default_factory=dict)
    after: dict[int, int] = field(default_factory=dict)
    was_deleted: dict[int, bool] = field(default_factory=dict)


@dataclass
class Gold:
    required: frozenset[int]
    asked: frozenset[int]
    decided_by: dict[int, int]
    disputed: frozenset[int]


class Reference:
    """The world as it should be."""

    def __init__(self, agents: int) -> None:
        self.clock = 0
        self.queries: dict[int, Query] = {}
        self.active = set(range(agents))
        self.merged: dict[int, tuple[int, int]] = {}  # agent → the one that took it over, and when
        self.splits: dict[int, str] = {}
        self.sent: list[Sent] = []
        self.skips: dict[tuple[int, int | None, str], int] = {}
        self.changes: list[Change] = []
        self.overlap = 1
        self.snapshots: dict[int, list[dict]] = {}

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    # ------------------------------------------------------------------------------------------------ what was said

    def standing(self, query: Query, voice: Voice) -> list[Statement]:
        """What this voice has said and not taken back, since it last said everything anew."""
        own = [one for one in query.said if one.voice == voice and not one.withdrawn]
        wholes = [place for place, one in enumerate(own) if one.whole]
        return own[wholes[-1] :] if wholes else own

    def voices(self, query: Query, source: str) -> list[Voice]:
        return sorted({one.voice for one in query.said if one.voice[0] == source})

    def direct(self, query: Query, voice: Voice, agent: int, unsure: bool = False) -> Statement | None:
        """The last statement of the voice that was asked about the agent itself."""
        spoke = [one for one in self.standing(query, voice) if agent in one.asked]
        if not spoke or (spoke[-1].unsure and not unsure) or spoke[-1].fallback:
            return None
        return spoke[-1]

    def ends(self, agent: int) -> int:
        while agent in self.merged:
            agent = self.merged[agent][0]
        return agent

    def hears(
        self, query: Query, voice: Voice, agent: int, tiers: tuple[str, ...], unsure: bool = False
    ) -> tuple[bool, Statement] | None:
        """What a voice says of an agent, with the "needed" of agents that were merged into it."""
        own = self.direct(query, voice, agent, unsure)
        yes = []
        for child, (into, when) in self.merged.items():
            if into == agent:
                carried = self.verdict(query, child, tiers, unsure).get(voice)
                if carried and carried[0]:
                    answered = own is not None and agent not in own.required
                    if not (answered and own.key > carried[1].key and own.time > when):
                        yes.append(carried[1])
        if own is not None and agent in own.required:
            yes.append(own)
        if yes:
            return True, max(yes, key=lambda one: one.key)
        return (False, own) if own is not None else None

    def verdict(
        self, query: Query, agent: int, tiers: tuple[str, ...], unsure: bool = False
    ) -> dict[Voice, tuple[bool, Statement]]:
        """What the highest source that speaks of the agent says of it."""
        for tier in tiers:
            said = {voice: self.hears(query, voice, agent, tiers, unsure) for voice in self.voices(query, tier)}
            heard = {voice: one for voice, one in said.items() if one is not None}
            if heard:
                return heard
        return {}

    def gold(self, query: Query, llm: bool = False) -> Gold:
        tiers = (*TIERS, "llm") if llm else TIERS
        decided: dict[int, tuple[bool, int]] = {}
        disputed = set()
        for agent in {self.ends(agent) for one in query.said for agent in one.asked}:
            heard = self.verdict(query, agent, tiers)
            if len({needed for needed, _one in heard.values()}) > 1:
                disputed.add(agent)
            elif heard:
                needed, last = max(heard.values(), key=lambda one: one[1].key)
                decided[agent] = (needed, last.key)
        return Gold(
            frozenset(agent for agent, (needed, _by) in decided.items() if needed),
            frozenset(decided),
            {agent: by for agent, (_needed, by) in decided.items()},
            frozenset(disputed),
        )

    def state(self, query: Query) -> str:
        gold = self.gold(query)
        if gold.disputed:
            return "disagreement"
        if gold.asked:
            return "gold"
        if any(self.standing(query, one.voice) for one in query.said):
            return "labeled"
        return "draft" if query.drafts else "unlabeled"

    def answer(self, query: Query, voice: Voice, independent: bool = False) -> tuple[frozenset[int], frozenset[int]]:
        """(required, asked) as one voice has it, merges resolved."""
        kept = [one for one in self.standing(query, voice) if one.independent or not independent]
        alone = Query(query.key, query.dataset, query.text, query.group, said=kept)
        heard = {}
        for agent in {self.ends(agent) for one in kept for agent in one.asked}:
            said = self.hears(alone, voice, agent, (voice[0],), unsure=True)
            if said is not None:
                heard[agent] = said[0]
        return frozenset(agent for agent, needed in heard.items() if needed), frozenset(heard)

    def own(self, query: Query, person: str) -> Statement | None:
        """The last of a person's statements that stand."""
        return next(reversed(self.standing(query, ("human", person))), None)

    def apart(self, query: Query) -> tuple[float, float]:
        """How far people are apart (0 once something is adjudicated), and the LLM from them or from the import."""
        people = [self.answer(query, voice) for voice in self.voices(query, "human") if self.standing(query, voice)]
        between = [masi(a, b) for a, b in combinations(people, 2)]
        if self.standing(query, ("adjudication", "")):
            between = []
        judged = people or [self.answer(query, voice) for voice in self.voices(query, "import")]
        machine = [self.answer(query, voice) for voice in self.voices(query, "llm")]
        return mean(between), mean([masi(a, b) for a in machine for b in judged])

    # ---------------------------------------------------------------------------------------------------- the queue

    def needed(self, query: Query, agent: int | None) -> int:
        item = query.items[agent]
        if not item.wanted or item.decided or query.deleted:
            return 0
        return (self.overlap if agent is None else 1) + item.extra

    def open(self, query: Query, agent: int | None) -> bool:
        return query.items[agent].taken < self.needed(query, agent)

    def questions(self, agent: int | None) -> Iterator[tuple[Query, Item]]:
        for query in self.queries.values():
            if agent in query.items:
                yield query, query.items[agent]

    def ask_about(self, query: Query, agent: int) -> None:
        query.items.setdefault(agent, Item())

    def close_by(self, query: Query, said: Statement, *, untaken: bool = False) -> None:
        """A label that decides a query closes its item."""
        item = query.items.get(None)
        if item is None or not item.wanted or self.state(query) != "gold" or (untaken and item.taken):
            return
        said.closed_before, item.decided = item.decided, True

    def reopen(self, query: Query, said: Statement) -> None:
        """A label that had closed a query's item counts no more: what closed it later inherits how it was before."""
        if said.closed_before is None:
            return
        later = [one for one in query.said if one.closes and one.key > said.key]
        if later:
            later[0].closed_before = said.closed_before
        elif not said.closed_before:
            query.items[None].decided = False

    def free(self, query: Query) -> None:
        """Nobody holds a query that is gone."""
        for item in query.items.values():
            item.people = {person: state for person, state in item.people.items() if state != "held"}


def masi(a: tuple[frozenset[int], frozenset[int]], b: tuple[frozenset[int], frozenset[int]]) -> float | None:
    """MASI distance on what both were asked about, from its definition: 1 − Jaccard · monotonicity."""
    both = a[1] & b[1]
    if not both:
        return None
    one, other = a[0] & both, b[0] & both
    if one == other:
        return 0.0
    if not one & other:
        return 1.0
    return 1 - len(one & other) / len(one | other) * (2 / 3 if one < other or other < one else 1 / 3)


def mean(numbers: list[float | None]) -> float:
    known = [one for one in numbers if one is not None]
    return sum(known) / len(known) if known else 0.0
