"""Must-pass cases: added, removed, and run at once against any model of their pool.

A case is broken where the model's answer is another set, or where it abstains. A promotion, a canary and a roll-back ask `finding`
through the gate. Answers are kept in memory by the model's digest: pages ask often, and an artifact never changes its mind.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.cache import caches
from django.db import transaction
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import allowed_sets, audit, privacy
from agents_app.audit import Who
from agents_app.models import Agent, Pool
from datasets_app.labels import voices
from datasets_app.models import text_hash
from routerweb.erasing import ErasedQuery
from training_app.engine.data.conversations import earlier_as_json
from training_app.engine.data.examples import normalise
from training_app.engine.data.file_rows import BadRow, text_of
from training_app.engine.routing import holding
from training_app.engine.routing.allowed import Rules
from training_app.models import MustPassCase, RouterModel
from training_app.versions import kinds, registry

#: Cases of one pool: as many are routed within about a second on one core.
MOST_CASES = 1_000
#: Broken cases that a sentence names.
MOST_NAMED = 3
#: Seconds for which answers are kept.
KEPT_SECONDS = 3_600

Answers = dict[str, tuple[tuple[int, ...], bool]]  # a text's hash → the answered ids, and whether the model abstained


class CaseError(Exception):
    """Why a case cannot be kept, in words for whoever asked for it. `field` is what is wrong."""

    def __init__(self, reason: str, field: str) -> None:
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True, slots=True)
class Checked:
    """A case beside one model's answer. `required` and `answered` are agents as they are called today, those of merges resolved;
    `retired` are required ones that no model may choose any more."""

    case: MustPassCase
    required: tuple[Agent, ...]
    answered: tuple[Agent, ...]
    abstained: bool
    retired: tuple[Agent, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the model routes the query as it has to."""
        same = {agent.pk for agent in self.required} == {agent.pk for agent in self.answered}
        return same and not self.abstained and not self.retired

    def sentence(self) -> str:
        """The case, and for a broken one what the model does instead."""
        values = {
            "text": Truncator(self.case.text).chars(70),
            "required": _named(self.required),
            "answered": _named(self.answered),
        }
        if self.holds:
            return _("“%(text)s” goes to %(required)s.") % values
        if self.retired:
            return _("“%(text)s” must go to %(retired)s, which is retired: change the case.") % {
                **values,
                "retired": _named(self.retired),
            }
        if self.abstained:
            return _("“%(text)s” must go to %(required)s; this model does not know.") % values
        return _("“%(text)s” must go to %(required)s; this model says %(answered)s.") % values


def of(pool: Pool) -> list[MustPassCase]:
    """The pool's cases in the order in which they were made."""
    return list(MustPassCase.objects.filter(pool=pool).select_related("owner"))


def add(
    pool: Pool,
    text: str,
    required: Collection[int],
    *,
    owner: Who,
    reason: str,
    source: str = MustPassCase.Source.WRITTEN,
) -> MustPassCase:
    """Keep that `text` must always be routed to the agents with the ids `required`; a case of the same text is replaced.

    `text` knows what was said before it where anything was. Raises CaseError for a text that cannot be stored, an agent that the pool
    does not have in use, a missing reason, and a pool that has MOST_CASES.
    """
    reason = reason.strip()[:400]
    if not reason:
        raise CaseError(_("Say why it must be so: the reason is shown to whoever breaks it."), "reason")
    try:
        text_of(text)
    except BadRow as problem:
        raise CaseError(problem.reason, "text") from None
    active = set(pool.agents.active().values_list("number", flat=True))
    if unknown := set(required) - active:
        raise CaseError(_("%(pool)s has no agent %(id)d in use.") % {"pool": pool.slug, "id": min(unknown)}, "required")
    by, earlier = audit.actor_of(owner), earlier_as_json(text)
    stored, messages = str(text), earlier
    if redactor := privacy.redactor_of(pool.pk):
        stored, messages = redactor.text(stored), redactor.value(earlier) if earlier else None
    values: dict[str, Any] = {
        "text": stored,
        "messages": messages,
        "required": sorted(set(required)),
        "reason": reason,
        "source": source,
        "owner": by.user,
        "owner_name": by.name[:150],
    }
    digest = text_hash(MustPassCase(text=stored, messages=messages).routed_text)
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        present = MustPassCase.objects.filter(pool=pool)
        if not present.filter(text_hash=digest).exists() and present.count() >= MOST_CASES:
            raise CaseError(_("A pool has at most %(most)d cases. Remove one first.") % {"most": MOST_CASES}, "text")
        case, new = MustPassCase.objects.update_or_create(pool=pool, text_hash=digest, defaults=values)
        detail = {"agents": case.required, "reason": reason, "from": str(source)}
        audit.record(
            "case.added" if new else "case.changed", actor=owner, target=f"case {case.pk}", pool=pool, detail=detail
        )
    return case


