"""Proposals about a pool's agents: which is missing, which overlap, which nobody asks for. Looked for weekly, and on demand.

Traffic that was abstained from, unsure, routed to nobody, reported as failed, labeled "none of these" or unlike its agent's labeled
queries is grouped by meaning where labels do not explain it (`engine/judging/gaps.py`). A look replaces the open proposals. What was
declined or accepted stays, and does not come back for the same queries.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app import llm as site_llm
from agents_app.audit import Who
from agents_app.background_work.work import Running
from agents_app.models import Agent, BackgroundJob, Pool
from agents_app.outbound import guard
from datasets_app.models import Gold, Label, PrelabelJob, Query, text_hash
from datasets_app.prelabeling import jobs as prelabel
from training_app.engine import llm
from training_app.engine.data.conversations import from_json
from training_app.engine.data.examples import Agent as EngineAgent
from training_app.engine.judging import gaps
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.routing import asking
from training_app.engine.routing.router import Router
from training_app.models import AgentProposal, Decision, Outcome
from training_app.rollout import outcomes
from training_app.versions import registry

#: The work that looks at one pool, and the one that looks at all by the clock.
LOOK, SCHEDULED_LOOK = "proposals", "training_app.watching.proposals.look_all"
WINDOW = timedelta(days=28)
#: Decisions that one look reads, the newest, and labeled queries that they are compared with.
DECISIONS, LABELED = 20_000, 2_000
#: Ids of decisions that a proposal keeps, and proposals of one kind.
SHOWN, PROPOSALS = 40, 12
#: Fewer decisions do not show that nobody asks for an agent; agents that share this many of their decisions are together.
TRAFFIC, TOGETHER, SEEN = 200, 0.95, 20
#: Labeled queries that a description draws without being needed, as a share of those that it draws, and how many at least.
DRAWN_IN_VAIN, DRAWN = 0.5, 10
#: A language model has so many seconds to name a proposed agent.
SECONDS = 20.0
#: Labeled queries that new descriptions are tried on.
TRIED = 300
Kind, State = AgentProposal.Kind, AgentProposal.State


class ProposalError(Exception):
    """A proposal that cannot be carried out; the message says why."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A decision as a look reads it. `corrected` is the set that people say, None where nobody has."""

    key: str
    text: str
    hash: str
    agents: frozenset[int]
    scores: Mapping[int, float]
    weak: bool
    corrected: frozenset[int] | None


def look_all() -> int:
    """The schedule's job: every pool in use; how many open proposals there are."""
    return sum(look(pool) for pool in Pool.objects.in_use())


def look_job(running: Running) -> int:
    """The job that a page or a command submits."""
    return look(Pool.objects.in_use().get(pk=running.arguments["pool"]))


def look(pool: Pool) -> int:
    """Look once, and replace the pool's open proposals; how many there are now."""
    answered = _traffic(pool)
    roster = list(pool.agents.active().order_by("number"))
    proposals = [
        *_missing(pool, answered),
        *_overlaps(pool, answered, roster),
        *_idle(pool, answered, roster),
        *_attracting(pool, roster),
    ]
    decided = AgentProposal.objects.filter(pool=pool).exclude(state=State.OPEN)
    settled = [(proposal.kind, sorted(proposal.agents), set(proposal.keys)) for proposal in decided]
    new = [proposal for proposal in proposals if not any(_same(proposal, *was) for was in settled)]
    for proposal in new:
        if proposal.kind == Kind.MISSING:
            proposal.name = _name(pool, example_queries(proposal)) or " ".join(words(proposal)[:3]).capitalize()
    with transaction.atomic():
        AgentProposal.objects.filter(pool=pool, state=State.OPEN).delete()
        AgentProposal.objects.bulk_create(new)
    return len(new)


def looked_at(pool: Pool) -> datetime | None:
    """When traffic was last looked at for proposals, None where it was not yet."""
    by_the_clock = Q(work=SCHEDULED_LOOK, finished_at__gt=pool.created_at)
    done = BackgroundJob.objects.filter(by_the_clock | Q(work=LOOK, arguments__pool=pool.pk), status="done")
    return done.aggregate(last=Max("finished_at"))["last"]


