"""What the labeling page draws of an item: its text, its agents in the order that they keep, suggestions, history."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.access import Role, roles_of
from agents_app.models import Agent, Pool
from agents_app.texts import keywords
from datasets_app.figures import progress
from datasets_app.labeling import one_query, queue
from datasets_app.labels import trust
from datasets_app.labels.suggestions import Offer, mean_score, proposed
from datasets_app.models import Assignment, Draft, Label, Query
from datasets_app.pages import chat
from datasets_app.traces import traffic

SKIP_REASONS = (
    gettext_lazy("I do not understand it"),
    gettext_lazy("It needs what was said before"),
    gettext_lazy("It is not in a language I read"),
    gettext_lazy("It holds personal data"),
    gettext_lazy("The guidelines do not cover it"),
)


#: The keys of agents in their order: digits, then letters that no command has (label_keys.js).
SIGNS = "123456789QWERTYIOPJKXCVBMF"


def key_of(position: int) -> str:
    """The key of the agent at that position of a pool's active ones, from 0; "" where all are given out."""
    return SIGNS[position] if position < len(SIGNS) else ""


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent as the labeling page draws it. `key` is its digit or letter, "" where all are given out; `scores` are (p, source,
    whether it names the agent) of each source, in one order for all agents."""

    agent: Agent
    key: str
    chosen: bool
    suggested: bool
    scores: Sequence[tuple[str, str, bool]]


def address(pool: Pool, agent: Agent | None) -> str:
    """Where the queue is: the pool's own, or the one about a single agent."""
    return reverse("reask", args=[pool.slug, agent.number]) if agent else reverse("label", args=[pool.slug])


def counts(pool: Pool, person: User, agent: Agent | None = None) -> dict[str, int]:
    """How much this person has done today, and how much waits for somebody."""
    remaining = progress.left(pool, person, agent)
    return {"today": queue.done_today(pool, person), "left": remaining.yours, "others": remaining.others}


def item(lease: Assignment, choice: one_query.Choice | None = None, problem: str = "") -> dict[str, Any]:
    """The item: its text, its agents in the order that they keep, what is chosen."""
    query, person = lease.item.query, lease.person
    only = lease.item.agent
    agents = [only] if only else list(Agent.objects.filter(pool=lease.item.pool_id).active().order_by("number"))
    numbers = [agent.number for agent in agents]
    offers = one_query.suggested(lease)
    label = one_query.own_label(query, person)
    draft = one_query.draft_of(lease)
    if choice is None:
        choice = _stored(draft, None if only else label, one_query.own_answer(query, person), numbers)
    measured = trust.of_versions(lease.item.pool) if offers else {}
    shown = {version: agreed for version, agreed in measured.items() if agreed[1] >= trust.SHOWN_FROM}
    weights = trust.weights(lease.item.pool) if offers else {}
    suggested = proposed(offers, numbers, weights)
    rows = [
        AgentRow(
            agent=agent,
            key=key_of(position),
            chosen=agent.number in choice.required,
            suggested=agent.number in suggested,
            scores=[
                (
                    number_format(offer.score(agent.number), 2) if agent.number in offer.scores else "",
                    _source(offer),
                    agent.number in offer.required,
                )
                for offer in offers
            ],
        )
        for position, agent in enumerate(agents)
    ]
    rows.sort(
        key=lambda row: (not row.suggested, -mean_score(offers, row.agent.number, weights) if row.suggested else 0)
    )
    return {
        "query": query,
        "lease": lease,
        "only": only,
        "at": address(lease.item.pool, only),
        "text": underlined(query.text, agents),
        "chat": chat.earlier(query.routed_text, agents, _own_earlier(query, person, agents)),
        "rows": rows,
        "asked": ",".join(map(str, numbers)),
        "choice": choice,
        "offers": [(offer, _source(offer), shown.get((offer.source, offer.version))) for offer in offers],
        "none_suggested": bool(offers) and not suggested,
        "suggested": ",".join(map(str, sorted(suggested))),
        "base": label.pk if label else 0,
        "own": label,
        "version": draft.version if draft else 0,
        "problem": problem,
    }


