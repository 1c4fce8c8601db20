"""What each voice says of each agent: the statements of one source or person, put together, and merged agents resolved.

A voice is an import, the LLM, one person, or all adjudications together. Its statements add up agent by agent: the last that
was asked about an agent speaks for it. Where agents were merged, what was said of the merged one is heard as said of the agent that
took it over, step by step along a chain of merges:

- "needed" travels to the agent that took it over; "not needed" stays: it says nothing of the rest of what that agent does.
- What a higher source overruled does not travel.
- A "no" to the agent that took over, said once the merge was made, answers an earlier "needed" of the merged one.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from agents_app.models import Agent
from datasets_app.models import Label

RANKS: Mapping[str, int] = {
    Label.Source.ADJUDICATION: 0,
    Label.Source.HUMAN: 1,
    Label.Source.IMPORT: 2,
    Label.Source.LLM: 3,
}


class Statement(Protocol):
    """What has to be known of a label; `Label` rows are such."""

    pk: Any
    source: str
    author_id: Any
    required: Any
    asked: Any
    unsure: bool
    provenance: Any
    created_at: Any


class Merge(NamedTuple):
    """One step of a merge: the id of the agent that took over, and since when (None: before anything was said)."""

    into: int
    since: datetime | None = None


class AgentAnswer(NamedTuple):
    """One answer about one agent: needed or not, and the label that says so."""

    needed: bool
    label: int
    at: datetime | None


Merges = Mapping[int, Merge]
Voice = tuple[int, int | None]  # the rank of its source, and for people who it is
Heard = dict[int, dict[Voice, AgentAnswer]]  # agent → voice → what it said last


def merges(pools: Iterable[int]) -> dict[int, dict[int, Merge]]:
    """Pool key → {id of a merged agent → the step to the agent that took it over}. One database query."""
    steps: dict[int, dict[int, Merge]] = {pool: {} for pool in pools}
    rows = Agent.objects.filter(pool__in=list(steps), merged_into__isnull=False)
    for pool, number, into, since in rows.values_list("pool_id", "number", "merged_into__number", "merged_at"):
        steps[pool][number] = Merge(into, since)
    return steps


def end_of(agent: int, merged: Merges) -> int:
    """The agent that this one counts as: itself, or the end of its chain of merges."""
    visited = {agent}
    while (step := merged.get(agent)) is not None and step.into not in visited:
        agent = step.into
        visited.add(agent)
    return agent


def who(label: Statement) -> Voice:
    """Whose voice a label is."""
    return RANKS[label.source], label.author_id if label.source == Label.Source.HUMAN else None


def listen(labels: Iterable[Statement], *, llm: bool = False, unsure: bool = False) -> Heard:
    """What each voice said last of each agent, before merges. An LLM's fallback says nothing. What a person was unsure of
    is heard only with `unsure`, the LLM only with `llm`."""
    heard: Heard = {}
    for label in sorted(labels, key=lambda label_: label_.pk):
        rank = RANKS[label.source]
        if rank == RANKS[Label.Source.LLM] and (not llm or label.provenance.get("fallback")):
            continue
        voice = who(label)
        required = frozenset(label.required)
        for agent in label.asked:
            of = heard.setdefault(agent, {})
            if label.unsure and not unsure:
                of.pop(voice, None)
            else:
                of[voice] = AgentAnswer(agent in required, label.pk, label.created_at)
    return heard


def decide(heard: Heard, merged: Merges) -> dict[int, dict[Voice, AgentAnswer]]:
    """Agent → what the voices of its highest source say of it, once merges are resolved. Merged agents are not among the keys."""
    if not merged:
        return {agent: _highest(of) for agent, of in heard.items() if of}
    came_from: dict[int, list[tuple[int, Merge]]] = defaultdict(list)
    for agent, step in merged.items():
        came_from[step.into].append((agent, step))
    ends = {end_of(agent, merged) for agent, of in heard.items() if of}
    by_agent = {agent: _resolved(agent, heard, came_from, frozenset()) for agent in ends}
    return {agent: of for agent, of in by_agent.items() if of}


def _highest(of: Mapping[Voice, AgentAnswer]) -> dict[Voice, AgentAnswer]:
    top = min(rank for rank, _who in of)
    return {voice: opinion for voice, opinion in of.items() if voice[0] == top}


def _resolved(
    agent: int, heard: Heard, came_from: Mapping[int, Sequence[tuple[int, Merge]]], above: frozenset[int]
) -> dict[Voice, AgentAnswer]:
    """What the highest source says of an agent, with what travels to it from agents that were merged into it."""
    opinions = heard.get(agent, {})
    arriving: dict[Voice, list[AgentAnswer]] = defaultdict(list)
    for child, step in came_from.get(agent, ()):
        if child in above:
            continue
        for voice, opinion in _resolved(child, heard, came_from, above | {agent}).items():
            if opinion.needed and not _answered(opinions.get(voice), opinion, step):
                arriving[voice].append(opinion)
    for voice, opinion in opinions.items():
        if opinion.needed or voice not in arriving:
            arriving[voice].append(opinion)
    if not arriving:
        return {}
    return _highest({voice: max(several, key=lambda statement: statement.label) for voice, several in arriving.items()})


def _answered(current: AgentAnswer | None, earlier: AgentAnswer, step: Merge) -> bool:
    """Whether `own`, about the agent that took over, is a later "no" that knew of the merge."""
    if current is None or current.needed or current.label <= earlier.label:
        return False
    return step.since is None or current.at is None or current.at >= step.since


def answers(labels: Iterable[Statement], merged: Merges) -> dict[int, bool]:
    """Agent id → needed or not, as the labels of one voice have it once merged agents are resolved; absent: not asked."""
    heard = decide(listen(labels, llm=True, unsure=True), merged)
    return {agent: opinion.needed for agent, of in heard.items() for opinion in of.values()}


class VoiceSets(NamedTuple):
    """What one voice says of a query: the agents that it needs, among those that the voice was asked about."""

    required: frozenset[int]
    asked: frozenset[int]


def answer(labels: Iterable[Statement], merged: Merges) -> VoiceSets:
    """`answers` as two sets."""
    labels = list(labels)
    if len(labels) == 1 and merged.keys().isdisjoint(labels[0].asked) and not labels[0].provenance.get("fallback"):
        asked = frozenset(labels[0].asked)  # what nearly every voice is: one label, which says it all
        return VoiceSets(frozenset(labels[0].required) & asked, asked)
    needed_by_agent = answers(labels, merged)
    return VoiceSets(
        frozenset(agent for agent, needed in needed_by_agent.items() if needed), frozenset(needed_by_agent)
    )


def by_person(labels: Iterable[Label]) -> dict[int, list[Label]]:
    """Labels of people by who made them."""
    people: dict[int, list[Label]] = defaultdict(list)
    for label in labels:
        if label.author_id is not None:
            people[label.author_id].append(label)
    return people
