"""Agents without a network, for tests, demonstrations and trying things out. `script["do"]` says what one does:

- `echo`: says the task again.
- `say`: says `text`.
- `recorded`: says what `outputs` has for the task, `otherwise` where it has nothing.
- `simulated`: plays one of the engine's simulated agents, `agent` of `pool`.

Each may have `cost`, `tokens` and `seconds` (how long it takes), and `fails`, the words of a failure.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from training_app.orchestration.calls import Ask, CallFailed, Spec

WAYS = ("echo", "say", "recorded", "simulated")


async def play(spec: Spec, asked: Ask) -> tuple[str, float, int, dict[str, Any]]:
    """What the script says: content, cost, tokens, metadata. Raises CallFailed."""
    script = spec.script
    seconds = _number(script, "seconds", 0.0)
    if seconds > spec.seconds:
        await asyncio.sleep(spec.seconds)
        raise CallFailed("timeout", f"no answer within {spec.seconds:g} seconds")
    if seconds:
        await asyncio.sleep(seconds)
    if why := script.get("fails"):
        raise CallFailed("failed", str(why))
    cost, tokens = _number(script, "cost", spec.most_cost), int(_number(script, "tokens", 0))
    return _content(script, asked), cost, tokens, {}


def _content(script: Mapping[str, Any], asked: Ask) -> str:
    do = script.get("do", "echo")
    if do == "echo":
        return asked.task
    if do == "say":
        return str(script.get("text", ""))
    if do == "recorded":
        outputs = script.get("outputs") or {}
        return str(outputs.get(asked.task, script.get("otherwise", "")))
    raise CallFailed("malformed", f"a script does {', '.join(WAYS)}, not {str(do)[:40]!r}")


def _number(script: Mapping[str, Any], name: str, default: float) -> float:
    value = script.get(name, default)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else default