def _own_earlier(query: Query, person: User, agents: Sequence[Agent]) -> dict[int, list[Agent]]:
    by_number = {agent.number: agent for agent in agents}
    required_by_turn = one_query.own_earlier(query, person) if query.turn else {}
    return {
        place: [by_number[n] for n in sorted(needed) if n in by_number] for place, needed in required_by_turn.items()
    }


def _stored(
    draft: Draft | None, label: Label | None, suggested: frozenset[int] | None, numbers: Sequence[int]
) -> one_query.Choice:
    if draft is not None:
        return one_query.Choice(frozenset(draft.required), draft.none, draft.unsure, frozenset(numbers), draft.note)
    if label is not None:
        required = suggested or frozenset()
        return one_query.Choice(required, not required, label.unsure, frozenset(numbers), label.note)
    return one_query.Choice(frozenset(), False, False, frozenset(numbers))


def _source(offer: Offer) -> str:
    if offer.fallback:
        return _("keywords") if offer.fallback == "keyword" else _("all agents")
    return offer.called


def underlined(text: str, agents: Sequence[Agent]) -> SafeString:
    """The text, escaped, with every agent's keywords underlined and named on hover; they stand out without colour."""
    words = [(word.strip(), agent.name) for agent in agents for word in agent.keywords if word.strip()]
    names = {keywords.folded(word): name for word, name in words}
    if not names:
        return escape(text)
    pieces, at = [], 0
    for match in keywords.pattern(word for word, _name in words).finditer(text):
        name = names.get(keywords.folded(match.group()), "")
        pieces += [text[at : match.start()], format_html('<u title="{}">{}</u>', name, match.group())]
        at = match.end()
    return format_html_join("", "{}", ([piece] for piece in [*pieces, text[at:]]))


def nothing(pool: Pool, person: User, agent: Agent | None = None) -> dict[str, Any]:
    """Why there is nothing to do: never an unexplained "no tasks"; and what to do next, by the person's role."""
    roles = roles_of(person, pool)
    return {
        "query": None,
        "only": agent,
        "at": address(pool, agent),
        "reask": progress.questions(pool, person),
        "holdings": [holding for holding in queue.holdings(pool, agent) if holding.person.pk != person.pk],
        "skipped": queue.skipped(pool, person, agent),
        "queries": Query.objects.of(pool).exists(),
        "agents": pool.agents.filter(state=Agent.State.ACTIVE).exists(),
        "open_for_others": progress.left(pool, person, agent).others,
        "traffic": agent is None and traffic.waits(pool),
        "may_choose": bool({Role.REVIEWER, Role.OPS} & roles),
        "may_train": agent is None and Role.OPS in roles and progress.trainable(pool),
    }


def history(pool: Pool, query: Query, viewer: Any) -> list[dict[str, Any]]:
    """What was said of a query, oldest first: who, when, what was added to and removed from what they had said before."""
    agents = {agent.number: agent for agent in pool.agents.all()}
    before: dict[tuple[str, int | None], set[int]] = {}
    events = []
    for label in one_query.visible_labels(query, viewer):
        slot = (label.source, label.author_id if label.source == Label.Source.HUMAN else None)
        old = before.get(slot, set())
        now = set(label.required) | (old - set(label.asked) if label.partial else set())
        withdrawn = "withdrawn_by" in label.provenance
        events.append(
            {
                "label": label,
                "who": (label.author.get_short_name() or label.author.get_username()) if label.author else "",
                "agents": [agents[n] for n in label.required if n in agents],
                "first": slot not in before,
                "added": [agents[n] for n in sorted(now - old) if n in agents],
                "removed": [agents[n] for n in sorted(old - now) if n in agents],
                "withdrawn": withdrawn,
            }
        )
        if not withdrawn:
            before[slot] = now
    return events
