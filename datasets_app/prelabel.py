"""Pre-labeling jobs: what an LLM is asked about, a job's life, the estimate before it. `prelabel_run` does the asking."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from urllib.parse import urlsplit
from uuid import uuid4

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext as _
from django_q.brokers import get_broker
from django_q.tasks import async_task

from agents_app import audit, pools
from agents_app.models import Pool
from datasets_app import prompts
from datasets_app.models import Label, PrelabelItem, PrelabelJob, Query
from training_app.engine.data import Agent

BATCH = 1_000
CHARACTERS_PER_TOKEN = 4  # a rule of thumb for English; only the estimate uses it
ANSWER_TOKENS = 30
#: A queued job that no worker began is handed to the queue again after so long.
LOST_AFTER_SECONDS = 60
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
    asked = Label.objects.current().filter(source=Label.Source.LLM)
    open_states = (Query.State.UNLABELED, Query.State.DRAFT, Query.State.LABELED, Query.State.DISAGREEMENT)
    found = Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True, state__in=open_states)
    return found.exclude(pk__in=asked.filter(query__dataset__pool=pool).values("query"))


def estimate(
    pool: Pool, queries: "QuerySet[Query]", *, batch_size: int = 1, price_in: float = 0.0, price_out: float = 0.0
) -> Estimate:
    """Count before paying. Tokens are guessed from the length of the texts, four characters each."""
    agents = pools.roster(pool, retired=False)
    instruction = prompts.render(prompts.current(pool).text, pool, agents, 0, None)
    texts = list(queries.order_by("pk").values_list("text", flat=True)[:50])
    count = queries.count()
    calls = -(-count // max(1, batch_size))
    fixed = sum(len(one["content"]) for one in prompts.messages(instruction, [], agents, 0, None))
    mean = sum(map(len, texts)) / len(texts) + 20 if texts else 0.0
    tokens_in = round((calls * fixed + count * mean) / CHARACTERS_PER_TOKEN)
    tokens_out = count * ANSWER_TOKENS
    return Estimate(count, calls, tokens_in, tokens_out, (tokens_in * price_in + tokens_out * price_out) / 1e6)


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
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise PrelabelError(_("The base URL must begin with http:// or https://."))
    if not pool.agents.active().exists():
        raise PrelabelError(_("This pool has no agents yet."))
    found = queries.filter(deleted_at__isnull=True).order_by("pk").values_list("pk", flat=True)
    keys = list(found[:limit] if limit else found)
    if not keys:
        raise PrelabelError(_("There is no query to ask about."))
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
    key = job.pk
    PrelabelJob.objects.filter(pk=key, status=Status.QUEUED).update(heartbeat_at=timezone.now())
    transaction.on_commit(
        lambda: async_task("datasets_app.labeling_tasks.prelabel", key, q_options={"cluster": "default"})
    )


# ------------------------------------------------------------------------------------------------------ the job's life


def claim(job_id: int) -> PrelabelJob | None:
    """Make this process the job's only worker; None where it is not queued. Every write of the worker filters on the attempt."""
    now = timezone.now()
    token = uuid4()
    claimed = PrelabelJob.objects.filter(pk=job_id, status=Status.QUEUED).update(
        status=Status.RUNNING, attempt=token, heartbeat_at=now, started_at=now, finished_at=None, error="", wish=""
    )
    if not claimed:
        return None
    job = PrelabelJob.objects.select_related("pool", "prompt", "author").get(pk=job_id)
    job.settled_before = settled(counts(job))
    PrelabelJob.objects.filter(pk=job_id, attempt=token).update(settled_before=job.settled_before)
    return job


def pause(job: PrelabelJob) -> bool:
    """Stop asking; what was answered stays, what is under way is waited for. Returns whether there was something to stop."""
    return _wish(job, "pause", Status.PAUSED)


def cancel(job: PrelabelJob) -> bool:
    """Stop for good; what was answered stays."""
    if PrelabelJob.objects.filter(pk=job.pk, status=Status.PAUSED).update(
        status=Status.CANCELLED, finished_at=timezone.now()
    ):
        return True
    return _wish(job, "cancel", Status.CANCELLED)


