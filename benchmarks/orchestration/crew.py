"""Run by `manage.py shell`: a pool "crew" whose agents answer at AGENTS, in turns of CALLS, and an orchestrator that calls them.

The environment says what: AGENTS the address of `benchmarks.orchestration.agents`, CALLS how many calls an episode makes, SECONDS and
RETRIES what each may take, REPEATABLE=0 that none is called again, WEBHOOKS=1 every second agent a webhook, AT_ONCE the calls at once
of each agent.
"""

import os

import numpy as np

from agents_app import pools
from agents_app.models import Pool
from orchestration_app import executors
from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from training_app.versions import registry

AGENTS, CALLS = os.environ["AGENTS"], int(os.environ.get("CALLS", "3"))


def conductor(pool: Pool) -> bytes:
    """Calls each agent once, in the order of their ids, and stops."""
    agents = pools.roster(pool)
    network = fresh_network(len(agents), 4, np.random.default_rng(0), one_shot=False)
    follows = np.zeros_like(network.tensors["next"])
    for place in range(len(agents)):
        follows[place - 1 if place else len(agents), place] = 20.0
    follows[len(agents) - 1, len(agents)] = 20.0
    made = Orchestrator(agents, Reader(len(agents)), Network({**network.tensors, "next": follows}), max_steps=CALLS + 2)
    return made.to_artifact().to_bytes()


pool = pools.create_pool("Crew", "crew")
for number in range(CALLS):
    hook = os.environ.get("WEBHOOKS") == "1" and number % 2 == 1
    agent = pools.add_agent(pool, f"Agent {number}", cost=0.002)
    bounds = {
        "seconds": float(os.environ.get("SECONDS", "5")), "retries": int(os.environ.get("RETRIES", "2")), "most_kb": 1_024,
        "at_once": int(os.environ.get("AT_ONCE", "0")), "repeatable": os.environ.get("REPEATABLE") != "0",
    }  # fmt: skip
    if hook:
        executors.save(
            agent,
            {"kind": "webhook", "address": f"{AGENTS}/hook", **bounds},
            secret="a secret of a benchmark",
            actor=None,
        )
    else:
        chat = {
            "kind": "chat",
            "address": f"{AGENTS}/v1",
            "model": f"model-{number}",
            "price_in": 1.0,
            "price_out": 2.0,
        }
        executors.save(agent, {**chat, "most_tokens": 500, **bounds}, secret="sk-benchmark", actor=None)
registry.promote(registry.register(None, pool, conductor(pool), {}, kind="orchestrator"), actor=None)
