"""The options of a routing request: what each is called, what it may hold, what it does to the answer, and where it can be sent.

`OPTIONS` is the one table of them. The API's serializers and checks, MCP, A2A, the Python client and its fallback, the generators of
the tests and the table in docs/api.md are all made from it; CONTRIBUTING.md says how to add one. Plain Python, so that the
client's fallback reads a request exactly as the server does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from training_app.engine.data import storable
from training_app.engine.routing import holding
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import STICKY, Continued, Explanation, Route

MAX_AGENTS = 1_000  # ids or keys in one list, and the largest set that a request may ask for
#: Options that name who may be chosen. An agent in them that the pool does not have is a mistake: the answer would be another one.
NAMING_AGENTS = frozenset(("only", "exclude"))
#: Options that limit the set of an answer: by its agents, its cost or its size.
LIMITING_SET = NAMING_AGENTS | {"budget", "min_agents", "max_agents"}


class Carrier(StrEnum):
    """Where an option can be sent. Chat completions and ddqn-router's addresses carry none: their bodies are defined elsewhere."""

    ROUTE = "route"  # POST /api/route/
    BATCH = "batch"  # POST /api/route/batch/
    MCP = "mcp"  # the arguments of the tool
    A2A = "a2a"  # a message's metadata


EVERYWHERE = frozenset(Carrier)


class Roster(Protocol):
    """The agents of a pool: names and keys by id."""

    @property
    def names(self) -> Mapping[int, str]: ...
    @property
    def keys(self) -> Mapping[int, str]: ...


class NoAgents:
    """The roster for options that name no agents."""

    names: Mapping[int, str] = {}
    keys: Mapping[int, str] = {}


class BadOption(ValueError):
    """An option that does not hold; the message is a sentence and `field` is the option's name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Value:
    """What an option may hold. `schema` is JSON schema; `parse(value, roster)` gives what the router works with and raises ValueError;
    `must` completes "threshold must …". `ignored(value, roster)` says which part of a good value has no effect, "" for none."""

    schema: Mapping[str, Any]
    must: str
    parse: Callable[[Any, Roster], Any]
    ignored: Callable[[Any, Roster], str] = lambda _value, _roster: ""


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    `explored`: the answer may still be changed at random, where the pool explores. `shadowed`: shadows score the answer's text.
    `batched`: the texts of a batch are routed together, which is only right for what changes no walk. `replayed`: the decision
    keeps the value, so that a replay repeats it.
    """

    name: str
    value: Value
    description: str
    explored: bool = True
    shadowed: bool = True
    batched: bool = True
    replayed: bool = False
    carried: frozenset[Carrier] = EVERYWHERE

    def parse(self, value: Any, roster: Roster) -> Any:
        """What the router works with. Raises BadOption."""
        try:
            return self.value.parse(value, roster)
        except ValueError:
            raise BadOption(self.name, f"{self.name} must {self.value.must}.") from None

    @property
    def changes_answer(self) -> bool:
        """Whether an answer with this option is made in another way than one without it."""
        return not (self.explored and self.shadowed and self.batched)


# --- What options hold --------------------------------------------------------------------------------------------


def flag() -> Value:
    """True or false."""

    def parse(value: Any, _roster: Roster) -> bool:
        if not isinstance(value, bool):
            raise ValueError
        return value

    return Value({"type": "boolean", "default": False}, "be true or false", parse)


def text(longest: int) -> Value:
    """A text of 1 to `longest` characters."""

    def parse(value: Any, _roster: Roster) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest or storable.text_fault(value):
            raise ValueError
        return value

    schema = {"type": "string", "minLength": 1, "maxLength": longest}
    return Value(schema, f"be a text of 1 to {longest} characters", parse)


def number(low: int, high: int) -> Value:
    """A number from `low` to `high`."""

    def parse(value: Any, _roster: Roster) -> float:
        if type(value) not in (int, float) or not low <= value <= high:
            raise ValueError
        return float(value)

    return Value(
        {"type": "number", "format": "double", "minimum": low, "maximum": high},
        f"be a number from {low} to {high}",
        parse,
    )


def last_agents() -> Value:
    """Who answered the turn before: agents as in `agents`, or the id of the decision that chose them."""
    listed, decision = agents(), text(36)

    def parse(value: Any, roster: Roster) -> frozenset[int] | str:
        return decision.parse(value, roster) if isinstance(value, str) else listed.parse(value, roster)

    def ignored(value: Any, roster: Roster) -> str:
        return "" if isinstance(value, str) else listed.ignored(value, roster)

    schema = {"oneOf": [listed.schema, decision.schema]}
    return Value(schema, "be a list of agents' ids or keys, or the id of a decision", parse, ignored)


