"""What came in as traces, for the page Traffic: who answered, which agents the pool lacks, and what to label first."""

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Length
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app import audit, pools
from agents_app.models import Agent, Pool
from agents_app.texts.languages import name_of
from datasets_app.labeling import sending
from datasets_app.models import Label, LabelValue, Query, QueueItem, SpanBatch, SpanProblem, TracedTurn
from datasets_app.traces import names
from datasets_app.traces.names import Roster, core, is_agent
from datasets_app.traces.spans import AGENT
from training_app.engine.data.examples import normalise
from training_app.engine.judging import asking_order
from training_app.engine.reading import languages

#: The newest turns that the page counts, those that a sample is chosen from, and how many are queued unless somebody says otherwise.
NEWEST, CHOSEN_FROM, SAMPLE, MOST = 20_000, 2_000, 200, 1_000
#: The newest turns whose language is told.
READ = 500
#: Missing agents that are listed.
LISTED = 30
#: Characters of a text up to which it is called so.
LENGTHS = (
    (40, gettext_lazy("up to 40 characters")),
    (120, gettext_lazy("41 to 120")),
    (400, gettext_lazy("121 to 400")),
)
LONGER = gettext_lazy("more than 400")
#: What a sample is led by: a turn that went badly is most likely to teach something, one that nobody of the pool answered next.
FAILED, NOBODY, OTHER = 1.0, 0.6, 0.3


@dataclass(slots=True)
class Answering:
    """One agent of the pool, or nobody: how many turns it answered, and how many of those that were rated went well."""

    agent: Agent | None
    turns: int = 0
    rated: int = 0
    good: int = 0


@dataclass(slots=True)
class Traffic:
    """What the newest turns say. `newest` of them were counted; `missing` are (name, turns) of agents that the pool lacks,
    `undated` the turns of files that say no time."""

    turns: int = 0
    conversations: int = 0
    whole: bool = True
    answering: list[Answering] = field(default_factory=list)
    missing: list[tuple[str, int]] = field(default_factory=list)
    hours: dict[str, Any] = field(default_factory=dict)
    undated: int = 0
    lengths: list[tuple[str, int]] = field(default_factory=list)
    sources: list[tuple[str, int]] = field(default_factory=list)
    languages: list[tuple[str, int]] = field(default_factory=list)
    problems: Sequence[SpanProblem] = ()
    waiting: bool = False
    unasked: int = 0


def read(pool: Pool) -> Traffic:
    """The pool's newest NEWEST turns, counted. A constant number of database queries."""
    columns = ("at", "agents", "names", "success", "conversation", "source", "length", "upload__created_at")
    turns = TracedTurn.objects.filter(pool=pool).order_by("-pk").annotate(length=Length("query__text"))
    rows = list(turns.values_list(*columns)[:NEWEST])
    roster = Roster(pool)
    by_number = {agent.number: agent for agent in pool.agents.active()}
    answering: dict[int | None, Answering] = {}
    hours, lengths, sources = [0] * 24, Counter[str](), Counter[str]()
    missing, spellings, whole = Counter[str](), Counter[str](), set[str]()
    for at, agents, who, success, _conversation, source, length, uploaded_at in rows:
        # A turn of a file without times is dated when it is stored, which is after its file came.
        if uploaded_at is None or at < uploaded_at:
            hours[timezone.localtime(at).hour] += 1
        lengths[next((str(label) for max_length, label in LENGTHS if length <= max_length), str(LONGER))] += 1
        sources[source.partition(" · ")[0]] += 1
        for number in [number_ for number_ in agents if number_ in by_number] or [None]:
            answering_agent = answering.setdefault(number, Answering(by_number[number] if number is not None else None))
            answering_agent.turns += 1
            answering_agent.rated += success is not None
            answering_agent.good += bool(success)
        lacking = {name for role, name in who if is_agent(role) and roster.lacks(name)}
        spellings.update(lacking)
        missing.update({_one(name) for name in lacking})
        whole |= {name for role, name in who if role == AGENT}
    order = [str(label) for _most, label in LENGTHS] + [str(LONGER)]
    return Traffic(
        turns=len(rows),
        conversations=len({row[4] for row in rows if row[4]}),
        whole=len(rows) < NEWEST,
        answering=sorted(answering.values(), key=lambda answering_agent: (answering_agent.agent is None, -answering_agent.turns)),
        missing=_written(missing, spellings, whole)[:LISTED],
        hours={
            "type": "bar", "labels": [f"{hour:02}" for hour in range(24)], "datasets": [{"label": _("turns"), "data": hours}],
            "x": _("hour of the day"), "y": _("turns"),
        },
        undated=len(rows) - sum(hours),
        lengths=[(label, lengths[label]) for label in order],
        sources=sources.most_common(),
        languages=_languages(list(turns.values_list("query__text", flat=True)[:READ])),
        problems=list(SpanProblem.objects.filter(pool=pool)[:20]),
        waiting=SpanBatch.objects.filter(pool=pool).exists(),
        unasked=_unasked(pool).order_by()[: MOST + 1].count(),
    )  # fmt: skip


