"""Which of many tools a text needs. numpy only.

    score(x, t) = likeness(x, t) + likeness(x, server of t) + LEARNED · √( Σ_i k(x, i) 1[t was called for i] / Σ_i k(x, i) )

The likeness is that of agents that no model has learned (`reading.descriptions`), of the tool's name and description and of its
server's. The sum goes over tasks i that tools were called for and did well at, with k the cosine of the embeddings to the power of
SHARP. Without the sentence encoder such tasks stand in the tool's document instead, as keywords.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions

#: What tasks count for beside the descriptions, of 0.5, 1 and 2 the best on LiveMCPBench's tasks (five folds, four shuffles), and the
#: power by which the most alike count more than others, which was not varied.
LEARNED, SHARP = 0.5, 4
#: Tools shown at least and at most, and the share of the scores of the best MOST that those shown hold; a score counts by the power of
#: STANDING_OUT.
LEAST, MOST, SURE, STANDING_OUT = 3, 10, 0.8, 2.0


@dataclass(frozen=True, slots=True)
class Document:
    """What a tool says of itself, and the place of its server among `servers`, -1 for none."""

    name: str
    description: str
    server: int = -1
    tasks: tuple[str, ...] = ()


class ToolSearch:
    """Immutable but for what it remembers; safe to share between threads. What tools say is embedded when the first text comes."""

    def __init__(
        self, tools: Sequence[Document], servers: Sequence[tuple[str, str]], *, meaning: bool, before: ToolSearch | None = None
    ) -> None:  # fmt: skip
        """`servers` are (name, description). Whatever `before` has embedded of the same words is not embedded again."""
        self.meaning = meaning
        keywords = [() if meaning else tool.tasks for tool in tools]
        documents = [Agent(at, _words(tool.name), tool.description, keywords[at]) for at, tool in enumerate(tools)]
        of_servers = [Agent(at, _words(name), description) for at, (name, description) in enumerate(servers)]
        self._tools: Descriptions = _descriptions(documents, meaning, None if before is None else before._tools)
        self._servers: Descriptions = _descriptions(of_servers, meaning, None if before is None else before._servers)
        self._server_of = np.array([tool.server for tool in tools], np.int64)
        self._vectors: Mapping[str, NDArray[np.float32]] = {}
        self._tasks: list[str] = []
        self._did = np.zeros((0, len(tools)), np.float32)
        if meaning:
            self._learn(tools, {} if before is None else before._vectors)

    def _learn(self, tools: Sequence[Document], embeddings: Mapping[str, NDArray[np.float32]]) -> None:
        place = {task: at for at, task in enumerate(dict.fromkeys(task for tool in tools for task in tool.tasks))}
        self._vectors = {task: embeddings[task] if task in embeddings else sentences.embed([task])[0] for task in place}
        self._did = np.zeros((len(place), len(tools)), np.float32)
        for at, tool in enumerate(tools):
            self._did[[place[task] for task in tool.tasks], at] = 1
        self._stacked = np.stack(list(self._vectors.values())) if place else np.zeros((0, sentences.SIZE), np.float32)

    def scores(self, text: str) -> NDArray[np.float64]:
        """How likely the text needs each tool, float64[tools], 0 or more: what ranks tools, and no probability."""
        scores = self._tools.alike(text).astype(np.float64)
        if len(self._servers.agents):
            of_server = np.append(self._servers.alike(text), 0.0)  # the last for tools without a server
            scores = scores + of_server[self._server_of]
        if len(self._did):
            alike = np.maximum(self._stacked @ sentences.embed([text])[0], 0.0) ** SHARP
            scores = scores + LEARNED * np.sqrt(alike @ self._did / max(float(alike.sum()), 1e-9))
        return scores


def as_many_as_needed(scores: NDArray[np.float64]) -> list[int]:
    """The places of the best tools, best first: as many as it takes to hold SURE of what the best MOST have together."""
    order = np.argsort(-scores, kind="stable")[:MOST]
    weights = scores[order] ** STANDING_OUT
    enough = int(np.searchsorted(np.cumsum(weights), (SURE - 1e-9) * weights.sum())) + 1
    return [int(at) for at in order[: max(enough, LEAST)]]


def _descriptions(agents: Sequence[Agent], meaning: bool, before: Descriptions | None) -> Descriptions:
    if before is not None and before.meaning == meaning and before.agents == tuple(agents):
        return before
    return Descriptions(agents, meaning=meaning)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").replace(".", " ")
