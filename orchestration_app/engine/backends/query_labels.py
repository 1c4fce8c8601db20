"""How hard queries are, what they are about and whether they need a tool, as a language model says: labels for the estimator.

It costs money and sends texts to a server, so it is asked only where somebody said so, about as many texts as they named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from training_app.engine.judging.llm_baseline import LanguageModel
from training_app.engine.llm import CallLimits, Client, FailuresInARow, LLMError, find_object

TRIES = 3  # of one call
ASKED = (
    "You judge requests to software agents. Answer with JSON alone: complexity, a number from 0 (any small model can do it) to 1 "
    "(hard for the best); category, one of the categories named, or a short noun of your own where there are none; tool, true where "
    "it needs data or an action from outside the conversation."
)
SCHEMA = {
    "type": "object",
    "properties": {"complexity": {"type": "number"}, "category": {"type": "string"}, "tool": {"type": "boolean"}},
    "required": ["complexity", "category", "tool"],
    "additionalProperties": False,
}


class QueryLabels(NamedTuple):
    """What was said of one text: complexity 0..1, category, whether it needs a tool."""

    complexity: float
    category: str
    tool: bool


def ask(
    model: LanguageModel, texts: Sequence[str], limit: int, categories: Sequence[str] = (), seed: int = 0
) -> dict[str, QueryLabels]:
    """Labels of at most `limit` of the texts, drawn at random. A text with no usable answer has none.

    Raises BadKey, and LLMError where the server is not there.
    """
    distinct = list(dict.fromkeys(texts))
    labels: dict[str, QueryLabels] = {}
    failures = FailuresInARow()
    with Client(model.base_url, model.model, model.api_key, limits=CallLimits(tries=TRIES)) as client:
        for at in np.random.Generator(np.random.PCG64(seed)).permutation(len(distinct))[:limit].tolist():
            content = json.dumps({"categories": list(categories), "request": distinct[at]}, ensure_ascii=False)
            messages = [{"role": "system", "content": ASKED}, {"role": "user", "content": content}]
            try:
                label = read(client.complete(messages, SCHEMA).text, categories)
            except LLMError as error:
                failures.add(error)
                continue
            failures.clear()
            if label is not None:
                labels[distinct[at]] = label
    return labels


def read(answer: str, categories: Sequence[str] = ()) -> QueryLabels | None:
    """An answer as labels, None where it is not what was asked for; a category that was not named is "other"."""
    value = find_object(answer)
    if value is None:
        return None
    complexity, category, tool = value.get("complexity"), value.get("category"), value.get("tool")
    if isinstance(complexity, bool) or not isinstance(complexity, int | float) or not isinstance(tool, bool):
        return None
    if not math.isfinite(complexity) or not isinstance(category, str):
        return None
    name = category.strip()[:80]
    return QueryLabels(
        min(max(float(complexity), 0.0), 1.0), name if not categories or name in categories else "other", tool
    )