def _languages(texts: Sequence[str]) -> list[tuple[str, int]]:
    """In which languages texts are, as far as that can be told, by name, the most frequent first."""
    named = [(name_of(code), count) for code, count in languages.counted(texts).items()]
    untold = len(texts) - sum(count for _name, count in named)
    return [*named, (_("too short to tell, or another"), untold)] if untold else named


def _one(name: str) -> str:
    """What the spellings of one agent share: `transfer_to_billing` and `Billing Agent` are one."""
    return core(name) or name


def _written(turns: Counter[str], spellings: Counter[str], whole: set[str]) -> list[tuple[str, int]]:
    """(name, turns) of each agent, the most frequent first. Of its spellings, one of an agent's own span goes before a handoff's, then
    one with capitals or spaces, as people write names, then the most frequent."""
    best: dict[str, tuple[bool, bool, int, str]] = {}
    for name, count in spellings.items():
        rank = (name in whole, name != name.lower() or " " in name, count, name)
        best[_one(name)] = max(best.get(_one(name), rank), rank)
    return sorted(((best[one][-1], count) for one, count in turns.items()), key=lambda pair: (-pair[1], pair[0]))


#: Letters of a name that can be kept; few that are normalised get longer.
LONGEST_VALUE = 200
#: What people say of a name that traces have and the pool lacks: an agent to add, no agent, the agent with an id, another such name.
NEW, NO_AGENT, IS_AGENT, IS_NAME = "new", "none", "agent-", "name-"


def explain_names(pool: Pool, choices: Mapping[str, str], actor: Any) -> list[Agent]:
    """Keep what names of the pool's `missing` agents mean, in all their spellings, and add those that are NEW; returns these. A choice
    is NEW, NO_AGENT, IS_AGENT with an id, IS_NAME with another of the names, or "" for later. Names that traffic does not
    have are passed over. Raises PoolError."""
    spellings = _spellings_lacked(pool)
    chosen = {name: choice for name, choice in choices.items() if choice and _one(name) in spellings}
    active = set(pool.agents.active().values_list("number", flat=True))
    with transaction.atomic():
        added = {name: pools.add_agent(pool, name, actor=actor) for name, choice in chosen.items() if choice == NEW}
        numbers = {f"{IS_AGENT}{number}": number for number in active}
        numbers |= {f"{IS_NAME}{name}": agent.number for name, agent in added.items()}
        for name in chosen:
            choice = _end_of(name, chosen)
            if choice == NEW:
                continue
            if choice != NO_AGENT and choice not in numbers:
                raise pools.PoolError(
                    _("Choose what “%(name)s” is: the agent chosen for it is not there.") % {"name": name}
                )
            agents = None if choice == NO_AGENT else [numbers[choice]]
            values = {normalise(spelling) for spelling in spellings[_one(name)]}
            for value in (value for value in values if len(value) <= LONGEST_VALUE):
                LabelValue.objects.update_or_create(pool=pool, value=value, defaults={"agents": agents})
        if chosen:
            detail = {"names": len(chosen), "added": len(added)}
            audit.record("traffic.names", actor=actor, target=pool.name, pool=pool, detail=detail)
    names.read_again(pool)
    return list(added.values())


