"""What an episode pays. numpy only.

`paper`, as Puppeteer writes it (arXiv 2505.19591), with T the last step and φ the most steps allowed:

    C_t = F_t log(1 + t / φ)          R_T = r - λ C_T          R_t = γ R_{t+1} - λ C_t

`flat`, as the Dynamic Orchestrator Agent framework means it, the cost counted once (its code subtracts every step's cost, and at the
end their sum again):

    R_T = r - λ c_T                   R_t = γ R_{t+1} - λ c_t

so that at γ = 1 the return is r - λ Σ c_t. F_t and c_t are what the calls of step t cost: money in the pool's currency, or
thousands of tokens, and the time that they take: σ units for each second until the last of them has answered. Calls of one step are
made beside each other, so that the longest counts. r is paid once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrator_config import OrchestratorConfig

#: One episode's, or those of many.
Amount = TypeVar("Amount", float, NDArray[np.float64])
Form = Literal["paper", "flat"]


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a pool: `price` is λ, `success` and `failure` the two ends of r; `costs` says what a step's cost is counted
    in, and `second` is σ, what a second of waiting counts as in that unit."""

    price: float = 0.1
    gamma: float = 0.99
    success: float = 1.0
    failure: float = -1.0
    form: Form = "flat"
    costs: Literal["money", "tokens"] = "money"
    second: float = 0.0

    def ends(self, score: Amount) -> Amount:
        """r of an episode that was as good as `score`, 0 to 1."""
        return self.failure + (self.success - self.failure) * score

    def cost(self, calls: Sequence[Call]) -> float:
        """What one step's calls cost, as this reward counts it, the time that they took among it."""
        spent = sum(call.cost if self.costs == "money" else call.tokens / 1000 for call in calls)
        return spent + self.second * max((call.latency for call in calls), default=0.0)

    def returns(self, costs: Sequence[float], score: float, max_steps: int) -> NDArray[np.float64]:
        """R_t of each decision of an episode, float64[T]: `costs` of its T decisions in order, that of STOP being 0; the last
        decision is paid r."""
        discounted = np.zeros(len(costs))
        after = 0.0
        for t in range(len(costs) - 1, -1, -1):
            factor = np.log1p((t + 1) / max(max_steps, 1)) if self.form == "paper" else 1.0
            last = t == len(costs) - 1
            after = (self.ends(score) if last else self.gamma * after) - self.price * costs[t] * factor
            discounted[t] = after
        return discounted

    def total(self, cost: Amount, score: Amount) -> Amount:
        """What an episode was worth, undiscounted and with its cost counted once, r - λ C: what scorecards show."""
        return self.ends(score) - self.price * cost


def reward_of(config: OrchestratorConfig) -> Reward:
    """The reward that the settings of a run describe."""
    price, success, failure = config.pays
    form: Form = "paper" if config.reward_form == "paper" else "flat"
    return Reward(
        price, config.gamma, success, failure, form, "tokens" if config.costs == "tokens" else "money", config.second
    )
