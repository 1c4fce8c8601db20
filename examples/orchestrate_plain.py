"""Call agents by a trained orchestrator in plain Python, without Django. From this folder's parent, or once `pip install .` is done:

    PYTHONPATH=. python examples/orchestrate_plain.py ORCHESTRATOR.zip "a task"

The engine decides, this file calls. Replace `AGENTS` by functions of your own.
"""

import sys
from collections.abc import Callable

from orchestration_app.engine.orchestrating.loop import drive, episode
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.support import support_pool
from orchestration_app.engine.orchestrating.turns import Ended, Failure, Limits, Outcome, Request, Result

POOL = support_pool()  # simulated agents, so that the example runs without a key


def ask(task: str, request: Request) -> Outcome:
    """One call: what the agent answers, or why it does not. A real one would go out over HTTP here."""
    answer = POOL.respond(task, [call.agent for call in request.calls], request.agent)
    if answer.failed:
        return Failure("timeout", "the agent did not answer in time", cost=answer.cost, latency=answer.latency)
    # An agent that only looks (triage, the checker) gives no answer to the task.
    return Result(answer.output, answer.cost, answer.tokens, answer.latency, {"answer": answer.answer})


def solve(orchestrator: Orchestrator, task: str, ask: Callable[[str, Request], Outcome] = ask) -> Ended:
    """One episode: at most seven steps, and never more than 12 in money."""
    return drive(episode(orchestrator, task, Limits(max_steps=7, budget=12.0)), lambda request: ask(task, request))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    solved = solve(Orchestrator.load(sys.argv[1]), sys.argv[2])
    print(solved.answer)
    print(f"{solved.steps} steps, cost {solved.cost:.2f}, ended by {solved.stop_reason}")