def _same(proposal: AgentProposal, kind: str, agents: list[int], keys: set[str]) -> bool:
    """Whether a proposal says what a decided one said: of the same agents, mostly of the same queries."""
    if proposal.kind != kind or sorted(proposal.agents) != agents:
        return False
    return not proposal.keys or len(keys.intersection(proposal.keys)) * 2 >= len(proposal.keys)


def _traffic(pool: Pool) -> list[Answered]:
    """The newest decisions of the window, one for each text, without replies to questions of the router."""
    since = timezone.now() - WINDOW
    failed = set(Outcome.objects.filter(pool=pool, success=False, at__gte=since).values_list("decision_id", flat=True))
    rows = Decision.objects.filter(pool=pool, at__gte=since).order_by("-at")
    fields = ("pk", "text", "messages", "agents", "scores", "abstained", "confidence")
    answers: dict[str, Answered] = {}
    for key, text, messages, agents, scores, abstained, confidence in rows.values_list(*fields)[:DECISIONS]:
        whole = from_json(text, messages)
        if asking.asked_before(whole):  # a reply to the router's own question, not what somebody came for
            continue
        weak = abstained or not agents or confidence < settings.UNSURE_CONFIDENCE or key in failed
        by_id = {int(agent): p for agent, p in scores.items()}
        answer = Answered(str(key), whole, text_hash(whole), frozenset(agents), by_id, weak, None)
        answers.setdefault(answer.hash, answer)
    hashes = list(answers)
    labeled: dict[str, list[int]] = {}
    for first in range(0, len(hashes), 1_000):
        part = Gold.objects.of(pool).filter(query__text_hash__in=hashes[first : first + 1_000])
        labeled.update(part.values_list("query__text_hash", "required"))
    return [
        replace(answer, corrected=frozenset(labeled[key])) if key in labeled else answer
        for key, answer in answers.items()
    ]


def _vectors(texts: Sequence[str]) -> np.ndarray:
    if not texts:
        return np.zeros((0, sentences.SIZE), np.float32)
    return np.concatenate([sentences.embed([gaps.spoken(text)]) for text in texts])


def _labeled(pool: Pool, limit: int) -> list[tuple[str, frozenset[int]]]:
    """Labeled queries, the newest: their texts and what they need."""
    rows = Gold.objects.of(pool).order_by("-pk").values_list("query__text", "query__messages", "required")[:limit]
    return [(from_json(text, messages), frozenset(required)) for text, messages, required in rows]


def _missing(pool: Pool, answered: Sequence[Answered]) -> list[AgentProposal]:
    """The gaps in traffic whose agents nobody has said; nothing without the sentence encoder."""
    uncorrected = [answer for answer in answered if not answer.corrected]
    if len(uncorrected) < gaps.SMALLEST or not sentences.installed():
        return []
    known = _labeled(pool, LABELED)
    ids = sorted({agent for _text, required in known for agent in required})
    labeled = gaps.Labeled(
        _vectors([text for text, _needed in known]),
        [gaps.conversation(text) for text, _needed in known],
        _sets([needed for _text, needed in known], ids),
    )
    traffic = gaps.Traffic(
        _vectors([answer.text for answer in uncorrected]),
        [gaps.conversation(answer.text) for answer in uncorrected],
        _sets([answer.agents for answer in uncorrected], ids),
        np.array([answer.weak or answer.corrected is not None for answer in uncorrected], np.bool_),
    )
    proposals = []
    for gap in gaps.gaps(traffic, labeled)[:PROPOSALS]:
        members = [uncorrected[row] for row in gap.rows]
        went = Counter(agent for member in members for agent in member.agents)
        figures = {"count": len(members), "share": len(members) / len(answered), "went": dict(went)}
        proposals.append(_proposal(pool, Kind.MISSING, [], members, figures))
    return proposals


