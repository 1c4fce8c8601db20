"""What comes back: answers, agents, and why there is none."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


class RouterwebError(Exception):
    """There is no answer."""


class Unreachable(RouterwebError):
    """Nobody answered, or a server that cannot just now, as often as was tried."""


class Refused(RouterwebError):
    """The server refused the call. `code` is a word for programs, `field` says where, `hint` what to do."""

    def __init__(self, status: int, code: str, message: str, field: str = "", hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.status, self.code, self.field, self.hint = status, code, field, hint


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raises Refused where an answer of the server lacks a field that is read meanwhile, or has it in another form."""
    try:
        yield
    except KeyError as error:
        message = f"The server's answer lacks {error.args[0]!r}: {what} cannot be read."
    except (TypeError, ValueError, AttributeError) as error:
        message = f"The server's answer is not in Routerweb's form: {what} cannot be read ({error})."
    else:
        return
    hint = "Compare the versions of the client and the server, and what stands between them."
    raise Refused(200, "unknown", message, hint=hint)


def listed(payload: Mapping[str, Any], name: str) -> list[Any]:
    """The list of that name in an answer. Raises Refused."""
    with reading(f"its {name}"):
        values = payload[name]
        if not isinstance(values, list):
            raise TypeError(f"{name!r} is no list")
        return values


@dataclass(frozen=True, slots=True)
class Answer:
    """The agents that one query needs, in the order they were chosen. `raw` is the whole answer as it came; `local`: the exported
    model answered, and there is no decision to report on."""

    agents: tuple[int, ...]
    agent_names: tuple[str, ...]
    abstained: bool
    confidence: float
    scores: Mapping[int, float]
    stop_reason: str
    model: str
    decision_id: str | None
    local: bool = False
    warnings: tuple[str, ...] = ()
    #: The agents' keys, which stay when an agent is renamed; empty where an exported model answered that has none.
    agent_keys: tuple[str, ...] = ()
    #: Whether the agents are those of the conversation's last turn, and how likely that is right; None for a first turn.
    continues: bool | None = None
    continues_confidence: float | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Answer":
        """An answer of the server. Raises Refused."""
        with reading("a route"):
            return cls(
                tuple(body["agents"]),
                tuple(body["agent_names"]),
                body["abstained"],
                body["confidence"],
                {int(agent): score for agent, score in body["scores"].items()},
                body["stop_reason"],
                body["model"],
                body["decision_id"],
                warnings=tuple(body.get("warnings", ())),
                agent_keys=tuple(body.get("agent_keys", ())),
                continues=body.get("continues"),
                continues_confidence=body.get("continues_confidence"),
                raw=body,
            )


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent of a pool."""

    id: int
    code: str
    name: str
    description: str
    state: str
    available: bool
    key: str = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Agent":
        """An agent as the server lists it. Raises Refused."""
        with reading("an agent"):
            return cls(**{name: body[name] for name in cls.__slots__ if name in body or name != "key"})


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a pool's traffic says about its agents: `kind` "missing", "overlap", "unused", "together" or "attracts", the ids of the
    agents that it is about, and queries that show it."""

    id: int
    kind: str
    state: str
    name: str
    agents: tuple[int, ...]
    queries: int
    share: float
    examples: tuple[str, ...]

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Proposal":
        """A proposal as the server lists it. Raises Refused."""
        with reading("a proposal"):
            values: dict[str, Any] = {name: body[name] for name in cls.__slots__}
            return cls(**values | {name: tuple(values[name]) for name in ("agents", "examples")})
