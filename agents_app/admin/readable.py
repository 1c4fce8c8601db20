"""What a JSON column holds, as a person reads it: agents by name, lists in one line, a map as terms and what they stand for."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from agents_app.models import Agent, Pool

NOTHING = "–"
#: Columns and keys whose whole numbers are agents of the pool, in a list or as the keys of a map.
OF_AGENTS = frozenset(
    {
        "required",
        "asked",
        "agents",
        "scores",
        "decided_by",
        "proposed",
        "kept",
        "added",
        "removed",
        "chosen",
        "costs",
        "thresholds",
    }
)


def pool_of(obj: Any) -> Pool | None:
    """The pool that a row belongs to, by itself, its query or its dataset; None for what belongs to none."""
    if isinstance(obj, Pool):
        return obj
    for name in ("pool", "dataset", "query", "item", "agent"):
        below = getattr(obj, name, None)
        if below is not None and not isinstance(below, str) and (pool := pool_of(below)) is not None:
            return pool
    return None


def readable(value: Any, name: str, pool: Pool | None = None) -> SafeString:
    """The value of the column or key `name`; the agents that it names are those of `pool`."""
    agent_names = dict(Agent.objects.filter(pool=pool).values_list("number", "name")) if pool else {}
    return _drawn(value, name, agent_names)


def in_words(value: Any) -> str:
    """A value in one line of plain text, as the history of changes has it."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {in_words(item)}" for key, item in value.items()) or NOTHING
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value)) or NOTHING
    if value is None or value == "":
        return NOTHING
    return str(value)


def _drawn(value: Any, name: str, agent_names: Mapping[int, str]) -> SafeString:
    agents = agent_names if name in OF_AGENTS else {}
    if isinstance(value, Mapping) and value:
        rows = ((_key(key, agents), _drawn(item, str(key), agent_names)) for key, item in value.items())
        return format_html("<dl>{}</dl>", format_html_join("", "<div><dt>{}</dt> <dd>{}</dd></div>", rows))
    if isinstance(value, list | tuple) and value:
        if all(isinstance(item, Mapping | list) for item in value):
            return format_html(
                "<ol>{}</ol>",
                format_html_join("", "<li>{}</li>", ([_drawn(item, name, agent_names)] for item in value)),
            )
        return format_html("{}", ", ".join(_key(number, agents) for number in value))
    return format_html("{}", _one(value))


def _key(value: Any, agents: Mapping[int, str]) -> str:
    digits = str(value)
    number = int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None
    return _one(value) if number is None or number not in agents else agents[number]


def _one(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping | Sequence) and not value:
        return NOTHING
    return in_words(value)
