"""Agents without a network, for tests, demonstrations and trying things out. `script["do"]` says what one does:

- `echo`: says the task again.
- `say`: says `text`.
- `recorded`: says what `outputs` has for the task, `otherwise` where it has nothing.
- `simulated`: plays agent `agent` (its id) of the engine's simulated pool `pool`; what it costs stands there.

Each may have `cost`, `tokens` and `seconds` (how long it takes), `fails`, the words of a failure, and `asks`, a question to the
user that it needs answered first; an `echo` then says the answer.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from orchestration_app.calls.parts import AgentCall, AttemptResult, CallFailed, Spec
from orchestration_app.engine.orchestrating.support import pool_named

WAYS = ("echo", "say", "recorded", "simulated")


async def play(spec: Spec, call: AgentCall) -> AttemptResult:
    """What the script says. Raises CallFailed."""
    script = spec.script
    seconds = _number(script, "seconds", 0.0)
    if seconds > spec.seconds:
        await asyncio.sleep(spec.seconds)
        raise CallFailed("timeout", f"no answer within {spec.seconds:g} seconds")
    if seconds:
        await asyncio.sleep(seconds)
    if why := script.get("fails"):
        raise CallFailed("failed", str(why))
    if script.get("do") == "simulated":
        return _simulated(script, call)
    cost, tokens = _number(script, "cost", spec.most_cost), int(_number(script, "tokens", 0))
    if script.get("asks") and not call.exchanges:
        return AttemptResult(str(script["asks"]), 0.0, 0, asks=True)
    return AttemptResult(_content(script, call), cost, tokens)


def _simulated(script: Mapping[str, Any], call: AgentCall) -> AttemptResult:
    """What a simulated agent says after what was said in this episode: the same for the same task and calls, whenever it is asked."""
    try:
        pool = pool_named(str(script.get("pool", "")))
        ids = {agent.name: agent.id for agent in pool.agents}
        response = pool.respond(
            call.task, [ids[earlier.agent] for earlier in call.history if earlier.agent in ids], int(script["agent"])
        )
    except (ValueError, TypeError, KeyError) as error:
        raise CallFailed("malformed", f"a simulated agent needs pool and agent: {error}") from None
    if response.failed:
        raise CallFailed("failed", "the simulated agent failed, as it does now and then")
    return AttemptResult(response.output, response.cost, response.tokens, {"answer": response.answer})


def _content(script: Mapping[str, Any], call: AgentCall) -> str:
    do = script.get("do", "echo")
    if do == "echo":
        return call.latest
    if do == "say":
        return str(script.get("text", ""))
    if do == "recorded":
        outputs = script.get("outputs") or {}
        return str(outputs.get(call.task, script.get("otherwise", "")))
    raise CallFailed("malformed", f"a script does {', '.join(WAYS)}, not {str(do)[:40]!r}")


def _number(script: Mapping[str, Any], name: str, default: float) -> float:
    value = script.get(name, default)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else default
