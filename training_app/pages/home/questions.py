"""What anybody asks about a pool, answered on Home in a sentence each, with the page that shows the rest."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from django.contrib.auth.models import User
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import llm, pools
from agents_app.access import Role, may_open
from agents_app.models import Agent, Pool, PoolRole
from agents_app.templatetags.routerweb import money
from datasets_app.models import Gold, PrelabelJob
from datasets_app.prelabeling import jobs
from routerweb import hooks
from training_app.answering import described, serving
from training_app.engine.data import shares
from training_app.engine.data.conversations import from_json
from training_app.models import Alarm, Decision, Interval, RouterModel, Run
from training_app.pages.home import facts, inbox
from training_app.pages.home.facts import Facts
from training_app.rollout import traffic_hours
from training_app.versions import scorecards, verdict

MONTH = timedelta(days=30)
RECENT = timedelta(days=7)
#: Labeled queries by which the agents' descriptions are judged: the fewest, and the most, the newest ones.
JUDGED_LEAST, JUDGED_MOST = 20, 60
#: Texts whose length stands for a month's.
TEXTS = 50
#: People or agents that are named.
NAMED = 3
#: Alarms of what waits for somebody, where nothing is broken; Home lists them with all else that waits.
UNBROKEN = (Alarm.Kind.LABELING, Alarm.Kind.APPROVAL, Alarm.Kind.KEYS, Alarm.Kind.QUOTA)


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its answer in a sentence; `address` is the page that says more and `action` what its link says, "" for none."""

    question: str
    answer: str
    action: str = ""
    address: str = ""


def questions(
    pool: Pool,
    waiting: list[inbox.Line],
    person: User,
    pool_facts: Facts | None = None,
    judged: verdict.Verdict | None = None,
    hours: Sequence[traffic_hours.Hour] | None = None,
) -> list[Question]:
    """The seven questions; `waiting` is what waits for the person in this pool. Links lead to pages that the person may open.
    `judged`: the verdict on the model in use, and `hours`: those of a month or more, where somebody has read them already."""
    pool_facts = pool_facts or facts.of([pool])[pool.pk]
    answers = (
        _good(pool, pool_facts, judged),
        _better(pool, pool_facts),
        _next(pool, pool_facts.active, waiting),
        _why(pool, pool_facts.agents),
        _cost(pool, hours),
        _broken(pool, pool_facts.alarms),
        whom(pool),
    )
    return [
        answer if _opens(person, answer.address) else Question(answer.question, answer.answer) for answer in answers
    ]


def _opens(person: User, address: str) -> bool:
    return address.startswith("mailto:") or bool(address and may_open(person, address.partition("?")[0]))


def _page(name: str, pool: Pool, *parts: object) -> str:
    return reverse(name, args=[pool.slug, *parts])


def _good(pool: Pool, pool_facts: Facts, judged: verdict.Verdict | None) -> Question:
    question, active = _("Is it good?"), pool_facts.active
    if active is not None:
        judged = judged or verdict.of(active)
        text = (
            " ".join(part for part in (judged.share(), judged.alike, judged.judge) if part)
            if judged
            else _("It was never judged.")
        )
        return Question(question, f"{active.name}: {text}", _("Verdict"), _page("model", pool, active.version))
    for model, what in pool_facts.beside:
        return Question(question, f"{model.name}: {what}", _("Verdict"), _page("model", pool, model.version))
    agents = pools.roster(pool)
    if not agents:
        return Question(question, _("Nothing answers yet."), _("Add agents"), _page("agents_add_several", pool))
    rows = Gold.objects.of(pool).order_by("-pk").values_list("query__text", "query__messages", "required", "asked")
    numbers = {agent.id for agent in agents}
    labeled = tuple(
        (from_json(text, messages), frozenset(required))
        for text, messages, required, asked in rows[:JUDGED_MOST]
        if numbers <= set(asked)
    )
    text = _("No model yet: the agents' descriptions answer.")
    if len(labeled) < JUDGED_LEAST:
        text += " " + _("How good that is shows once %(n)d queries are labeled.") % {"n": JUDGED_LEAST}
    elif (loaded := serving.current(pool.slug)) is not None:
        right = described.right(loaded.roster, loaded.rules, labeled)
        share = Interval.of(shares.wilson(right, len(labeled)))
        text += " " + _("About %(n)d of 100 queries exactly right (%(low)d to %(high)d), of %(count)d labeled ones.") % {
            **verdict.of_100(share), "count": len(labeled),
        }  # fmt: skip
        needed = frozenset[int]().union(*(required for _text, required in labeled))
        if never := [agent.name for agent in agents if agent.id not in needed]:
            text += " " + _("None of these queries needs %(agents)s.") % {"agents": _listed(never)}
    return Question(question, text, _("Try it"), _page("playground", pool))