def _end_of(name: str, chosen: Mapping[str, str]) -> str:
    """What a name is at last, where it is the same as one that is chosen to be something else than NEW."""
    choice, passed = chosen[name], {name}
    while choice.startswith(IS_NAME):
        other = choice.removeprefix(IS_NAME)
        if other in passed or chosen.get(other, NEW) == NEW:
            break
        passed.add(other)
        choice = chosen[other]
    return choice


def explained(pool: Pool) -> list[tuple[str, Agent | None]]:
    """(name, its agent, None for no agent) of the names that somebody explained on the page Traffic."""
    agents = {agent.number: agent for agent in pool.agents.all()}
    values = LabelValue.objects.filter(pool=pool, upload=None).values_list("value", "agents")
    return [(value, agents.get(ids[0]) if ids else None) for value, ids in values]


def forget_name(pool: Pool, value: str, actor: Any) -> bool:
    """Ask about an explained name again; returns whether there was one."""
    if not LabelValue.objects.filter(pool=pool, upload=None, value=value).delete()[0]:
        return False
    audit.record("traffic.name_forgotten", actor=actor, target=value, pool=pool)
    names.read_again(pool)
    return True


def _spellings_lacked(pool: Pool) -> dict[str, set[str]]:
    """Form of a missing agent's name → its spellings in the newest turns."""
    roster, spellings = Roster(pool), defaultdict[str, set[str]](set)
    newest = TracedTurn.objects.filter(pool=pool).order_by("-pk").values_list("names", flat=True)[:NEWEST]
    for pairs in newest:
        for role, name in pairs:
            if is_agent(role) and roster.lacks(name):
                spellings[_one(name)].add(name)
    return spellings


def came_in(pool: Pool) -> bool:
    """Whether any user turn has come in as a trace."""
    return TracedTurn.objects.filter(pool=pool).exists()


def waits(pool: Pool) -> bool:
    """Whether queries of the newest NEWEST turns wait until somebody chooses which of them people label."""
    newest = TracedTurn.objects.filter(pool=pool).order_by("-pk").values("query")[:NEWEST]
    return _unasked(pool).filter(pk__in=newest).exists()


def _unasked(pool: Pool) -> "QuerySet[Query]":
    """Queries of traffic that nobody has labeled or is asked about."""
    queued = Exists(QueueItem.objects.filter(query=OuterRef("pk"), agent__isnull=True))
    labeled = Exists(Label.objects.current().filter(query=OuterRef("pk")))
    traced = Exists(TracedTurn.objects.filter(query=OuterRef("pk")))
    return Query.objects.of(pool).filter(traced).exclude(queued).exclude(labeled)


def queue_sample(pool: Pool, count: int) -> int:
    """Ask people about the queries of traffic that teach most; returns about how many. At most MOST at once."""
    chosen = sample(pool, min(count, MOST))
    return sending.send(Query.objects.filter(pk__in=chosen), pool) or len(chosen)


def sample(pool: Pool, count: int) -> list[int]:
    """The keys of so many queries: half of them drawn at random, so that figures on them speak for the traffic; half varied, those
    first that went badly or that no agent of the pool answered."""
    newest = _unasked(pool).order_by("-pk")[: 10 * CHOSEN_FROM].values_list("pk", flat=True)
    draw = random.Random(pool.pk)  # noqa: S311 - a sample needs no secret
    keys = list(newest)
    draw.shuffle(keys)
    fair, rest = keys[: count // 2], keys[count // 2 : count // 2 + CHOSEN_FROM]
    texts = dict(Query.objects.filter(pk__in=rest).values_list("pk", "text"))
    doubt = dict.fromkeys(texts, OTHER)
    for key, agents, success in TracedTurn.objects.filter(query__in=rest).values_list("query_id", "agents", "success"):
        if key in doubt:
            doubt[key] = max(doubt[key], FAILED if success is False else NOBODY if not agents else OTHER)
    vectors = asking_order.features(list(texts.values()))
    order = asking_order.varied(vectors, np.array(list(doubt.values()), np.float64), limit=count - len(fair))
    listed = list(texts)
    return fair + [listed[place] for place in order]