def count(low: int) -> Value:
    """A whole number of agents, at least `low`."""

    def parse(value: Any, _roster: Roster) -> int:
        if type(value) is not int or not low <= value <= MAX_AGENTS:
            raise ValueError
        return value

    schema = {"type": "integer", "minimum": low, "maximum": MAX_AGENTS}
    return Value(schema, f"be a whole number from {low} to {MAX_AGENTS:,}", parse)


def agents() -> Value:
    """Agents by id or key: their ids, -1 for a key that the pool does not have."""

    def parse(value: Any, roster: Roster) -> frozenset[int]:
        if (
            not isinstance(value, list)
            or len(value) > MAX_AGENTS
            or any(type(agent) not in (int, str) for agent in value)
        ):
            raise ValueError
        if all(type(agent) is int for agent in value):
            return frozenset(value)
        ids = {key: number for number, key in roster.keys.items()}
        return frozenset(ids.get(agent, -1) if type(agent) is str else agent for agent in value)

    def ignored(value: Any, roster: Roster) -> str:
        keys = set(roster.keys.values())
        unknown = [agent for agent in value if agent not in roster.names and agent not in keys]
        if not unknown:
            return ""
        text = f"the pool has no agent {', '.join(str(agent)[:20] for agent in unknown[:5])}"
        named = {name.casefold(): roster.keys[number] for number, name in roster.names.items() if number in roster.keys}
        meant = [named[agent.casefold()] for agent in unknown[:5] if str(agent).casefold() in named]
        return f"{text}; agents are chosen by id or key: {', '.join(meant)}" if meant else text

    schema = {
        "type": "array",
        "items": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "maxItems": MAX_AGENTS,
    }
    return Value(schema, f"be a list of agents' ids or keys, at most {MAX_AGENTS:,}", parse, ignored)


# --- The table ----------------------------------------------------------------------------------------------------


def _choosing(name: str, value: Value, description: str, *, replayed: bool = True) -> Option:
    """An option that changes which agents are chosen: the caller decides, so nothing is explored and no shadow is compared."""
    return Option(name, value, description, explored=False, shadowed=False, batched=False, replayed=replayed)


OPTIONS: tuple[Option, ...] = (
    # A decision's scores say which agents could be chosen, so a replay needs neither of these two.
    _choosing(
        "only", agents(), "Ids or keys of the agents that may be chosen. Without it, all agents may be.", replayed=False
    ),
    _choosing("exclude", agents(), "Ids or keys of agents that may not be chosen.", replayed=False),
    _choosing("min_agents", count(0), "The smallest number of agents in the set."),
    _choosing("max_agents", count(1), "The largest number of agents in the set."),
    _choosing(
        "threshold",
        number(0, 1),
        "Chooses the agents whose score reaches this value, likeliest first, in place of the policy's choice.",
    ),
    _choosing(
        "operating_point",
        number(-10, 10),
        "How much better than stopping another agent has to be, in place of the model's own level. A higher value means "
        "fewer agents. The scale is the policy's: a model's page shows the effect.",
    ),
    _choosing(
        "budget",
        number(0, 10**9),
        "The most that the agents of the set may cost together, in the pool's currency. The smaller of this and the "
        "pool's own budget applies.",
    ),
    Option(
        "explain",
        flag(),
        "Whether the answer explains itself: the steps of the choice and the parts of the text with the most weight.",
        carried=EVERYWHERE - {Carrier.BATCH},
    ),
    Option(
        "previous",
        last_agents(),
        "The agents of the conversation's last turn, or the id of the decision that chose them. Without it, the agents of "
        "the last answer in messages; if that names none, the last turn is routed again.",
        batched=False,
    ),
    Option(
        "sticky",
        number(0, 1),
        "How much the agents of the last turn are preferred in a conversation. They stay if that is right with a "
        "probability of at least 1 - sticky: at 0.7, the default, of at least 0.3. At 0 they get no preference.",
        batched=False,
    ),
    Option(
        "sticky_key",
        text(200),
        "Names a user or a conversation. While a canary answers a share of the traffic, the same key always gets the same "
        "model. Without a key, the query's text decides, or a conversation's first user message.",
    ),
)


def carried_by(carrier: Carrier, table: Iterable[Option] = OPTIONS) -> tuple[Option, ...]:
    """The options that can be sent there."""
    return tuple(option for option in table if carrier in option.carried)


