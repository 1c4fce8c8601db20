"""An LLM as a router to be measured against: asked about test queries as pre-labeling asks, one query a call.

It costs money and sends the texts of queries to a server, so it is asked only where somebody said so, about a number of
queries that they named. What it answers is compared with the router's answers to the same queries. numpy and httpx only.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import metrics
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent
from training_app.engine.llm import FAILURES, CallLimits, Client, FailuresInARow, LLMError, Suggestion, Usage
from training_app.engine.measures import COMPARED_SHARES
from training_app.engine.progress import ScorerProgress, no_progress

THREADS = 4  # calls under way at once
TRIES = 4  # of one call, with the client's waits between them


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Which model is asked where. Prices are those of a million tokens, 0 where they are not known."""

    base_url: str
    model: str
    api_key: str = field(default="", repr=False)
    price_in: float = 0.0
    price_out: float = 0.0


@dataclass(frozen=True, slots=True)
class LlmResult:
    """What an LLM answered: rows int64[M] of the texts that it was asked about, selected bool[M, A] with the empty set
    where it gave no usable answer, seconds float64[M] of each call with its retries, why queries went unanswered and
    how often, the tokens, and the seconds that all of it took."""

    model: LanguageModel
    rows: NDArray[np.int64]
    selected: BoolArray
    seconds: NDArray[np.float64]
    unanswered: Counter[str]
    usage: Usage
    wall_seconds: float

    @property
    def cost(self) -> float | None:
        """In the currency of the prices; None where they are not known."""
        if not (self.model.price_in or self.model.price_out):
            return None
        spent = self.usage.prompt_tokens * self.model.price_in + self.usage.completion_tokens * self.model.price_out
        return spent / 1e6


@contextmanager
def _calls(
    model: LanguageModel, agents: Sequence[Agent], min_agents: int, max_agents: int
) -> Iterator[Callable[[str], Future[tuple[Suggestion, Usage, float]]]]:
    """A function that begins to ask about a text: what is suggested, tokens, seconds. When the block ends, calls that have not begun
    are dropped, and calls under way end without another try."""
    over = threading.Event()
    per_thread = threading.local()

    def suggest(text: str) -> tuple[Suggestion, Usage, float]:
        if not hasattr(per_thread, "client"):
            limits = CallLimits(tries=TRIES, stop=over.is_set)
            per_thread.client = Client(model.base_url, model.model, model.api_key, limits=limits)
            opened.callback(per_thread.client.close)
        began = time.perf_counter()
        suggestions = per_thread.client.suggest([text], agents, min_agents=min_agents, max_agents=max_agents or None)
        return suggestions.items[0], suggestions.usage, time.perf_counter() - began

    with ExitStack() as opened, ThreadPoolExecutor(THREADS, "llm") as pool:
        try:
            yield lambda text: pool.submit(suggest, text)
        finally:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)


def drawn(count: int, limit: int, seed: int = 0) -> NDArray[np.int64]:
    """At most `limit` of the rows 0 to `count` - 1, drawn at random, in order."""
    return np.sort(np.random.Generator(np.random.PCG64(seed)).permutation(count)[:limit])


def ask(
    model: LanguageModel,
    agents: Sequence[Agent],
    texts: Sequence[str],
    rows: NDArray[np.int64],
    *,
    min_agents: int = 0,
    max_agents: int = 0,
    progress: ScorerProgress = no_progress,
) -> LlmResult:
    """Ask about the `texts` at `rows`.

    Raises BadKey where the key is refused and LLMError where the server is not there; a query that gets no usable
    answer is counted. `progress` may raise to cancel: no further call begins.
    """
    place = {agent.id: a for a, agent in enumerate(agents)}
    selected = np.zeros((len(rows), len(agents)), np.bool_)
    seconds = np.zeros(len(rows))
    unanswered: Counter[str] = Counter()
    usage = Usage()
    began = time.perf_counter()
    failures = FailuresInARow(min(FAILURES, len(rows)))
    with _calls(model, agents, min_agents, max_agents) as call:
        calls = {call(texts[row]): i for i, row in enumerate(rows.tolist())}
        for done, future in enumerate(as_completed(calls), start=1):
            i = calls[future]
            try:
                suggestion, spent, seconds[i] = future.result()
            except LLMError as error:
                failures.add(error)
                unanswered[str(error)] += 1
                seconds[i] = np.nan
            else:
                failures.clear()
                usage += spent
                if suggestion.required is None:
                    unanswered[suggestion.error] += 1
                else:
                    selected[i, [place[a] for a in suggestion.required]] = True
            progress(done, len(rows), f"asking {model.model}")
    return LlmResult(model, rows, selected, seconds, unanswered, usage, time.perf_counter() - began)


def figures(result: LlmResult, required: BoolArray, ours: BoolArray | None = None) -> dict[str, Any]:
    """The row of a scorecard, JSON-able: required bool[N, A] of all texts, and the router's own sets bool[N, A] for the
    interval of its lead on the same queries."""
    needed = required[result.rows]
    theirs = metrics.per_query(result.selected, needed)
    row: dict[str, Any] = {
        "model": result.model.model,
        "queries": len(result.rows),
        "unanswered": int(result.unanswered.total()),
        "reasons": dict(result.unanswered.most_common(5)),
        "metrics": {m: metrics.interval(v, m) for m, v in theirs.items()},
        "empty": metrics.empty_sets(result.selected, needed),
        "prompt_tokens": result.usage.prompt_tokens,
        "completion_tokens": result.usage.completion_tokens,
        "cost": result.cost,
        "latency_ms": {f"p{q}": float(np.nanpercentile(result.seconds, q) * 1000) for q in (50, 99)},
    }
    if ours is not None:
        mine = metrics.per_query(ours[result.rows], needed)
        row["difference"] = {m: metrics.paired(mine[m], theirs[m], m) for m in COMPARED_SHARES}
    return row