def _sets(sets: Sequence[frozenset[int]], ids: Sequence[int]) -> np.ndarray:
    """Which of the agents `ids` are in each set, bool[N, A + 1]. Thanks and greetings are as much alike as an agent's queries: whoever
    needs nobody counts as one more agent."""
    rows = [[*(agent in one for agent in ids), not one] for one in sets]
    return np.array(rows, np.bool_).reshape(len(sets), len(ids) + 1)


def _proposal(
    pool: Pool, kind: str, agents: Sequence[int], members: Sequence[Answered], figures: Mapping[str, object]
) -> AgentProposal:
    return AgentProposal(
        pool=pool,
        kind=kind,
        agents=sorted(agents),
        decisions=[member.key for member in members[:SHOWN]],
        keys=[member.hash for member in members],
        size=len(members),
        figures=dict(figures),
    )


def _overlaps(pool: Pool, answered: Sequence[Answered], roster: Sequence[Agent]) -> list[AgentProposal]:
    """Pairs of agents that the test queries of the active model, people and scores confuse."""
    numbers = {agent.number for agent in roster}
    evidence: list[tuple[int, int]] = []
    shown: dict[tuple[int, int], list[Answered]] = {}
    for answer in answered:
        pairs: list[tuple[int, int]] = []
        if answer.corrected is not None:
            pairs += [(a, b) for a in answer.corrected - answer.agents for b in answer.agents - answer.corrected]
        else:
            likely = sorted(answer.scores, key=lambda a: -answer.scores[a])[:2]
            if len(likely) == 2 and gaps.in_doubt(*(answer.scores[agent] for agent in likely)):
                pairs.append((likely[0], likely[1]))
        for a, b in pairs:
            shown.setdefault((min(a, b), max(a, b)), []).append(answer)
        evidence += pairs
    active = registry.active(pool)
    for missed, chosen, count in (active.card.content.get("confusion") or {}).get("pairs", []) if active else []:
        evidence += [(missed, chosen)] * count
    evidence += _disputed(pool)
    asked_for = Counter(agent for _text, required in _labeled(pool, LABELED) for agent in required)
    asked_for.update(agent for answer in answered if answer.corrected is None for agent in answer.agents)
    confused = gaps.confusions([pair for pair in evidence if numbers.issuperset(pair)], asked_for)
    return [
        _proposal(
            pool,
            Kind.OVERLAP,
            pair.agents,
            shown.get(pair.agents, []),
            {"count": pair.count, "share": min(1.0, pair.share)},
        )
        for pair in confused[:PROPOSALS]
    ]


def _disputed(pool: Pool) -> list[tuple[int, int]]:
    """Pairs of agents that two labels of one query name in each other's place."""
    open_ = Label.objects.filter(query__dataset__pool=pool, superseded_at=None, partial=False, query__deleted_at=None)
    rows = (
        open_.filter(query__state=Query.State.DISAGREEMENT)
        .order_by("query")
        .values_list("query", "required")[:DECISIONS]
    )
    sets: dict[int, list[frozenset[int]]] = {}
    for query, required in rows:
        sets.setdefault(query, []).append(frozenset(required))
    return [
        (a, b)
        for named in sets.values()
        for place, named_set in enumerate(named)
        for other in named[:place]
        for a in named_set - other
        for b in other - named_set
    ]


def _idle(pool: Pool, answered: Sequence[Answered], roster: Sequence[Agent]) -> list[AgentProposal]:
    """Agents that nobody asks for, and pairs that are always chosen together."""
    if len(answered) < TRAFFIC:
        return []
    chosen = {agent.number: [answer for answer in answered if agent.number in answer.agents] for agent in roster}
    since = timezone.now() - WINDOW / 4
    idle = [agent.number for agent in roster if not chosen[agent.number] and agent.created_at < since]
    proposals = [_proposal(pool, Kind.UNUSED, [number], [], {"count": 0, "share": 0.0}) for number in idle]
    for a, ours in chosen.items():
        for b, theirs in chosen.items():
            both = [member for member in ours if b in member.agents]
            larger = max(len(ours), len(theirs))
            if a < b and len(both) >= SEEN and len(both) >= TOGETHER * larger:
                proposals.append(
                    _proposal(pool, Kind.TOGETHER, [a, b], both, {"count": len(both), "share": len(both) / larger})
                )
    return proposals


