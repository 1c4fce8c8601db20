"""What `tests.chaos.work` does for the test that kills processes during many episodes."""

from collections import Counter
from typing import Any

from tests.chaos.work import CALLS, call

__all__ = ["CALLS"]


@call
def furnish_crew(careful: str, careless: str) -> str:
    """A pool of three agents that are called one after another: one that knows calls by their key and may be called again, one
    that asks now and then, and one that knows no keys and may not be called again. The key that may begin episodes there."""
    from agents_app import keys, pools
    from orchestration_app import executors
    from tests.orchestration_app.conducted import artifact
    from training_app.versions import registry

    pool = pools.create_pool("Crew", "crew")
    executions: list[dict[str, Any]] = [
        {"kind": "chat", "address": f"{careful}/v1", "model": "m", "repeatable": True},
        {"kind": "webhook", "address": f"{careful}/hook", "repeatable": True},
        {"kind": "webhook", "address": f"{careless}/hook", "repeatable": False},
    ]
    for name, execution in zip(("Triage", "Billing", "Refunds"), executions, strict=True):
        secret = "a-secret-of-a-webhook" if execution["kind"] == "webhook" else None
        executors.save(pools.add_agent(pool, name, cost=0.01), execution, secret=secret, actor=None)
    registry.promote(
        registry.register(None, pool, artifact(pool, (0, 1, 2)), {}, kind="orchestrator"), actor=None
    )  # fmt: skip
    return keys.create_key("chaos", [pool], ["route"])[1]


@call
def crew_states() -> dict[str, int]:
    """How many episodes are in each state, and `calls`, how many calls have ended."""
    from orchestration_app.models import Episode, Step

    calls = Step.objects.filter(status__in=("done", "failed"), call__isnull=False).count()
    return {**Counter(Episode.objects.values_list("status", flat=True)), "calls": calls}


@call
def waiting_episodes() -> list[str]:
    """The keys of the episodes that wait for an answer."""
    from orchestration_app.models import Episode

    return [
        str(key) for key in Episode.objects.filter(status="waiting").order_by("created_at").values_list("pk", flat=True)
    ]


@call
def crew_faults(tasks: list[str]) -> list[str]:
    """What is wrong with the ended episodes of these tasks: each has one, and each of its parts is in the answer or named as
    missing."""
    from orchestration_app.models import Episode

    found: list[str] = []
    rows = {task: list(Episode.objects.filter(task=task)) for task in tasks}
    for task, episodes in rows.items():
        if len(episodes) != 1:
            found.append(f"{task}: {len(episodes)} episodes")
            continue
        episode = episodes[0]
        steps = episode.trajectory.filter(call__isnull=False)
        answered = {
            step.agent for step in steps if step.status == "done" and step.output and step.output in episode.answer
        }
        missing = {part["agent"]: part["reason"] for part in episode.missing}
        if [step.agent for step in steps.order_by("turn")] != [0, 1, 2]:
            found.append(f"{task} called {[step.agent for step in steps]}")
        if {0, 1, 2} - answered - set(missing):
            found.append(f"{task} lost a part: {answered} answered, {missing} missing")
        if episode.status != ("partial" if missing else "done"):
            found.append(f"{task} is {episode.status} with {missing} missing: {episode.error}")
        if any(agent != 2 or reason != "interrupted" for agent, reason in missing.items()):
            found.append(f"{task} lacks {missing}")
    return found
