"""Queries that the LLM writes for a pool's agents: what it is asked for, a job's life, and the reading of its answers.

A written query is never gold: it has no label and no split, is counted nowhere, and only teaches a router beside labeled queries.
A job's calls are planned when it is made. Each answer is stored in one transaction with the number of calls that are done, so a job
that goes on after its worker was killed asks for nothing twice; the call that was under way has the same Idempotency-Key again.
"""

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app import llm as site_llm
from agents_app.background_work import jobs as life
from agents_app.models import Pool
from agents_app.texts.languages import english_name_of
from datasets_app.models import Query, WritingJob, WrittenQuery
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import prompts
from training_app.engine import llm
from training_app.engine.data.examples import Agent, group_key
from training_app.engine.reading import languages

PER_CALL = 20  # queries that one call asks for; longer answers repeat themselves and are cut off
MOST_QUERIES = 5_000  # of one job
LONGEST = 1_000  # characters of a written query
READ = 300  # newest queries that the pool's languages are read from
LANGUAGE_SHARE = 0.1  # of these, from which a language counts as one of the pool's
QUERY_TOKENS = 30  # of one written query in an answer; only the estimate uses it
TEMPERATURE = 0.9  # the same words again teach nothing
Status = WritingJob.Status

ANSWER = {
    "type": "object",
    "properties": {
        "queries": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string"},
                    "agents": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["text", "agents"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["queries"],
    "additionalProperties": False,
}

INSTRUCTION = """You write queries as the users of a product really write them. They train a router that finds the agents
that a query needs.
Vary them: short and long, whole sentences and two words, polite, in a hurry, annoyed, with typing mistakes, with made-up details.
Never name an agent unless a user would. No query is like another. A query that is for several agents asks for all of them at once,
as one message. A query for no agent is one that users might send here and that none of the agents below handles.
Write them in this language: {language}.
{guidelines}Agents:
{roster}

Answer with JSON only: {{"queries": [{{"text": "...", "agents": [ids]}}]}}.
Give each query exactly the agents that it was wanted for."""


class WritingError(ValueError):
    """A job that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to write: single queries an agent, queries for two agents in all, queries for nobody in all, each in each language."""

    per_agent: int
    joined: int
    nobody: int
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One call: `count` queries for each set of agents in `wanted`, in one language."""

    wanted: list[list[int]]
    count: int
    language: str


def languages_of(pool: Pool) -> list[str]:
    """The codes of the languages of the pool's newest queries, the most frequent first; English where that cannot be told."""
    queries = Query.objects.of(pool).filter(erased_at=None).order_by("-pk").values_list("text", flat=True)
    texts = list(queries[:READ])
    return [code for code, n in languages.counted(texts).items() if n >= LANGUAGE_SHARE * len(texts)] or ["en"]


def plan(agents: Sequence[Agent], wish: Wish) -> list[Step]:
    """The calls of a job. The pairs of joined queries are drawn at random, each pair before any comes again."""
    ids = [agent.id for agent in agents]
    steps = []
    for language in wish.languages:
        for agent in ids:
            steps += [Step([[agent]], count, language) for count in _portions(wish.per_agent)]
        pairs = [list(pair) for pair in combinations(ids, 2)]
        random.Random(0).shuffle(pairs)  # noqa: S311 - no secret
        left = wish.joined if pairs else 0
        while left > 0:
            turn = pairs[:left]
            steps += [Step(turn[at : at + PER_CALL], 1, language) for at in range(0, len(turn), PER_CALL)]
            left -= len(turn)
        steps += [Step([[]], count, language) for count in _portions(wish.nobody)]
    return steps


def _portions(count: int) -> list[int]:
    return [min(PER_CALL, count - at) for at in range(0, count, PER_CALL)]


def estimate(pool: Pool, wish: Wish) -> prelabel.Estimate:
    """Count before paying; tokens are guessed from lengths. Raises WritingError."""
    agents, connection = _agents(pool), site_llm.connection()
    steps = _checked(plan(agents, wish))
    characters = sum(len(message["content"]) for step in steps for message in messages(pool, agents, step, 0))
    queries = sum(len(step.wanted) * step.count for step in steps)
    tokens_in, tokens_out = characters // prelabel.CHARACTERS_PER_TOKEN, queries * QUERY_TOKENS
    cost = (tokens_in * connection.price_in + tokens_out * connection.price_out) / 1e6
    return prelabel.Estimate(queries, len(steps), tokens_in, tokens_out, cost)


def _agents(pool: Pool) -> Sequence[Agent]:
    agents = pools.roster(pool, retired=False)
    if not agents:
        raise WritingError(_("This pool has no agents yet."))
    return agents


def _checked(steps: list[Step]) -> list[Step]:
    queries = sum(len(step.wanted) * step.count for step in steps)
    if not queries:
        raise WritingError(_("Ask for at least one query."))
    if queries > MOST_QUERIES:
        raise WritingError(
            _("That is %(n)d queries; a job writes %(most)d at most. Ask for fewer.")
            % {"n": queries, "most": MOST_QUERIES}
        )
    return steps


def create(pool: Pool, wish: Wish, author: User | None = None) -> WritingJob:
    """A queued job for the connected LLM, not yet handed to a worker. Raises WritingError."""
    connection = site_llm.in_use()
    if connection is None:
        raise WritingError(_("No LLM is connected yet. An admin connects one for all pools."))
    steps = _checked(plan(_agents(pool), wish))
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        if WritingJob.objects.filter(pool=pool, status__in=(Status.QUEUED, Status.RUNNING)).exists():
            raise WritingError(_("Queries are being written already. Wait for that, or cancel it."))
        job = WritingJob.objects.create(
            pool=pool,
            base_url=connection.base_url,
            model=connection.model,
            price_in=connection.price_in,
            price_out=connection.price_out,
            plan=[asdict(step) for step in steps],
            author=author,
        )
        audit.record("writing.created", actor=author, pool=pool, target=str(job), detail={"calls": len(steps)})
    return job


def enqueue(job: WritingJob) -> None:
    """Hand a queued job to the workers once the transaction is through."""
    life.deliver(WritingJob, job.pk)


def cancel(job: WritingJob) -> bool:
    """Stop it; what was written stays. Returns whether there was something to stop."""
    queued = WritingJob.objects.filter(pk=job.pk, status=Status.QUEUED)
    if queued.update(status=Status.CANCELLED, finished_at=Now()):
        return True
    return bool(WritingJob.objects.filter(pk=job.pk, status=Status.RUNNING).update(cancel_asked=True))


def resume(job: WritingJob, *, now: bool = True) -> bool:
    """Go on with the calls that are left of a job that failed or was cancelled."""
    stopped = WritingJob.objects.filter(pk=job.pk, status__in=(Status.FAILED, Status.CANCELLED))
    with transaction.atomic():
        if job.steps_done >= job.calls or not stopped.update(
            status=Status.QUEUED, error="", cancel_asked=False, finished_at=None, losses=0, deliveries=0, delivered_at=Now()
        ):  # fmt: skip
            return False
        if now:
            enqueue(job)
    return True


def interrupted(job: WritingJob, still: "QuerySet[WritingJob]") -> bool:
    """Put a job whose worker died back into the queue, RUN_RETRIES times; then it fails. One that was to stop stops."""
    if job.cancel_asked:
        return bool(still.update(status=Status.CANCELLED, finished_at=Now(), attempt=None, losses=F("losses") + 1))
    return life.interrupted(job, still, _("The worker died repeatedly. “Go on” asks only for what is missing."))


# ------------------------------------------------------------------------------------------------------------- asking


def run(job_id: int, *, progress: Callable[[WritingJob], None] | None = None) -> WritingJob | None:
    """Claim and do a job; returns it as it ended, None where it was not queued. `progress` is called after every call."""
    attempt = life.claim(WritingJob, job_id)
    if attempt is None:
        return None
    job = WritingJob.objects.select_related("pool", "author").get(pk=job_id)
    status, reason = Status.DONE, ""
    try:
        client_of_job = prelabel.client_for(job, temperature=TEMPERATURE)
        with life.Heartbeat(WritingJob, job.pk, attempt) as pulse, client_of_job as client:
            agents = pools.roster(job.pool, retired=False)
            while job.steps_done < job.calls:
                pulse.check()
                if job.cancel_asked:
                    status = Status.CANCELLED
                    break
                _take_step(job, agents, client)
                if progress:
                    progress(job)
    except life.AttemptLost:
        return WritingJob.objects.get(pk=job_id)
    except llm.LLMError as error:
        status, reason = Status.FAILED, str(error)
    except Exception as error:  # a job that fails for any reason is marked so, with that reason
        life.raise_if_stopped()
        _end(job, Status.FAILED, f"{type(error).__name__}: {error}"[:400])
        raise
    return _end(job, status, reason)


def _end(job: WritingJob, status: str, reason: str) -> WritingJob:
    life.owned(WritingJob, job.pk, job.attempt).update(
        status=status, error=reason, cancel_asked=False, finished_at=Now()
    )
    job.refresh_from_db()
    return job


def _take_step(job: WritingJob, agents: Sequence[Agent], client: llm.Client) -> None:
    """Make the next call and store what came. Raises LLMError, and AttemptLost where the job is another worker's by now."""
    step = Step(**job.plan[job.steps_done])
    problems: Counter[str] = Counter(job.problems)
    usage, read = llm.Usage(), list[tuple[str, list[int]]]()
    if {agent for wanted in step.wanted for agent in wanted} <= {agent.id for agent in agents}:
        key = prompts.digest(["written", job.pk, str(job.created_at), job.steps_done])
        done = client.complete(messages(job.pool, agents, step, job.steps_done), ANSWER, key=key)
        usage = done.usage
        read, bad = parsed(done.text, step)
        problems += bad
    else:
        problems[_("for an agent that has been retired")] += 1
    with transaction.atomic():
        changes = {
            "tokens_in": F("tokens_in") + usage.prompt_tokens,
            "tokens_out": F("tokens_out") + usage.completion_tokens,
        }
        life.beat(WritingJob, job.pk, job.attempt, steps_done=job.steps_done + 1, **changes)
        again = len(read) - _store(job, read, step.language)
        if again:
            problems[_("says the same as another")] += again
        life.beat(WritingJob, job.pk, job.attempt, problems=dict(problems))
    job.refresh_from_db()


def messages(pool: Pool, agents: Sequence[Agent], step: Step, number: int) -> list[dict[str, str]]:
    """What one call sends. The agents that queries are wanted for come with all that is known of them, the others by name."""
    meant = {agent for wanted in step.wanted for agent in wanted} or {agent.id for agent in agents}
    roster = [
        {"id": agent.id, "name": agent.name, "handles": agent.description, "keywords": list(agent.keywords)}
        if agent.id in meant
        else {"id": agent.id, "name": agent.name}
        for agent in agents
    ]
    guidelines = f"What the people who label queries go by:\n{pool.guidelines}\n" if pool.guidelines else ""
    system = INSTRUCTION.format(
        language=english_name_of(step.language), guidelines=guidelines, roster=json.dumps(roster, ensure_ascii=False)
    )
    wanted = [{"agents": one, "queries": step.count} for one in step.wanted]
    asked = {"task": f"Write queries, part {number + 1}", "wanted": wanted}
    return [{"role": "system", "content": system}, {"role": "user", "content": json.dumps(asked)}]


def parsed(answer: str, step: Step) -> tuple[list[tuple[str, list[int]]], Counter[str]]:
    """(text, ids of its agents) of each query that can be used, and what cannot: reason → how many."""
    bad: Counter[str] = Counter()
    try:
        value = llm.find_json(answer)
    except ValueError:
        return [], Counter({_("an answer without JSON"): 1})
    items = value.get("queries") if isinstance(value, dict) else None
    if not isinstance(items, list):
        return [], Counter({_("an answer without a list of queries"): 1})
    room = {tuple(sorted(wanted)): step.count for wanted in step.wanted}
    read = []
    for item in items:
        text = item.get("text") if isinstance(item, dict) else None
        named = item.get("agents") if isinstance(item, dict) else None
        if not isinstance(text, str) or not (text := " ".join(text.split())):
            bad[_("without a text")] += 1
        elif len(text) > LONGEST:
            bad[_("longer than %(n)d characters") % {"n": LONGEST}] += 1
        elif not isinstance(named, list) or any(type(agent) is not int for agent in named):
            bad[_("without a list of agents")] += 1
        elif (agents := tuple(sorted(set(named)))) not in room:
            bad[_("for agents that were not asked for")] += 1
        elif not room[agents]:
            bad[_("more than were asked for")] += 1
        else:
            room[agents] -= 1
            read.append((text, list(agents)))
    return read, bad


def _store(job: WritingJob, read: Sequence[tuple[str, list[int]]], language: str) -> int:
    """Keep what the pool does not have yet; how many these are."""
    new = {key_of(text): (text, agents) for text, agents in reversed(read)}
    present = WrittenQuery.objects.filter(pool=job.pool, key__in=new)
    for key in present.values_list("key", flat=True):
        del new[key]
    rows = [
        WrittenQuery(pool=job.pool, job=job, text=text, key=key, agents=agents, language=language, model=job.model)
        for key, (text, agents) in reversed(new.items())
    ]
    WrittenQuery.objects.bulk_create(rows)
    return len(rows)


def key_of(text: str) -> str:
    """The same for texts that say the same, 64 hexadecimal digits."""
    return hashlib.sha256(group_key(text).encode("utf-8", "surrogatepass")).hexdigest()


# ------------------------------------------------------------------------------------------------------------- review


def set_rejected(pool: Pool, rejected: bool, keys: Sequence[int] | None = None) -> int:
    """Reject or keep the written queries with these keys, or all of the pool; how many have changed."""
    queries = WrittenQuery.objects.filter(pool=pool, rejected=not rejected)
    return (queries if keys is None else queries.filter(pk__in=keys)).update(rejected=rejected)


def counts(pool: Pool) -> Mapping[str, Any]:
    """How many written queries the pool has, "kept" and "rejected"."""
    every = WrittenQuery.objects.filter(pool=pool)
    rejected = every.filter(rejected=True).count()
    return {"kept": every.count() - rejected, "rejected": rejected}
