"""Routers as good or bad as a test wants, which answer by words, and their scorecards."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.training_app.labeled import NEEDS
from tests.training_app.served import NAMES
from training_app.engine.data.examples import Agent
from training_app.engine.routing.routes import Route


@dataclass
class WordRouter:
    """Loads an artifact that lists words with the agent that each calls for: routers as good or bad as a test wants."""

    agents: tuple[Agent, ...]
    words: dict[str, int]
    training: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, content: bytes) -> "WordRouter":
        return cls(tuple(Agent(number, name) for number, name in enumerate(NAMES)), json.loads(content))

    def route_batch(self, texts: list[str], available: Any = None, rules: Any = None) -> list[Route]:
        taken = [{agent for word, agent in self.words.items() if word in text} for text in texts]
        open_ = set(range(len(self.agents))) if available is None else set(available)
        for first, second in rules.excludes if rules else ():
            taken = [chosen - {second} if first in chosen else chosen for chosen in taken]
        return [Route(tuple(sorted(t & open_)), dict.fromkeys(t, 0.9), 0.9, 1, "stop", False) for t in taken]


PERFECT = {word: agent for agent, words in NEEDS.items() for word in words}
#: Knows nothing of crashes: wrong on a third of the queries with a need.
WEAK = {word: agent for word, agent in PERFECT.items() if agent != 2}


def interval(low: float, high: float) -> dict[str, float]:
    return {"mean": (low + high) / 2, "low": low, "high": high}


def card(constant: float = 0.4, baseline: float = 0.0, *, ours: float = 0.9, svm: float = 0.88, **more: Any) -> dict:
    """A scorecard; `constant` and `baseline` are the lower ends of the leads over the constant set and over the SVM."""
    from tests.training_app.pages.figures import MEASURES

    def measured(jaccard: float) -> dict:
        return dict.fromkeys(MEASURES, interval(jaccard - 0.05, jaccard + 0.05))

    def beside(jaccard: float, low: float) -> dict:
        return {"metrics": measured(jaccard), "difference": {"jaccard": interval(low, low + 0.04)}}

    return {
        "metrics": measured(ours),
        "queries": 60,
        "measured_on": "test",
        "best_baseline": "svm",
        "baselines": {"constant": beside(0.3, constant), "svm": beside(svm, baseline)},
        **more,
    }
