"""What a call of an agent is made of: what is asked, who is called and how, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from agents_app.llm import Connection
from agents_app.outbound.guard import Server
from orchestration_app.models import LANGUAGE_MODELS, Executor

#: Why a call has no reply. A program may rely on these words.
FAILURES = {
    "timeout": "No whole answer in time.",
    "unreachable": "No connection.",
    "cut_off": "The connection broke off within the answer.",
    "too_large": "The answer is larger than it may be.",
    "malformed": "The answer cannot be read.",
    "rate_limited": "Too many calls, says who was called.",
    "refused": "Who was called refused the call.",
    "failed": "Who was called failed.",
    "not_allowed": "This site does not call that address or function.",
    "no_executor": "The agent has no executor.",
    "not_now": "The agent is paused or retired.",
    "instruction": "The instruction cannot be drawn.",
    "busy": "No place for the call became free in time.",
    "budget": "The most that the call may cost does not fit the budget.",
    "denied": "A person did not approve the call.",
    "length": "The answer is not whole.",
    "interrupted": "The process ended while the call was under way; whether it was answered is not known.",
}
#: Failures after which nobody has done any work: made again whatever the executor says.
UNDONE = frozenset({"unreachable", "rate_limited"})
#: Failures after which who was called may have worked: made again only where the executor says so.
UNSURE = frozenset({"timeout", "cut_off", "failed"})


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for one request: a secret that is shown nowhere, the seconds and bytes that the answer may take, and a server that
    may be called though it is not on the internet."""

    secret: str
    seconds: float
    most_bytes: int
    own_server: Server | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """An executor as calls see it. The secret is open here, and `repr` leaves it out.

    `provider` is who is paid and limited, over all agents: where a call goes, as scheme, host and port; "" for none. `llm` is the
    installation's, which fills in the arguments of tools. `own_server` may be called though it is not on the internet.
    """

    agent: int
    name: str
    description: str
    kind: str
    address: str = ""
    model: str = ""
    instruction: str = ""
    tools: Sequence[Any] = ()
    function: str = ""
    script: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    price_in: float = 0.0
    price_out: float = 0.0
    most_tokens: int = 1_024
    most_cost: float = 0.0
    seconds: float = 30.0
    retries: int = 0
    repeatable: bool = False
    most_bytes: int = 1_024 * 1_024
    at_once: int = 0
    per_minute: int = 0
    pk: int = 0
    reads_others: bool = False
    approval: str = Executor.Approval.NEVER
    approval_above: float = 0.0
    llm: Connection | None = None
    own_server: Server | None = None

    @property
    def is_language_model(self) -> bool:
        """Whether it is asked with messages and paid by tokens."""
        return self.kind in LANGUAGE_MODELS

    @property
    def provider(self) -> str:
        """Scheme, host and port of the address in lower case; "" where no address is called."""
        return _provider(self.address)

    @property
    def bearer(self) -> dict[str, str]:
        """The header that shows the secret, where there is one."""
        return {"Authorization": f"Bearer {self.secret}"} if self.secret else {}

    def paid(self, usage: Any, names: tuple[str, str], worst: float) -> tuple[float, int, int]:
        """What a call of a language model cost, and its tokens in and out, which its provider tells under these names. Where nothing
        tells the cost, it counts as what it can have been, `worst`."""
        tokens_in, tokens_out = _count(usage, names[0]), _count(usage, names[1])
        if not usage or not (self.price_in or self.price_out):
            return worst, tokens_in, tokens_out
        return (tokens_in * self.price_in + tokens_out * self.price_out) / 1e6, tokens_in, tokens_out

    def terms(self, seconds: float | None = None) -> Terms:
        """What holds for a request to it; `seconds` are those that are left, where a call takes several requests."""
        return Terms(self.secret, self.seconds if seconds is None else seconds, self.most_bytes, self.own_server)


def _count(usage: Any, name: str) -> int:
    """A number of tokens that a provider tells; 0 where it tells none."""
    value = usage.get(name) if isinstance(usage, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0


@lru_cache(maxsize=1_024)
def _provider(address: str) -> str:
    scheme, _colons, rest = address.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}".lower() if rest else ""


