"""Pre-labeling jobs: what an LLM is asked about, a job's life, the estimate before it. `prelabel_run` does the asking."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app import llm as site_llm
from agents_app.background_work import jobs as life
from agents_app.models import Pool
from agents_app.outbound import guard
from agents_app.texts import keywords
from datasets_app.models import Label, PrelabelItem, PrelabelJob, Query, WritingJob
from datasets_app.prelabeling import prompts
from routerweb.observing import tracing
from training_app.engine import llm
from training_app.engine.data.examples import Agent

BATCH = 1_000
CALL_SECONDS = 300.0  # a worker waits that long for one whole answer
CHARACTERS_PER_TOKEN = 4  # a rule of thumb for English; only the estimate uses it
ANSWER_TOKENS = 30
Status, ItemStatus = PrelabelJob.Status, PrelabelItem.Status


class PrelabelError(ValueError):
    """A job that cannot be made or changed; the message says why."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a job would take: queries, calls, tokens in and out, and the cost at the given prices."""

    queries: int
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float


def unlabeled(pool: Pool) -> "QuerySet[Query]":
    """The queries that a job is about where nobody chose any: those without gold and without an LLM's label."""
    by_llm = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    open_states = (Query.State.UNLABELED, Query.State.DRAFT, Query.State.LABELED, Query.State.DISAGREEMENT)
    return Query.objects.of(pool).filter(~Exists(by_llm), state__in=open_states)


def estimate(
    pool: Pool, queries: "QuerySet[Query]", *, batch_size: int = 1, price_in: float = 0.0, price_out: float = 0.0
) -> Estimate:
    """Count before paying. Tokens are guessed from the length of the texts, four characters each. Raises PrelabelError."""
    texts = list(queries.order_by("pk").values_list("text", flat=True)[:50])
    return estimate_of(pool, texts, queries.count(), batch_size=batch_size, price_in=price_in, price_out=price_out)


