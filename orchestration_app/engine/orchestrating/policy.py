"""The orchestrator that serves: a state in, a distribution over the agents and STOP out. Pure, and numpy only.

    z_a    = w · relu(W [own_a, shared] + b + E_a) + k · own_a + R_a · shared + T[last, a]          for each agent a
    z_STOP = v · relu(V [mean per_agent, shared] + c) + R_STOP · shared + T[last, STOP]
    π(a | s) = exp(z_a) / Σ exp(z)                                                   over what is allowed

own_a and shared are `State.features`, E_a float32[H] and R_a float32[WIDTH] what is learnt of agent a alone, T float32[A + 1, A +
1] which agent follows which, its last row for a path without a call. k is a straight line from an agent's own features to its
logit: it starts as the set router's decision, so that a policy that has learnt nothing calls the one-shot set and stops.
`reinforce.py` learns the same function in torch; a test holds the two equal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.reading import Outputs, Reader, silence
from orchestration_app.engine.orchestrating.state import (
    OWN,
    SHARED,
    UNLIMITED,
    WIDTH,
    Allowance,
    Call,
    Heard,
    State,
    Task,
    as_messages,
    features,
)
from training_app.engine.data import artifact
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.artifact import Artifact, ArtifactError
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences
from training_app.engine.reading.scorers import Platt
from training_app.engine.routing.router import Router
from training_app.engine.routing.text_reader import scorer_of, scorer_parts

KIND = "orchestrator"
BARRED = -1e9  # the logit of what is not allowed
#: A network's parameters by name, with their shapes for A agents and H hidden units.
PARAMETERS = (
    "agent.in", "agent.bias", "agent.own", "agent.out", "agent.line", "agent.shift",
    "stop.in", "stop.bias", "stop.out", "stop.shift", "shared", "next",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a policy makes of a state: `agents` are the ids of the candidates, and `probabilities` float32[len(agents) + 1] theirs,
    the last that of STOP. Agents that may not be called have probability 0. `logits` are the values before the softmax."""

    agents: tuple[int, ...]
    probabilities: FloatArray
    logits: FloatArray

    @property
    def stop(self) -> float:
        """The probability of STOP."""
        return float(self.probabilities[-1])

    def greedy(self) -> int | None:
        """The likeliest agent's id, None for STOP. Of equals the first, STOP last."""
        at = int(self.probabilities.argmax())
        return None if at == len(self.agents) else self.agents[at]


@dataclass(frozen=True, slots=True)
class Network:
    """The parameters of a policy: see the equations above. `tensors` holds each of PARAMETERS."""

    tensors: Mapping[str, FloatArray]

    def __post_init__(self) -> None:
        shapes = parameter_shapes(self.agents, self.hidden)
        for name, shape in shapes.items():
            if self.tensors[name].shape != shape:
                raise ValueError(f"{name} has the shape {self.tensors[name].shape}, not {shape}")

    @property
    def agents(self) -> int:
        return len(self.tensors["agent.own"])

    @property
    def hidden(self) -> int:
        return len(self.tensors["agent.out"])

    def logits(self, per_agent: FloatArray, shared: FloatArray, last: NDArray[np.int64]) -> FloatArray:
        """The logits of B states, float32[B, A + 1]: per_agent float32[B, A, len(OWN)], shared float32[B, WIDTH], `last` int64[B] the
        place of the agent that answered last, A where none has."""
        t, width = self.tensors, per_agent.shape[-1]
        # With an axis of one row, each state is a product of its own: the last bit does not depend on who else is asked about.
        row = shared[:, None]  # (B, 1, WIDTH)
        inner = (
            row @ t["agent.in"][width:] + t["agent.bias"] + per_agent @ t["agent.in"][:width] + t["agent.own"]
        )  # (B, A, H)
        agents = np.maximum(inner, 0) @ t["agent.out"][:, None] + per_agent @ t["agent.line"][:, None]  # (B, A, 1)
        inner = (
            per_agent.mean(axis=1, keepdims=True) @ t["stop.in"][:width] + row @ t["stop.in"][width:] + t["stop.bias"]
        )
        stop = np.maximum(inner, 0) @ t["stop.out"][:, None] + t["stop.shift"]  # (B, 1, H) -> (B, 1, 1)
        scores: FloatArray = np.concatenate([agents[..., 0] + t["agent.shift"], stop[:, 0]], axis=1).astype(np.float32)
        scores += (row @ t["shared"])[:, 0] + t["next"][last]
        return scores


def parameter_shapes(agents: int, hidden: int) -> dict[str, tuple[int, ...]]:
    """The shape of each of PARAMETERS."""
    inputs = len(OWN) + WIDTH
    return {
        "agent.in": (inputs, hidden),
        "agent.bias": (hidden,),
        "agent.own": (agents, hidden),
        "agent.out": (hidden,),
        "agent.line": (len(OWN),),
        "agent.shift": (agents,),
        "stop.in": (inputs, hidden),
        "stop.bias": (hidden,),
        "stop.out": (hidden,),
        "stop.shift": (1,),
        "shared": (WIDTH, agents + 1),
        "next": (agents + 1, agents + 1),
    }