def _listed(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (_(" and %(n)d more") % {"n": more} if more > 0 else "")


def _better(pool: Pool, pool_facts: Facts) -> Question:
    question, candidate = _("Is there a better one?"), pool_facts.candidate
    if candidate is not None:
        judged = verdict.of(candidate)
        text = f"{judged.share()} {judged.compared()}".strip() if judged else _("It was never judged.")
        if pool_facts.active is None and (beside := scorecards.descriptions(candidate.card)):
            text = beside
        return Question(question, f"{candidate.name}: {text}", _("Compare"), _page("model", pool, candidate.version))
    text = _("No newer model waits.") if pool_facts.in_use else _("No model was trained yet.")
    return Question(question, text, _("Train"), _page("run_new", pool))


def _next(pool: Pool, active: RouterModel | None, waiting: list[inbox.Line]) -> Question:
    question = _("What should I do?")
    if waiting:
        return Question(question, f"{waiting[0].sentence}.", waiting[0].action, waiting[0].address)
    text = _("Nothing waits for you.")
    if active is None:
        return Question(question, text)
    text += " " + _("Five minutes of checking say how right its live answers are.")
    return Question(question, text, _("Check 30 answers"), _page("check_answers", pool))


def _why(pool: Pool, roster: Sequence[Agent]) -> Question:
    question = _("Why this answer?")
    decision = Decision.objects.filter(pool=pool).order_by("-at").only("pk", "at", "agents").first()
    newest = [answer for answers in hooks.newest_answers(pool) for answer in answers]
    if decision is not None:
        newest.append((decision.at, decision.agents, _page("decision", pool, decision.pk)))
    if not newest:
        text = _("Nothing was asked yet. The playground explains any answer.")
        return Question(question, text, _("Try it"), _page("playground", pool))
    _at, agents, address = max(newest)
    names = {agent.number: agent.name for agent in roster}
    chosen = ", ".join(names.get(number, str(number)) for number in agents) or _("none of the agents")
    text = _("The last answer: %(agents)s.") % {"agents": chosen}
    return Question(question, text, _("Why"), address)


def _cost(pool: Pool, hours: Sequence[traffic_hours.Hour] | None = None) -> Question:
    """What the month's routes would have cost by the pool's LLM, and what calls of agents and the LLM's labels did."""
    question = _("What did it cost?")
    since = timezone.now() - MONTH
    month_hours = traffic_hours.hours(pool, since) if hours is None else traffic_hours.later(hours, since)
    count = sum(hour.answers for hour in month_hours)
    text = _("No routes in 30 days.")
    if count:
        text = ngettext(
            "%(n)s route in 30 days, without an LLM.", "%(n)s routes in 30 days, without an LLM.", count
        ) % {"n": number_format(count, force_grouping=True)}  # fmt: skip
    paid = list(PrelabelJob.objects.filter(pool=pool).order_by("-pk"))
    last = next((job for job in paid if job.price_in or job.price_out), None)
    prices = last or llm.connection()
    name = prices.model
    if count and name and (prices.price_in or prices.price_out):
        month = Decision.objects.filter(pool=pool, at__gte=since)
        texts = list(month.order_by("-at").values_list("text", flat=True)[:TEXTS])
        try:
            by_llm = jobs.estimate_of(pool, texts, count, price_in=prices.price_in, price_out=prices.price_out).cost
            text += " " + _("%(llm)s would have cost about %(cost)s.") % {
                "llm": name, "cost": money(by_llm, pool.currency),
            }  # fmt: skip
        except jobs.PrelabelError as error:
            text += f" {error}"
    elif count:
        text += " " + _("Enter an LLM's prices to see what it would have cost.")
    text += "".join(f" {sentence}" for sentence in chain(*hooks.pool_costs(pool, since)))
    if spent := sum(job.cost for job in paid):
        text += " " + _("Labels by an LLM cost %(cost)s so far.") % {"cost": money(spent, pool.currency)}
    return Question(question, text, _("LLM and prices"), _page("prelabel", pool))


def _broken(pool: Pool, open_alarms: Sequence[Alarm]) -> Question:
    question = _("What broke?")
    if broken := [alarm for alarm in open_alarms if alarm.kind not in UNBROKEN]:
        return Question(question, broken[0].sentence, _("Look"), _page("alarms", pool))
    failed = Run.objects.filter(pool=pool, status=Run.Status.FAILED, created_at__gte=timezone.now() - RECENT)
    if (run := failed.order_by("-pk").first()) is not None:
        text = _("Run %(number)d failed: %(why)s") % {"number": run.pk, "why": run.error[:200]}
        return Question(question, text, _("Look"), _page("run", pool, run.pk))
    return Question(question, _("Nothing."), _("Alarms and processes"), _page("alarms", pool))


def whom(pool: Pool) -> Question:
    """Whom to ask: those who operate the pool, then the admins, by name."""
    question = _("Whom to ask?")
    operating = PoolRole.objects.filter(pool=pool, role=Role.OPS).values("user")
    people = User.objects.filter(is_active=True).filter(
        Q(pk__in=operating) | Q(groups__name__in=(Role.OPS, Role.ADMIN)) | Q(is_superuser=True)
    )
    named = list(people.distinct().order_by("is_superuser", "pk")[:NAMED])
    if not named:
        return Question(question, _("Nobody operates this pool. Whoever installed Routerweb can invite somebody."))
    text = ", ".join(person.get_full_name() or person.username for person in named)
    mail = next((person.email for person in named if person.email), "")
    return Question(question, text, _("Write") if mail else "", f"mailto:{mail}" if mail else "")
