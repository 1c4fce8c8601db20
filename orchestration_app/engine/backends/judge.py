"""A language model as judge of an answer: relevance, accuracy, completeness and fit, each 0..1, as the published reward takes them.

It answers JSON. What is no such answer is asked for once more; a judge that fails twice gives nothing, and then there is no reward:
taking one half instead would teach that whoever breaks the judge is average.
"""

from __future__ import annotations

import json
import math

from orchestration_app.engine.backends.q_table import ASPECTS
from training_app.engine.llm import BadKey, Client, LLMError, find_object

TRIES = 2
ASKED = (
    "You judge an agent's answer to a request. Answer with JSON alone: relevance, accuracy, completeness and fit (whether this agent "
    "was the one to ask), each a number from 0 to 1."
)
SCHEMA = {
    "type": "object", "properties": {aspect: {"type": "number"} for aspect in ASPECTS}, "required": list(ASPECTS),
    "additionalProperties": False,
}  # fmt: skip


def judge(client: Client, request: str, agent: str, answer: str) -> dict[str, float] | None:
    """A figure for each of ASPECTS; None where the judge failed twice. Raises BadKey."""
    content = json.dumps({"request": request, "agent": agent, "answer": answer}, ensure_ascii=False)
    messages = [{"role": "system", "content": ASKED}, {"role": "user", "content": content}]
    for _ in range(TRIES):
        try:
            marks = read(client.complete(messages, SCHEMA).text)
        except BadKey:
            raise
        except LLMError:
            continue
        if marks is not None:
            return marks
    return None


def read(answer: str) -> dict[str, float] | None:
    """What a judge said; None where it is not a number from 0 to 1 for each aspect."""
    value = find_object(answer)
    if value is None:
        return None
    marks = {}
    for aspect in ASPECTS:
        figure = value.get(aspect)
        if (
            isinstance(figure, bool)
            or not isinstance(figure, int | float)
            or not math.isfinite(figure)
            or not 0 <= figure <= 1
        ):
            return None
        marks[aspect] = float(figure)
    return marks