def remove(case: MustPassCase, *, actor: Who) -> None:
    """Hold models to it no longer."""
    with transaction.atomic():
        detail = {"agents": case.required, "reason": case.reason, "owner": case.owner_name}
        audit.record("case.removed", actor=actor, target=f"case {case.pk}", pool=case.pool, detail=detail)
        MustPassCase.objects.filter(pk=case.pk).delete()


def check(model: RouterModel, cases: Sequence[MustPassCase] | None = None) -> list[Checked]:
    """Every case of the model's pool, or these `cases` of it, beside the model's answer; empty for a model that answers no queries.

    Raises RegistryError where the model's artifact is gone, damaged or cannot be used.
    """
    if not kinds.of(model.kind).answers:
        return []
    cases = of(model.pool) if cases is None else cases
    if not cases:
        return []
    agents = {agent.number: agent for agent in model.pool.agents.all()}
    in_use = frozenset(number for number, agent in agents.items() if agent.state == Agent.State.ACTIVE)
    merged = voices.merges([model.pool_id])[model.pool_id]
    answers = _answers(model, cases, in_use, allowed_sets.rules_of(model.pool, list(agents.values())))
    return [_checked(case, answers[case.text_hash], agents, merged) for case in cases]


def broken(checked: Iterable[Checked]) -> list[Checked]:
    """Those that do not hold."""
    return [checked_case for checked_case in checked if not checked_case.holds]


def summary(checked: Sequence[Checked]) -> str:
    """How many of the cases hold, and the first broken ones by name; "" without cases."""
    if not checked:
        return ""
    wrong = broken(checked)
    if not wrong:
        text = ngettext("The one must-pass case holds.", "All %(n)d must-pass cases hold.", len(checked))
        return text % {"n": len(checked)}
    text = ngettext(
        "%(broken)d of %(n)d must-pass cases is broken.", "%(broken)d of %(n)d must-pass cases are broken.", len(wrong)
    ) % {"broken": len(wrong), "n": len(checked)}
    named = " ".join(checked_case.sentence() for checked_case in wrong[:MOST_NAMED])
    more = len(wrong) - MOST_NAMED
    rest = " " + ngettext("%(n)d more is broken.", "%(n)d more are broken.", more) % {"n": more} if more > 0 else ""
    return f"{text} {named}{rest}"


def forget(erased: Sequence[ErasedQuery]) -> None:
    """Remove the cases of these texts: without its text a case can hold nobody to anything."""
    by_pool: dict[int, set[str]] = {}
    for query in erased:
        by_pool.setdefault(query.pool, set()).add(normalise(str(query.text)))
    for case in MustPassCase.objects.select_related("pool").order_by("pk").iterator(chunk_size=500):
        contents = [case.text, *(message["content"] for message in case.messages or ())]
        if any(normalise(part) in texts for texts in by_pool.values() for part in contents):
            _erase([case])


def delete_rows(keys: Sequence[Any], erasing: Any) -> None:
    """Remove the cases in which somebody's data were found; `erasing` says who erases."""
    _erase(MustPassCase.objects.select_related("pool").filter(pk__in=keys), erasing.actor)


def _erase(cases: Iterable[MustPassCase], actor: Who = None) -> None:
    for case in cases:
        with transaction.atomic():
            audit.record("case.erased", actor=actor, target=f"case {case.pk}", pool=case.pool)
            MustPassCase.objects.filter(pk=case.pk).delete()


def _checked(
    case: MustPassCase,
    answer: tuple[tuple[int, ...], bool],
    agents: Mapping[int, Agent],
    merged: voices.Merges,
) -> Checked:
    chosen, abstained = answer
    required = sorted({voices.end_of(number, merged) for number in case.required})
    return Checked(
        case,
        tuple(agents[number] for number in required if number in agents),
        tuple(agents[number] for number in sorted(chosen) if number in agents),
        abstained,
        tuple(agents[number] for number in required if agents[number].state != Agent.State.ACTIVE),
    )


def _answers(model: RouterModel, cases: Sequence[MustPassCase], in_use: frozenset[int], rules: Rules) -> Answers:
    """The model's answer to each case, as requests get it, from memory where it was asked before with the same agents and rules."""
    key = f"cases:{model.artifact_digest}:{hash((in_use, rules))}"
    cached: Answers = caches["process"].get(key) or {}
    missing = [case for case in cases if case.text_hash not in cached]
    if missing:
        routes = holding.routes(registry.load_model(model), [case.routed_text for case in missing], in_use, rules=rules)
        fresh = {
            case.text_hash: (tuple(route.agents), bool(route.abstained))
            for case, route in zip(missing, routes, strict=True)
        }
        cached = {case.text_hash: cached[case.text_hash] for case in cases if case.text_hash in cached} | fresh
        caches["process"].set(key, cached, KEPT_SECONDS)
    return cached


def _named(agents: Sequence[Agent]) -> str:
    return ", ".join(agent.name for agent in agents) or _("no agent")
