"""The demo pool whose agents are simulated and really called, with an orchestrator that decides their episodes."""

from collections.abc import Sequence

from agents_app.audit import Actor
from agents_app.models import Agent, Pool
from orchestration_app import executors
from orchestration_app.engine.orchestrating.support import DESK_SETTINGS, write_support
from orchestration_app.models import Executor
from orchestration_app.models.kinds import ORCHESTRATOR
from training_app.installation import DemoPool


def give_executors(pool: Pool) -> None:
    """Give each agent of the pool that has no executor a simulated one."""
    for agent in pool.agents.filter(executor=None).exclude(state=Agent.State.RETIRED):
        script = {"do": "simulated", "pool": "support", "agent": agent.number}
        executors.save(agent, {"kind": Executor.Kind.SCRIPTED, "script": script}, actor=Actor("demo"))


DESK = DemoPool(
    slug="desk",
    name="Support desk, simulated agents (demo)",
    write=write_support,
    kind=ORCHESTRATOR,
    says="Have agents called, one after another",
    path="/api/orchestrate/",
    body={"task": "my parcel is lost and i was charged twice"},
    settings=tuple(f"{name}={value}" for name, value in DESK_SETTINGS.items()),
    prepare=give_executors,
)


def pools() -> Sequence[DemoPool]:
    """For the hook `demo_pools`."""
    return (DESK,)
