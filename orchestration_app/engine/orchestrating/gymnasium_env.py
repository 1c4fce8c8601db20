"""An environment behind Gymnasium's interface, for learners that speak it. Needs the package `gymnasium`, which serving does not."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from orchestration_app.engine.orchestrating.environment import Environment
from orchestration_app.engine.orchestrating.state import OWN, WIDTH, State
from training_app.engine.data.arrays import BoolArray, FloatArray


class OrchestrationEnv(gymnasium.Env[FloatArray, np.int64]):
    """One task at a time. An observation is `State.features`, flat: float32[A * len(OWN) + WIDTH]. Actions are the agents' places
    and, last, STOP; one that is not allowed counts as STOP, and `info["action_mask"]` int8[A + 1] says which are. A step pays -λ
    times its cost, and the one that ends the episode r, once. Running out of steps ends an episode as STOP does: it is a part of
    the task, no truncation."""

    metadata = {"render_modes": []}

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        agents = len(environment.orchestrator.ids)
        self.observation_space = spaces.Box(-np.inf, np.inf, (agents * len(OWN) + WIDTH,), np.float32)
        self.action_space = spaces.Discrete(agents + 1)
        self._state: State | None = None
        self._task = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """A new episode, of the task `options["task"]` or one that is drawn."""
        super().reset(seed=seed)
        self._task = int((options or {}).get("task", self.np_random.integers(len(self.environment))))
        self._state = self.environment.first(self._task)
        return self._seen(), self._info()

    def step(self, action: Any) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info). Raises RuntimeError where no episode has begun."""
        if self._state is None:
            raise RuntimeError("call reset before step")
        reward = self.environment.reward
        allowed = self._allowed()
        at = int(action)
        paid, ended = 0.0, at == len(allowed) - 1 or not allowed[at]
        if not ended:
            self._state = self.environment.act(self._state, at)
            paid = -reward.price * reward.cost(self._state.calls[-1:])
            ended = not self._allowed()[:-1].any()
        if ended:
            paid += reward.ends(self.environment.score(self._state))
        seen, info = self._seen(), self._info()
        if ended:
            self._state = None
        return seen, float(paid), ended, False, info

    def _allowed(self) -> BoolArray:
        assert self._state is not None
        return self.environment.allowed(self._state)

    def _seen(self) -> FloatArray:
        assert self._state is not None
        own, shared = self._state.features()
        return np.concatenate([own.ravel(), shared]).astype(np.float32)

    def _info(self) -> dict[str, Any]:
        assert self._state is not None
        return {"task": self._task, "action_mask": self._allowed().astype(np.int8), "calls": len(self._state.calls)}