def _wish(job: PrelabelJob, wish: str, queued_becomes: str) -> bool:
    queued = PrelabelJob.objects.filter(pk=job.pk, status=Status.QUEUED)
    if queued.update(status=queued_becomes, finished_at=timezone.now()):
        return True
    return bool(PrelabelJob.objects.filter(pk=job.pk, status=Status.RUNNING).update(wish=wish))


def resume(job: PrelabelJob, *, now: bool = True) -> bool:
    """Go on with what is left, what failed included; answers that were paid for are not asked for again."""
    with transaction.atomic():
        stopped = (Status.PAUSED, Status.FAILED, Status.CANCELLED, Status.DONE)
        job.items.filter(status=ItemStatus.FAILED).update(status=ItemStatus.WAITING, error="")
        if not job.items.filter(status=ItemStatus.WAITING).exists():
            return False
        queued = PrelabelJob.objects.filter(pk=job.pk, status__in=stopped)
        if not queued.update(
            status=Status.QUEUED, error="", wish="", finished_at=None, heartbeat_at=timezone.now()
        ):  # fmt: skip
            return False
        if now:
            enqueue(job)
    return True


def fail_dead_jobs() -> int:
    """Mark running jobs whose worker gave no sign of life as failed; returns how many."""
    silent = timezone.now() - timedelta(seconds=settings.DEAD_AFTER_SECONDS)
    dead = PrelabelJob.objects.filter(status=Status.RUNNING, heartbeat_at__lt=silent)
    reason = _("The worker died. “Go on” asks only for what is not answered yet.")
    return dead.update(status=Status.FAILED, error=reason, finished_at=timezone.now(), attempt=None)


def enqueue_lost_jobs() -> int:
    """Hand jobs to the workers again that wait for LOST_AFTER_SECONDS, where no message of any job waits; returns how many.

    A message is lost when a cluster is killed that had taken it but not begun, and it stands with a cluster that is busy for long. As
    long as one waits in the queue nothing is added, so that a queue without workers does not grow.
    """
    before = timezone.now() - timedelta(seconds=LOST_AFTER_SECONDS)
    waits = Coalesce("heartbeat_at", "created_at")
    lost = PrelabelJob.objects.alias(since=waits).filter(status=Status.QUEUED, since__lt=before)
    found = list(lost.order_by("pk")[:100])
    if not found or get_broker("default").queue_size():
        return 0
    handed = 0
    for job in found:
        with transaction.atomic():
            # Of several reapers that see this, one changes the row.
            if PrelabelJob.objects.filter(pk=job.pk, status=Status.QUEUED, heartbeat_at=job.heartbeat_at).update(
                heartbeat_at=timezone.now()
            ):
                enqueue(job)
                handed += 1
    return handed


def counts(job: PrelabelJob) -> dict[str, int]:
    """How many of the job's queries are in which state, every state named, and `total` and `done`."""
    found: Counter[str] = Counter(dict(job.items.values_list("status").annotate(Count("pk"))))
    by_state = {state: found[state] for state in ItemStatus.values}
    total = sum(by_state.values())
    return by_state | {"total": total, "done": total - by_state[ItemStatus.WAITING]}


def settled(counted: dict[str, int]) -> int:
    """How many of these the LLM was asked about, whatever came of it."""
    return counted["answered"] + counted["fallback"] + counted["failed"]


def key_for(job: PrelabelJob) -> str:
    """The API key that this job may use: the site's key goes to the site's own server alone, never to an address that
    somebody typed into a page."""
    configured, wanted = urlsplit(settings.LLM_BASE_URL), urlsplit(job.base_url)
    same = (configured.scheme, configured.netloc) == (wanted.scheme, wanted.netloc)
    return settings.LLM_API_KEY if same else ""


# --------------------------------------------------------------------------------------------------------- fallbacks


def fallback(kind: str, text: str, agents: Sequence[Agent]) -> frozenset[int] | None:
    """What is suggested where the LLM's answer could not be read: None for nothing."""
    if kind == PrelabelJob.Fallback.ALL:
        return frozenset(agent.id for agent in agents)
    if kind != PrelabelJob.Fallback.KEYWORD:
        return None
    found = set()
    for agent in agents:
        words = [word for word in (*agent.keywords, agent.name) if word.strip()]
        if any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) for word in words):
            found.add(agent.id)
    return frozenset(found)
