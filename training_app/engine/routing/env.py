"""The routing problem as a Markov decision process.

State: a query and the set S of agents selected so far. Actions: select one more agent, or STOP. An episode ends on
STOP, when no agent is left to select, or when the most agents allowed are selected. R is the required set and
J(S, R) = |S ∩ R| / |S ∪ R|, 1 where both are empty.

Reward modes, with t = 1, 2, … the number of the step and λ the step cost:

    shaped      every selection pays γ J(S', R) − J(S, R), the one that ends the episode J(S', R) − J(S, R); STOP pays 0.
                This is the terminal reward J(S, R) shaped by the potential Φ = J (Ng, Harada and Russell 1999) with
                Φ(terminal) = 0. At γ = 1 the return is the final Jaccard less the first, so the optimal policy is that
                of the terminal reward.
    jaccard     a selection costs λ; the end pays J(S, R).
    log         a selection costs λ log(1 + t / T), T the longest episode (arXiv 2505.19591); the end pays J(S, R).
    stochastic  a selection costs λ; the end pays 1 if one required agent, drawn at random, is in S; 0 where R is
                empty.

J is the Jaccard index, or whatever else the goal says that a set is worth (`goals.py`). Where rules say which sets are allowed
(`allowed.py`), agents and STOP are masked so that every walk ends in one that is.

The environment is known, so the reward of every action can be computed, not only the taken one's: all functions take
batches of states. numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.routing.allowed import Allowed, SetLimits
from training_app.engine.routing.goals import JACCARD, Goal


@dataclass(frozen=True, slots=True)
class RoutingEnv:
    """The rules of one pool: how many agents there are, what is allowed and what is paid."""

    agents: int
    reward_mode: str = "shaped"
    gamma: float = 1.0
    step_cost: float = 0.05
    min_agents: int = 0
    max_agents: int = 0  # 0 is no limit
    action_masking: bool = True
    max_steps: int = 0  # 0 is no limit; a limit matters where agents may be selected again
    goal: Goal = JACCARD
    allowed: Allowed | None = None  # None: every set is

    @property
    def limits(self) -> SetLimits:
        """What every set keeps to."""
        return SetLimits(self.min_agents, self.max_agents, allowed=self.allowed)

    @property
    def shaped(self) -> bool:
        """Whether STOP has value 0 in every state, so that nobody needs to learn it."""
        return self.reward_mode == "shaped"

    @property
    def horizon(self) -> int:
        """T, the longest episode."""
        longest = min(self.agents, self.max_agents) if self.max_agents else self.agents
        if not self.action_masking and self.max_steps:
            return self.max_steps
        return min(longest, self.max_steps) if self.max_steps else longest

    def selectable(self, selected: BoolArray, available: BoolArray) -> BoolArray:
        """Agents that may be selected: available, not selected yet, below the limit, and leading to a set that is allowed.
        bool[..., A]; [B, A] where rules say what is allowed."""
        allowed = available & ~selected if self.action_masking else available.copy()
        if self.max_agents:
            allowed &= (selected.sum(axis=-1) < self.max_agents)[..., None]
        if self.allowed is not None:
            allowed &= self.allowed.open(selected, available)
        return allowed

    def stoppable(self, selected: BoolArray, available: BoolArray) -> BoolArray:
        """Whether STOP is allowed: enough agents are selected and nobody whom they require is missing, or none is left to select.
        bool[...]."""
        enough = selected.sum(axis=-1) >= self.min_agents
        if self.allowed is not None:
            enough &= self.allowed.complete(selected)
        return enough | ~self.selectable(selected, available).any(axis=-1)

    def cost(self, steps: FloatArray) -> FloatArray:
        """What the selection number `steps` (counted from 1) costs in the unshaped modes, float32 of its shape."""
        if self.reward_mode == "log":
            return (self.step_cost * np.log1p(steps / self.horizon)).astype(np.float32)
        return np.full_like(steps, self.step_cost, dtype=np.float32)

    def selection_rewards(
        self, selected: BoolArray, required: BoolArray, available: BoolArray | None = None
    ) -> FloatArray:
        """What selecting each agent pays, out of those `available` (all, where None): bool[B, A] each -> float32[B, A]."""
        if self.shaped:
            # The last selection comes to the terminal state: it pays J itself, undiscounted, and no potential is left.
            selectable_count = (
                selected.shape[-1] if available is None else (available | selected).sum(axis=-1, keepdims=True)
            )
            ends = selected.sum(axis=-1, keepdims=True) + 1 >= np.minimum(selectable_count, self.horizon)
            discount = np.where(ends & self.action_masking, 1.0, self.gamma).astype(np.float32)
            return discount * self.goal.after(selected, required) - self.goal.utility(selected, required)[:, None]
        steps = selected.sum(axis=-1, keepdims=True).astype(np.float32) + 1
        return np.broadcast_to(-self.cost(steps), selected.shape).astype(np.float32)

    def stop_rewards(self, selected: BoolArray, required: BoolArray, rng: np.random.Generator) -> FloatArray:
        """What STOP pays: bool[B, A], bool[B, A] -> float32[B]. `rng` draws the agent of the stochastic mode."""
        if self.shaped:
            return np.zeros(len(selected), np.float32)
        if self.reward_mode == "stochastic":
            # The largest of random keys among the required agents is a uniform draw of one of them.
            keys = np.where(required, rng.random(required.shape), -1.0)
            drawn = keys.argmax(axis=-1)
            hit = selected[np.arange(len(selected)), drawn]
            return (hit & required.any(axis=-1)).astype(np.float32)
        return self.goal.utility(selected, required)