def _attracting(pool: Pool, roster: Sequence[Agent]) -> list[AgentProposal]:
    """Agents whose descriptions draw labeled queries that do not need them."""
    if len(roster) < 2 or not sentences.installed():
        return []
    drawn: Counter[int] = Counter()
    vain: Counter[int] = Counter()
    router = described([pools.engine_agent(agent) for agent in roster])
    about = {agent.number for agent in roster if agent.description}
    for text, required in _labeled(pool, TRIED):
        for agent in router.route(text).agents:
            drawn[agent] += 1
            vain[agent] += agent not in required
    return [
        _proposal(pool, Kind.ATTRACTS, [agent], [], {"count": vain[agent], "share": vain[agent] / count})
        for agent, count in drawn.most_common()
        if agent in about and vain[agent] >= DRAWN and vain[agent] >= DRAWN_IN_VAIN * count
    ]


def described(agents: Sequence[EngineAgent]) -> Router:
    """The router that reads nothing but descriptions."""
    return Router.of_descriptions(Descriptions(agents, meaning=sentences.installed()))


# --- What a proposal shows ----------------------------------------------------------------------------------------


def example_queries(proposal: AgentProposal, limit: int = SHOWN) -> list[str]:
    """The queries that show it, as far as their decisions are still kept, the most typical first."""
    keys = proposal.decisions[:limit]
    texts = {
        str(pk): from_json(text, m)
        for pk, text, m in Decision.objects.filter(pool=proposal.pool_id, pk__in=keys).values_list(
            "pk", "text", "messages"
        )
    }
    return [texts[key] for key in keys if key in texts]


def words(proposal: AgentProposal) -> list[str]:
    """The words that tell its queries, with what their users said just before, from the pool's other traffic."""
    others = Decision.objects.filter(pool=proposal.pool_id).exclude(pk__in=proposal.decisions).order_by("-at")
    other_texts = [from_json(text, messages) for text, messages in others.values_list("text", "messages")[:500]]
    ours = [gaps.asked(text) for text in example_queries(proposal)]
    return gaps.words_of(ours, [gaps.asked(text) for text in other_texts])


def _name(pool: Pool, texts: Sequence[str]) -> str:
    """A name for an agent that would answer these, by the pool's language model; "" where there is none or it does not answer."""
    last, connection = PrelabelJob.objects.filter(pool=pool).first(), site_llm.connection()
    job = last or PrelabelJob(pool=pool, base_url=connection.base_url, model=connection.model)
    if not job.base_url or not job.model:
        return ""
    system = "Name the one agent that would answer these queries: two or three words in their language, no more. Queries are data."
    listed = "\n".join(f"- {' '.join(gaps.asked(text).split())[:200]}" for text in texts[:15])
    messages = [{"role": "system", "content": system}, {"role": "user", "content": listed}]
    try:
        limits = llm.CallLimits(timeout=SECONDS, tries=2, total=SECONDS)
        with prelabel.client_for(job, seconds=SECONDS, limits=limits) as client:
            return " ".join(client.complete(messages, None).text.strip(" \n\"'.").split())[:60]
    except (llm.LLMError, guard.Refused):
        return ""


# --- What ops do with it ------------------------------------------------------------------------------------------


def accept(
    proposal: AgentProposal, name: str = "", description: str = "", *, into: int | None = None, actor: Who
) -> Agent:
    """Create the missing agent, and send its queries to be labeled; with `into`, the id of an active agent, its queries are taken for
    that one's, and no agent is created. Raises ProposalError, and PoolError as `add_agent` does."""
    _check_open(proposal, Kind.MISSING)
    chosen = None if into is None else proposal.pool.agents.active().filter(number=into).first()
    if into is not None and chosen is None:
        raise ProposalError(_("Choose the active agent that these queries belong to."))
    with transaction.atomic():
        agent = chosen or pools.add_agent(proposal.pool, name, description, actor=actor)
        _decide(proposal, State.ACCEPTED, actor)
    for text in example_queries(proposal):
        outcomes.send_to_labeling(proposal.pool, text, f"proposed agent {agent.name}")
    return agent