def softmax(logits: FloatArray, allowed: BoolArray) -> FloatArray:
    """Probabilities of what is allowed, 0 for the rest: float32[..., A + 1], bool[..., A + 1] -> float32[..., A + 1]."""
    masked = np.where(allowed, logits, BARRED)
    powers = np.exp(masked - masked.max(axis=-1, keepdims=True)) * allowed
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)


class Orchestrator:
    """A trained orchestrator. Immutable but for what it remembers of texts, and safe to share between threads.

    `repeats` is how often one agent may be called in an episode. Make one with `Orchestrator.load`.
    """

    kind = KIND

    def __init__(
        self,
        agents: Sequence[Agent],
        reader: Reader,
        network: Network,
        *,
        repeats: int = 2,
        max_steps: int = 8,
        version_info: Mapping[str, Any] | None = None,
    ) -> None:
        if network.agents != len(agents) or reader.agents != len(agents):
            raise ValueError(f"{len(agents)} agents, and a network for {network.agents}")
        self.agents = tuple(agents)
        self.reader, self.network = reader, network
        self.repeats, self.max_steps = repeats, max_steps
        self.version_info: dict[str, Any] = dict(version_info or {})
        self.ids = tuple(agent.id for agent in self.agents)
        self._place = {identifier: a for a, identifier in enumerate(self.ids)}
        self._costs = np.array([agent.cost for agent in self.agents], np.float32)
        self._silence = silence(len(self.agents))

    # ------------------------------------------------------------------------------------------------------ deciding

    def begin(self, task: Task, allowance: Allowance = UNLIMITED) -> State:
        """The state of a new episode."""
        state = self.blank(task, allowance)
        log_odds = self.reader.task(state.task)
        return replace(state, log_odds=log_odds, one_shot=self.reader.one_shot(log_odds[None])[0])

    def blank(self, task: Task, allowance: Allowance = UNLIMITED) -> State:
        """`begin` before the task is read."""
        max_steps, budget, costs = allowance
        estimates = self._costs
        if costs:
            estimates = np.array([costs.get(i, c) for i, c in zip(self.ids, self._costs, strict=True)], np.float32)
        nothing = np.zeros(len(self.ids), np.float32)
        limit = max_steps or self.max_steps
        return State(
            as_messages(task), self.ids, nothing, nothing, estimates, max_steps=limit, budget=budget, place=self._place
        )

    def after(self, state: State, calls: Sequence[Call]) -> State:
        """The state once these calls, one step of the episode, are done. An agent that the version does not know may be among
        them."""
        return state.after(calls, [self.heard(call) for call in calls])

    def heard(self, call: Call) -> Heard:
        """What a call's output says; a failed call says nothing."""
        return self._silence if call.failed else self.reader.hear(call.output)

    def allowed(self, state: State, available: Collection[int] | None = None) -> BoolArray:
        """What may be done, bool[A + 1]: agents out of `available` (ids; all, where None) that were called less than `repeats` times,
        and STOP, always. Whether a call's worst case fits the budget is the loop's to say."""
        mask = np.ones(len(self.ids) + 1, np.bool_)
        if available is not None:
            mask[:-1] = [identifier in available for identifier in self.ids]
        mask[:-1] &= state.times() < self.repeats
        if state.steps >= state.max_steps:
            mask[:-1] = False
        return mask

    def distribution(self, state: State, available: Collection[int] | None = None) -> Distribution:
        """What the policy would do. The same state gives the same distribution, whatever came before."""
        return self.distributions([state], [available])[0]

    def distributions(self, states: Sequence[State], available: Sequence[Collection[int] | None]) -> list[Distribution]:
        """What the policy would do in each of B states, its agents out of `available` at the same place, in one product for all. To
        the last bit what each has alone."""
        per_agent, shared = features(states)  # (B, A, len(OWN)), (B, WIDTH)
        last = np.array([self.last(state) for state in states])
        logits = self.network.logits(per_agent, shared, last)  # (B, A + 1)
        allowed = np.stack([self.allowed(*pair) for pair in zip(states, available, strict=True)])
        probabilities = softmax(logits, allowed)
        return [Distribution(self.ids, p, z) for p, z in zip(probabilities, logits, strict=True)]

    def last(self, state: State) -> int:
        """The place of the agent that answered last, A where none has or it is unknown here."""
        return self._place.get(state.calls[-1].agent, len(self.ids)) if state.calls else len(self.ids)

    def why(self, state: State, agent: int | None, top: int = 5) -> list[tuple[str, float]]:
        """What spoke for an agent (id; None for STOP) in a state: the features that moved its logit against the mean of the others
        most,
        (name, by how much), strongest first. A feature's part is what the logit loses where the feature is 0."""
        per_agent, shared = state.features()
        last = self.last(state)
        at = len(self.ids) if agent is None else self._place[agent]

        def lead(per_agent: FloatArray, shared: FloatArray, last: int) -> float:
            logits = self.network.logits(per_agent[None], shared[None], np.array([last]))[0]
            return float(logits[at] - np.delete(logits, at).mean())

        whole = lead(per_agent, shared, last)
        parts: dict[str, float] = {}
        for i, name in enumerate(OWN):
            without = per_agent.copy()
            without[:, i] = 0
            parts[name] = whole - lead(without, shared, last)
        for i, name in enumerate(SHARED):
            less = shared.copy()
            less[i] = 0
            parts[f"{name} (all)"] = whole - lead(per_agent, less, last)
        less = shared.copy()
        less[len(SHARED) :] = 0
        parts["what the outputs say"] = whole - lead(per_agent, less, last)
        parts["who answered last"] = whole - lead(per_agent, shared, len(self.ids))
        ordered = sorted(parts.items(), key=lambda part: -abs(part[1]))
        return [(name, round(part, 4)) for name, part in ordered[:top] if abs(part) > 1e-6]

    # ------------------------------------------------------------------------------------------------ saving, loading

    def to_artifact(self, metrics: Mapping[str, Any] | None = None, router: Artifact | None = None) -> Artifact:
        """The parts of the version. `router` is the artifact that the reader's router was loaded from, where it has one."""
        if (router is None) != (self.reader.router is None):
            raise ValueError("a reader with a router is saved with the router's artifact, and only such a reader")
        tensors: dict[str, NDArray[Any]] = {f"network.{k}": v for k, v in self.network.tensors.items()}
        vocabulary: dict[str, Any] = {}
        config: dict[str, Any] = {
            "kind": KIND,
            "agents": [
                {"id": a.id, "name": a.name, "description": a.description, "code": a.code, "cost": a.cost}
                for a in self.agents
            ],
            "repeats": self.repeats,
            "max_steps": self.max_steps,
            "encoding": self.reader.encoding,
            "sentences": sentences.NAME if self.reader.encoding == "sentences" else "",
            "version_info": self.version_info,
            "router": None,
            "outputs": None,
        }
        if router is not None:
            config["router"] = router.config
            vocabulary |= router.vocabulary
            tensors |= router.tensors
        if self.reader.outputs is not None:
            entry, words, more = scorer_parts("outputs", self.reader.outputs.scorer)
            config["outputs"] = entry
            vocabulary["outputs"] = words
            tensors |= more
            tensors["outputs_platt.scale"] = self.reader.outputs.platt.scale
            tensors["outputs_platt.shift"] = self.reader.outputs.platt.shift
        if self.reader.projection is not None:
            tensors["projection"] = self.reader.projection
        return Artifact(config, vocabulary, tensors, dict(metrics or {}))

    @classmethod
    def load(cls, source: str | Path | bytes) -> Orchestrator:
        """From the path of an artifact (directory or zip) or its bytes. Raises ArtifactError with the reason."""
        return cls.from_artifact(artifact.read(source))

    @classmethod
    def from_artifact(cls, parts: Artifact) -> Orchestrator:
        """From parts already read. Raises ArtifactError where they do not fit together."""
        config, tensors = parts.config, parts.tensors
        if config.get("kind") != KIND:
            raise ArtifactError(f"the artifact is a {config.get('kind', 'set router')}, not an {KIND}")
        try:
            agents = parts.agents
            router = None
            if config.get("router"):
                router = Router.from_artifact(Artifact(config["router"], parts.vocabulary, tensors))
            outputs = None
            if config.get("outputs"):
                scorer = scorer_of("outputs", parts)
                outputs = Outputs(scorer, Platt(tensors["outputs_platt.scale"], tensors["outputs_platt.shift"]))
            if config["encoding"] == "sentences":
                sentences.check(str(config.get("sentences")))
            reader = Reader(len(agents), router, outputs, str(config["encoding"]), tensors.get("projection"))
            network = Network({name: tensors[f"network.{name}"] for name in PARAMETERS})
            orchestrator = cls(
                agents,
                reader,
                network,
                repeats=int(config["repeats"]),
                max_steps=int(config["max_steps"]),
                version_info=dict(config.get("version_info", {})),
            )
            # One decision shows whether all shapes fit, before an application's first does.
            first = orchestrator.begin("a task")
            orchestrator.distribution(orchestrator.after(first, [Call(agents[0].id, "an output")]))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(f"the artifact's parts do not fit together: {error}") from error
        return orchestrator


def fresh_network(agents: int, hidden: int, rng: np.random.Generator, *, one_shot: bool) -> Network:
    """A network that has learnt nothing. With `one_shot` it calls the set router's agents, likeliest first, and stops; without, all
    that may be done is nearly as likely."""
    tensors: dict[str, FloatArray] = {}
    for name, shape in parameter_shapes(agents, hidden).items():
        spread = np.sqrt(2 / shape[0]) if name in ("agent.in", "stop.in") else 0.0
        spread = 0.1 / np.sqrt(hidden) if name in ("agent.out", "stop.out", "agent.own") else spread
        tensors[name] = (rng.normal(size=shape) * spread).astype(np.float32)
    if one_shot:
        line = tensors["agent.line"]
        line[OWN.index("pending")] = 4.0
        line[OWN.index("task")] = 1.0
        line[OWN.index("called")] = -2.0
        tensors["agent.shift"] -= 2.0
    return Network(tensors)
