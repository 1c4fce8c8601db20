"""Executors' calls judged by the installation's LLM: what backends learn from where nobody says how an episode did."""

import uuid
from dataclasses import dataclass

from agents_app import llm
from agents_app.models import Agent, Pool
from orchestration_app.backends import served
from orchestration_app.engine.backends import judge
from orchestration_app.models import BackendCall, Step
from training_app.engine.llm import CallLimits

#: The mean figure from which on a call counts as a success.
ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Judged:
    """How many calls were judged, how many of them did well, and of how many the judge said nothing usable: those stay unjudged."""

    calls: int = 0
    good: int = 0
    failed: int = 0


def calls(pool: Pool, limit: int) -> Judged:
    """Judge the newest calls that were answered and that nobody has judged, at most so many. Raises llm.BadKey."""
    open_ = BackendCall.objects.filter(pool=pool, success=None, failed=False).order_by("-at")
    waiting = {str(key) for key in open_.values_list("decision_id", flat=True)[: 20 * limit]}
    names = dict(Agent.objects.filter(pool=pool).values_list("number", "name"))
    steps = Step.objects.filter(
        episode__pool=pool, status=Step.Status.DONE, metadata__has_key="backend"
    ).select_related("episode")  # fmt: skip
    done = good = failed = 0
    with llm.client(llm.connection(), limits=CallLimits(tries=3)) as client:
        for step in steps.order_by("-at").iterator(chunk_size=200):
            call = step.metadata["backend"]["call"]
            if call not in waiting:
                continue
            if done + failed >= limit:
                break
            agent = names.get(step.agent or 0, str(step.agent))
            marks = judge.judge(client, step.episode.task, agent, step.output)
            if marks is None:
                failed += 1
                continue
            well = sum(marks.values()) / len(marks) >= ENOUGH
            served.judged(pool.pk, [uuid.UUID(call)], well)
            done, good = done + 1, good + well
    return Judged(done, good, failed)