class EarlierOutput(NamedTuple):
    """One earlier output of the episode."""

    agent: str
    content: str
    failed: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a webhook, a function, or a template."""
        return {"agent": self.agent, "content": self.content, "failed": self.failed}


class Exchange(NamedTuple):
    """A question that the agent asked within this call, and what the user answered."""

    question: str
    answer: str

    def as_json(self) -> dict[str, str]:
        """For a webhook, a function, or a template."""
        return {"question": self.question, "answer": self.answer}


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One call of an agent, as the agent gets it: the task, as a text and as a conversation, and what others have said. `key` names
    the call for ever.

    Where the agent asked questions before it could go on, `exchanges` are those with their answers, and `resume` is what it then
    said of itself (such as the id of its task), to be sent again.

    `tool`: name and arguments, where the caller chose one of an MCP server's tools and filled them in itself.
    """

    key: str
    task: str
    messages: Sequence[Mapping[str, str]] = ()
    history: Sequence[EarlierOutput] = ()
    episode: str = ""
    step: int = 0
    exchanges: Sequence[Exchange] = ()
    resume: Mapping[str, Any] = field(default_factory=dict)
    tool: tuple[str, Mapping[str, Any]] | None = None

    @property
    def attempt_key(self) -> str:
        """The Idempotency-Key: another one after each answered question, since that is another request."""
        return f"{self.key}-{len(self.exchanges)}" if self.exchanges else self.key

    @property
    def latest(self) -> str:
        """What the user said last: the answer to a question, else the task."""
        return self.exchanges[-1].answer if self.exchanges else self.task

    @property
    def with_others(self) -> str:
        """The task, and below it what other agents said, for agents that read one text."""
        lines = [f"{earlier.agent}: {'(failed)' if earlier.failed else earlier.content}" for earlier in self.history]
        return "\n\n".join([self.task, "Others have worked on this before you:", *lines]) if lines else self.task


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent said. `cost` in the pool's currency, `tokens` in and out together, `latency` in seconds.

    `asks`: it is a question to the user, without whose answer the agent does not go on; `resume` is then told it again with the
    answer.
    """

    content: str
    cost: float
    tokens: int
    latency: float
    metadata: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1
    asks: bool = False
    resume: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why nothing was said; `kind` is one of FAILURES. `cost` is what may have been spent: all that the call could cost, where it may
    have been worked on and nobody told."""

    kind: str
    why: str
    cost: float = 0.0
    latency: float = 0.0
    attempts: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)


Outcome = Reply | Failure


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """What came of one attempt: `cost` None where who was called does not say."""

    content: str
    cost: float | None = None
    tokens: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)
    asks: bool = False
    resume: Mapping[str, Any] = field(default_factory=dict)


class CallFailed(Exception):
    """One attempt came to nothing. `again` is when who was called says to come back, in seconds."""

    def __init__(self, kind: str, why: str, *, again: float | None = None) -> None:
        super().__init__(why)
        self.kind, self.again = kind, again


def spec_of(executor: Executor, secret: str, llm: Connection | None) -> Spec:
    """The executor for calls, with its secret opened, and the installation's LLM.

    This is where an address and a model come from: who chooses a backend for the agent replaces them here (`dataclasses.replace`).
    """
    agent = executor.agent
    return Spec(
        agent=agent.number, name=agent.name, description=agent.description, kind=executor.kind, address=executor.address,
        model=executor.model, instruction=executor.instruction, tools=tuple(executor.tools), function=executor.function,
        script=dict(executor.script), secret=secret, price_in=executor.price_in, price_out=executor.price_out,
        most_tokens=executor.most_tokens, most_cost=executor.dearest, seconds=executor.seconds, retries=executor.retries,
        repeatable=executor.repeatable, most_bytes=executor.most_kb * 1_024, at_once=executor.at_once,
        per_minute=executor.per_minute, pk=executor.pk, options=dict(executor.options),
        reads_others=executor.reads_others or "history" in executor.instruction, approval=executor.approval,
        approval_above=executor.approval_above, llm=llm,
    )  # fmt: skip
