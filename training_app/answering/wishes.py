"""What one request asks of its answer beyond the pool's own rules: who may be chosen, how many, and from which probability on."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training_app.answering.loaded import LoadedPool
from training_app.engine.routing.router import Explanation, Route, Router


@dataclass(frozen=True, slots=True)
class Wishes:
    """`only` and `exclude` are ids; `least` and `most` bound the set, None as the model does; `threshold` chooses in the policy's
    place, or `margin` is the operating point that it chooses at. Whoever wishes decides: nothing is added or left out by lot, and
    shadows do not score such an answer."""

    only: frozenset[int] | None = None
    exclude: frozenset[int] = frozenset()
    least: int | None = None
    most: int | None = None
    threshold: float | None = None
    margin: float | None = None

    def allows(self, agent: int) -> bool:
        """Whether the agent may be chosen."""
        return agent not in self.exclude and (self.only is None or agent in self.only)

    def on(self, pool: LoadedPool) -> LoadedPool:
        """The pool with those agents that may be chosen."""
        if pool.model is None or (self.only is None and not self.exclude):
            return pool
        known = (agent.id for agent in pool.model.router.agents) if pool.available is None else pool.available
        return replace(pool, available=frozenset(agent for agent in known if self.allows(agent)))

    def limits(self, router: Router) -> tuple[int, int]:
        """The fewest and the most agents of the set; a most of 0 is no limit. A wish for one wins over the model's other."""
        least, most = router.limits
        if self.most is not None:
            most, least = self.most, min(least, self.most)
        if self.least is not None:
            least, most = self.least, max(most, self.least) if most else 0
        return least, most

    def walk(
        self, router: Router, text: str, available: frozenset[int] | None, explain: bool
    ) -> tuple[Route, Explanation | None]:
        """The route of a text as it is wished for, and what led to it."""
        limits = self.limits(router)
        explanation = router.explain(text, available, limits=limits, margin=self.margin) if explain else None
        if self.threshold is not None:
            route = router.above(text, self.threshold, available, limits=limits)
            return route, explanation and replace(explanation, route=route)
        if explanation is not None:
            return explanation.route, explanation
        return router.route(text, available, limits=limits, margin=self.margin), None

    def as_json(self) -> dict[str, Any]:
        """What a replay needs: who could be chosen, a decision's scores tell."""
        given = {"least": self.least, "most": self.most, "threshold": self.threshold, "margin": self.margin}
        return {name: value for name, value in given.items() if value is not None}


def kept(detail: Mapping[str, Any]) -> Wishes | None:
    """What was wished of a kept decision."""
    return Wishes(**detail["wishes"]) if "wishes" in detail else None
