"""The request option `preference`: what the backends of the chosen agents should be good at."""

from typing import Any

from orchestration_app.engine.backends.choosing import PRESETS, Preference
from training_app.engine.routing.options import Option, Roster, Value

WEIGHTS = ("quality", "cost", "latency")


def parse(value: Any, _roster: Roster | None = None) -> Preference:
    """The preference that a preset's name or weights mean. Raises ValueError."""
    if isinstance(value, str):
        if value in PRESETS:
            return PRESETS[value]
    elif (
        isinstance(value, dict)
        and value.keys() <= set(WEIGHTS)
        and all(type(weight) in (int, float) and 0 <= weight < 1e9 for weight in value.values())
        and any(value.values())
    ):
        return Preference.of(**value)
    raise ValueError


PREFERENCE = Option(
    "preference",
    Value(
        {
            "oneOf": [
                {"type": "string", "enum": list(PRESETS)},
                {
                    "type": "object",
                    "properties": {name: {"type": "number", "minimum": 0} for name in WEIGHTS},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        },
        f"be one of {', '.join(PRESETS)}, or weights of quality, cost and latency, none negative, not all 0",
        parse,
    ),
    "In pools that have backends, which backends the chosen agents get: best, balanced, cheapest or fastest, or by weights of "
    "quality, cost and latency. Without it the pool's own preference counts.",
)


def options() -> tuple[Option, ...]:
    """For the hook `request_options`."""
    return (PREFERENCE,)