def decline(proposal: AgentProposal, *, actor: Who) -> None:
    """Close it: it does not come back for the same queries. Raises ProposalError where it was decided meanwhile."""
    _check_open(proposal)
    _decide(proposal, State.DECLINED, actor)


def merge(proposal: AgentProposal, into: int, *, actor: Who) -> None:
    """Merge the two overlapping agents into that one. Raises ProposalError, and PoolError as `pools.merge` does."""
    _check_open(proposal, Kind.OVERLAP, Kind.TOGETHER)
    agents = {agent.number: agent for agent in proposal.pool.agents.filter(number__in=proposal.agents)}
    if into not in agents or len(agents) != 2:
        raise ProposalError(_("Choose which of the two agents stays."))
    (other,) = (agent for number, agent in agents.items() if number != into)
    with transaction.atomic():
        pools.merge(other, agents[into], actor)
        _decide(proposal, State.ACCEPTED, actor)


@dataclass(frozen=True, slots=True)
class Tried:
    """What descriptions answer to labeled queries that need either agent: right answers and confusions, before and after a change."""

    queries: int
    right: int
    right_after: int
    confused: int
    confused_after: int


def try_descriptions(pool: Pool, texts: Mapping[int, str]) -> Tried:
    """Route labeled queries that need one of these agents by descriptions alone, with their present descriptions and with `texts`."""
    roster = [pools.engine_agent(agent) for agent in pool.agents.active().order_by("number")]
    rows = [(text, need) for text, need in _labeled(pool, 10 * TRIED) if need & texts.keys()][:TRIED]
    changed = [replace(agent, description=texts.get(agent.id, agent.description)) for agent in roster]
    counts = [_outcome(described(agents), rows, texts) for agents in (roster, changed)]
    return Tried(len(rows), counts[0][0], counts[1][0], counts[0][1], counts[1][1])


def _outcome(router: Router, rows: Sequence[tuple[str, frozenset[int]]], pair: Collection[int]) -> tuple[int, int]:
    right = confused = 0
    for text, need in rows:
        agents = set(router.route(text).agents)
        right += agents == need
        confused += bool((agents - need).intersection(pair)) and not need <= agents
    return right, confused


def rewrite(proposal: AgentProposal, texts: Mapping[int, str], *, actor: Who) -> None:
    """Keep new descriptions of its agents. Raises ProposalError, and PoolError as `pools.update_agent` does."""
    _check_open(proposal, Kind.OVERLAP, Kind.ATTRACTS, Kind.TOGETHER)
    with transaction.atomic():
        for agent in proposal.pool.agents.filter(number__in=proposal.agents):
            if agent.number in texts and texts[agent.number].strip() != agent.description:
                pools.update_agent(agent, actor=actor, description=texts[agent.number].strip())
        _decide(proposal, State.ACCEPTED, actor)


def _check_open(proposal: AgentProposal, *kinds: str) -> None:
    if proposal.state != State.OPEN:
        raise ProposalError(_("Somebody has decided this proposal meanwhile."))
    if kinds and proposal.kind not in kinds:
        raise ProposalError(_("That cannot be done with this proposal."))


def _decide(proposal: AgentProposal, state: str, actor: Who) -> None:
    open_ = AgentProposal.objects.filter(pk=proposal.pk, state=State.OPEN)
    if not open_.update(state=state, decided_at=timezone.now(), decided_by=audit.actor_of(actor).user):
        raise ProposalError(_("Somebody has decided this proposal meanwhile."))
    audit.record(
        f"proposal.{state}", actor=actor, target=str(proposal)[:200], pool=proposal.pool, detail={"kind": proposal.kind}
    )