# --- The options of one request -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestOptions:
    """The options of one request that change how its answer is made: parsed values by name, those of them that a replay needs, as
    plain JSON, and what they allow together."""

    values: Mapping[str, Any]
    replayed: Mapping[str, Any]
    explored: bool = False
    shadowed: bool = False
    batched: bool = False

    @classmethod
    def of(cls, values: Mapping[str, Any], table: Iterable[Option] = OPTIONS) -> RequestOptions | None:
        """The options among `values` that change the answer; None where none does."""
        changing = [option for option in table if option.changes_answer and option.name in values]
        if not changing:
            return None
        return cls(
            {option.name: values[option.name] for option in changing},
            {option.name: values[option.name] for option in changing if option.replayed},
            explored=all(option.explored for option in changing),
            shadowed=all(option.shadowed for option in changing),
            batched=all(option.batched for option in changing),
        )

    @property
    def names_agents(self) -> bool:
        """Whether the agents that may be chosen are limited."""
        return "only" in self.values or bool(self.values.get("exclude"))

    def allows(self, agent: int) -> bool:
        """Whether the agent may be chosen."""
        only = self.values.get("only")
        return agent not in self.values.get("exclude", ()) and (only is None or agent in only)

    def limits(self, router: Router) -> tuple[int, int]:
        """The smallest and the largest set; 0 as the largest is no limit. A limit of the request wins over the model's other one."""
        smallest, largest = router.limits
        if (wanted := self.values.get("max_agents")) is not None:
            smallest, largest = min(smallest, wanted), wanted
        if (wanted := self.values.get("min_agents")) is not None:
            smallest, largest = wanted, max(largest, wanted) if largest else 0
        return smallest, largest

    def allowed(self, rules: Rules) -> Rules:
        """The pool's rules with the request's own budget."""
        return rules.within(self.values.get("budget"))

    def walk(
        self,
        router: Router,
        text: str | Sequence[Any],
        available: frozenset[int] | None,
        explain: bool = False,
        rules: Rules | None = None,
    ) -> tuple[Route, Explanation | None]:
        """The route of a text under these options and the pool's rules (the model's own, where None), and what led to it where
        `explain` asks for that."""
        limits, margin = self.limits(router), self.values.get("operating_point")
        rules = self.allowed(router.rules if rules is None else rules)
        explanation = router.explain(text, available, limits=limits, margin=margin, rules=rules) if explain else None
        if (threshold := self.values.get("threshold")) is not None:
            route = router.above(text, threshold, available, limits=limits, rules=rules)
            return route, explanation and replace(explanation, route=route)
        if explanation is not None:
            return explanation.route, explanation
        return router.route(text, available, limits=limits, margin=margin, rules=rules), None

    @staticmethod
    def sticky(options: RequestOptions | None) -> float:
        """How much the agents of the turn before are preferred, 0 to 1."""
        values = {} if options is None else options.values
        return 0.0 if {"threshold", "operating_point"} & values.keys() else values.get("sticky", STICKY)

    @staticmethod
    def continued(
        options: RequestOptions | None,
        router: Router,
        text: str | Sequence[Any],
        route: Route,
        available: frozenset[int] | None,
        rules: Rules | None = None,
    ) -> tuple[Route, Continued | None]:
        """The route with the agents of the turn before, where they stay: see `holding.continued`. A threshold or an operating point of
        the request says by itself who is chosen."""
        sticky = RequestOptions.sticky(options)
        if options is None:
            return holding.continued(router, text, route, available, sticky=sticky, rules=rules)
        last = options.values.get("previous")
        if isinstance(last, str):  # a decision, which only a server can look up
            last = None
        return holding.continued(
            router, text, route, available, last=last, sticky=sticky, limits=options.limits(router),
            rules=options.allowed(router.rules if rules is None else rules),
        )  # fmt: skip

    @classmethod
    def of_decision(cls, detail: Mapping[str, Any]) -> RequestOptions | None:
        """The options that a decision was made with, from what it keeps beside its answer."""
        kept = detail.get("options")
        return None if kept is None else cls(kept, kept)


def parsed(body: Mapping[str, Any], roster: Roster, table: Iterable[Option] = OPTIONS) -> dict[str, Any]:
    """The values of the options in a body, by name, without those that are null. Raises BadOption."""
    values = {
        option.name: option.parse(sent, roster) for option in table if (sent := body.get(option.name)) is not None
    }
    _check_together(values)
    return values


def _check_together(values: Mapping[str, Any]) -> None:
    """Raises BadOption for options that contradict each other."""
    if "min_agents" in values and "max_agents" in values and values["min_agents"] > values["max_agents"]:
        raise BadOption("min_agents", "min_agents must not be more than max_agents.")
    if "threshold" in values and "operating_point" in values:
        raise BadOption("operating_point", "Send either threshold or operating_point.")


def ignored(body: Mapping[str, Any], roster: Roster, table: Iterable[Option] = OPTIONS) -> dict[str, str]:
    """Which parts of a body's good options have no effect: a sentence by the option's name."""
    reasons = {
        option.name: option.value.ignored(body[option.name], roster) for option in table if body.get(option.name)
    }
    return {name: f"{name}: {reason}." for name, reason in reasons.items() if reason}