def estimate_of(
    pool: Pool, texts: Sequence[str], count: int, *, batch_size: int = 1, price_in: float = 0.0, price_out: float = 0.0
) -> Estimate:
    """The same for `count` queries such as these. Raises PrelabelError."""
    agents = pools.roster(pool, retired=False)
    instruction = _instruction(pool, agents)
    calls = -(-count // max(1, batch_size))
    fixed = sum(len(message["content"]) for message in prompts.messages(instruction, [], agents, 0, None))
    mean = sum(map(len, texts)) / len(texts) + 20 if texts else 0.0
    tokens_in = round((calls * fixed + count * mean) / CHARACTERS_PER_TOKEN)
    tokens_out = count * ANSWER_TOKENS
    return Estimate(count, calls, tokens_in, tokens_out, (tokens_in * price_in + tokens_out * price_out) / 1e6)


def _instruction(pool: Pool, agents: Sequence[Agent]) -> str:
    try:
        return prompts.render(prompts.current(pool).text, pool, agents, 0, None)
    except prompts.PromptError as error:
        raise PrelabelError(_("The prompt cannot be used: %(why)s") % {"why": error}) from None


def create(
    pool: Pool,
    queries: "QuerySet[Query]",
    *,
    base_url: str,
    model: str,
    author: User | None = None,
    limit: int | None = None,
    **options: object,
) -> PrelabelJob:
    """A job over these queries, not yet started. `options`: the job's other fields. Raises PrelabelError."""
    if not base_url or not model:
        raise PrelabelError(_("Name the server's base URL and the model."))
    try:
        guard.check(base_url, own_server=_own(base_url))
    except guard.Refused as refused:
        raise PrelabelError(str(refused)) from None
    except OSError:
        pass  # nobody has that name today; the job will say so
    if not pool.agents.active().exists():
        raise PrelabelError(_("This pool has no agents yet."))
    _instruction(pool, pools.roster(pool, retired=False))
    wanted_keys = queries.filter(deleted_at__isnull=True).order_by("pk").values_list("pk", flat=True)
    keys = list(wanted_keys[:limit] if limit else wanted_keys)
    if not keys:
        raise PrelabelError(_("There are no queries to ask about."))
    with transaction.atomic():
        job = PrelabelJob.objects.create(
            pool=pool, base_url=base_url, model=model, prompt=prompts.current(pool), author=author, **options
        )
        _add(job, keys)
    audit.record("prelabel.created", actor=author, pool=pool, target=str(job), detail={"queries": len(keys)})
    return job


def _add(job: PrelabelJob, keys: Iterable[int]) -> None:
    rows = iter(keys)
    while batch := list(islice(rows, BATCH)):
        PrelabelItem.objects.bulk_create([PrelabelItem(job=job, query_id=key) for key in batch])


def enqueue(job: PrelabelJob) -> None:
    """Hand a queued job to the workers once the transaction is through. Twice does no harm: its claim decides."""
    life.deliver(PrelabelJob, job.pk)


# ------------------------------------------------------------------------------------------------------ the job's life


def claim(job_id: int) -> PrelabelJob | None:
    """Make this process the job's only worker; None where it is not queued. Every write of the worker filters on the attempt."""
    token = life.claim(PrelabelJob, job_id, wish="")
    if token is None:
        return None
    job = PrelabelJob.objects.select_related("pool", "prompt", "author").get(pk=job_id)
    job.settled_before = settled(counts(job))
    life.owned(PrelabelJob, job_id, token).update(settled_before=job.settled_before)
    return job


def pause(job: PrelabelJob) -> bool:
    """Stop asking; what was answered stays, what is under way is waited for. Returns whether there was something to stop."""
    return _wish(job, "pause", Status.PAUSED)


def cancel(job: PrelabelJob) -> bool:
    """Stop for good; what was answered stays."""
    if PrelabelJob.objects.filter(pk=job.pk, status=Status.PAUSED).update(status=Status.CANCELLED, finished_at=Now()):
        return True
    return _wish(job, "cancel", Status.CANCELLED)


def _wish(job: PrelabelJob, wish: str, queued_becomes: str) -> bool:
    queued = PrelabelJob.objects.filter(pk=job.pk, status=Status.QUEUED)
    if queued.update(status=queued_becomes, finished_at=Now()):
        return True
    return bool(PrelabelJob.objects.filter(pk=job.pk, status=Status.RUNNING).update(wish=wish))


def rebudget(job: PrelabelJob, budget: float | None) -> None:
    """Give a job another budget; None: no limit. Raises PrelabelError where that much is spent already."""
    if budget is not None and budget <= job.cost:
        raise PrelabelError(_("So much is spent already. Enter a higher budget, or none."))
    PrelabelJob.objects.filter(pk=job.pk).update(budget=budget)
    job.budget = budget


def resume(job: PrelabelJob, *, now: bool = True) -> bool:
    """Go on with what is left, what failed included; answers that were paid for are not asked for again."""
    with transaction.atomic():
        stopped = (Status.PAUSED, Status.FAILED, Status.CANCELLED, Status.DONE)
        job.items.filter(status=ItemStatus.FAILED).update(status=ItemStatus.WAITING, error="")
        if not job.items.filter(status=ItemStatus.WAITING).exists():
            return False
        queued = PrelabelJob.objects.filter(pk=job.pk, status__in=stopped)
        if not queued.update(
            status=Status.QUEUED, error="", wish="", finished_at=None, losses=0, deliveries=0, delivered_at=Now()
        ):  # fmt: skip
            return False
        if now:
            enqueue(job)
    return True


def interrupted(job: PrelabelJob, still: "QuerySet[PrelabelJob]") -> bool:
    """Put a job whose worker died back into the queue, RUN_RETRIES times; then it fails. One that was to stop stops."""
    wish = {"pause": Status.PAUSED, "cancel": Status.CANCELLED}.get(job.wish)
    if wish:
        return bool(still.update(status=wish, wish="", finished_at=Now(), attempt=None, losses=F("losses") + 1))
    reason = _("The worker died repeatedly. “Resume” asks only about queries without an answer.")
    return life.interrupted(job, still, reason)


def counts(job: PrelabelJob) -> dict[str, int]:
    """How many of the job's queries are in which state, every state named, and `total` and `done`."""
    by_status: Counter[str] = Counter(dict(job.items.values_list("status").annotate(Count("pk"))))
    by_state = {state: by_status[state] for state in ItemStatus.values}
    total = sum(by_state.values())
    return by_state | {"total": total, "done": total - by_state[ItemStatus.WAITING]}


def settled(counted: dict[str, int]) -> int:
    """How many of these the LLM was asked about, whatever came of it."""
    return counted["answered"] + counted["fallback"] + counted["failed"]


def key_for(job: PrelabelJob | WritingJob, connection: site_llm.Connection | None = None) -> str:
    """The API key that this job may use: the installation's key goes to the server that it was entered for alone, never to an address
    that somebody typed into a page, nor to another path."""
    connection = connection or site_llm.connection()
    return connection.key if _place(connection.base_url) == _place(job.base_url) else ""


def _own(url: str, connection: site_llm.Connection | None = None) -> guard.Server | None:
    """The server of an address where an admin allowed calls to it in the own network."""
    server = (connection or site_llm.connection()).own_server
    return server if server is not None and server == site_llm.server_of(url) else None


def _place(url: str) -> tuple[str, str, int, str, str]:
    """What makes an address another one: the key goes to no other path of the same host either."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), guard.port_of(parts), parts.path.rstrip("/"), parts.query


def client_for(
    job: PrelabelJob | WritingJob,
    key: str | None = None,
    *,
    seconds: float = CALL_SECONDS,
    connection: site_llm.Connection | None = None,
    temperature: float | None = 0.0,
    limits: llm.CallLimits | None = None,
) -> llm.Client:
    """A client of the job's server, through the guard for outbound calls; each call takes `seconds` at most, a slow answer's
    too. What the server replies is told only where the settings name it."""
    secret = key_for(job, connection) if key is None else key
    watch = tracing.completion if settings.TRACES else None
    wire = site_llm.wire(job.base_url, seconds, _own(job.base_url, connection), watch)
    return llm.Client(job.base_url, job.model, secret, temperature=temperature, limits=limits, wire=wire)


# --------------------------------------------------------------------------------------------------------- fallbacks


def fallback(kind: str, text: str, agents: Sequence[Agent]) -> frozenset[int] | None:
    """What is suggested where the LLM's answer could not be read: None for nothing."""
    if kind == PrelabelJob.Fallback.ALL:
        return frozenset(agent.id for agent in agents)
    if kind != PrelabelJob.Fallback.KEYWORD:
        return None
    numbers = set()
    for agent in agents:
        words = [word.strip() for word in (*agent.keywords, agent.name) if word.strip()]
        if words and keywords.pattern(words).search(text):
            numbers.add(agent.id)
    return frozenset(numbers)
