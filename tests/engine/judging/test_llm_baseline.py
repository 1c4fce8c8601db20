from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from tests.engine.test_train import quick, run
from tests.llm_server import Server
from training_app.engine import llm
from training_app.engine.benchmark import BenchmarkError, benchmark, leaderboard
from training_app.engine.data import artifact
from training_app.engine.data.examples import Row
from training_app.engine.data.files import write_rows
from training_app.engine.judging import llm_baseline
from training_app.engine.judging.llm_baseline import LanguageModel, ask, drawn, figures
from training_app.engine.llm import BadKey, LLMError
from training_app.engine.progress import Cancelled
from training_app.engine.train import train

NAMES = [agent.name.lower() for agent in AGENTS]


@pytest.fixture
def server(monkeypatch):
    """It answers with the agents whose name stands in the text."""
    monkeypatch.setattr(
        llm.Client.__init__, "__kwdefaults__", llm.Client.__init__.__kwdefaults__ | {"sleep": lambda s: None}
    )
    with Server() as found:
        yield found


def model_of(server: Server, **changes) -> LanguageModel:
    return LanguageModel(server.url, "tiny", "key", **changes)


TEXTS = ["billing", "shipping and account", "weather", "nothing at all", "billing, weather", "account"]
REQUIRED = np.array([[name in text for name in NAMES] for text in TEXTS])


def test_sets_tokens_and_cost_of_what_was_asked(server) -> None:
    asked = ask(model_of(server, price_in=2.0, price_out=8.0), AGENTS, TEXTS, drawn(len(TEXTS), 100))
    assert asked.rows.tolist() == list(range(6))
    assert np.array_equal(asked.selected, REQUIRED)
    assert not asked.unanswered
    assert asked.usage.calls == 6
    assert asked.cost == pytest.approx((asked.usage.prompt_tokens * 2 + asked.usage.completion_tokens * 8) / 1e6)
    assert asked.cost > 0
    assert server.keys == ["Bearer key"] * 6
    assert ask(model_of(server), AGENTS, TEXTS, drawn(len(TEXTS), 1)).cost is None
    assert "key" not in repr(asked)


def test_no_more_is_asked_than_the_limit_says(server) -> None:
    asked = ask(model_of(server), AGENTS, TEXTS, drawn(len(TEXTS), 2, seed=3))
    assert len(server.bodies) == 2
    assert np.array_equal(asked.selected, REQUIRED[asked.rows])
    assert ask(model_of(server), AGENTS, TEXTS, drawn(len(TEXTS), 2, seed=3)).rows.tolist() == asked.rows.tolist()


@pytest.mark.at_length
def test_what_goes_wrong_is_counted_as_no_answer(server) -> None:
    server.fault = lambda text, nth: {"billing": "not json", "weather": "500", "account": "wrong id"}.get(text, "")
    asked = ask(model_of(server), AGENTS, TEXTS, drawn(len(TEXTS), 100))
    assert asked.unanswered.total() == 3
    assert any("500" in reason for reason in asked.unanswered)
    assert any("does not exist" in reason for reason in asked.unanswered)
    assert not asked.selected[[0, 2, 5]].any()
    row = figures(asked, REQUIRED, REQUIRED)
    assert (row["queries"], row["unanswered"]) == (6, 3)
    assert row["metrics"]["jaccard"]["mean"] == pytest.approx(0.5)
    assert row["difference"]["jaccard"]["mean"] == pytest.approx(0.5)
    assert row["latency_ms"]["p50"] > 0


def test_a_refused_key_ends_it_at_once(server) -> None:
    server.refuse_key = True
    with pytest.raises(BadKey, match="refused the key"):
        ask(model_of(server), AGENTS, TEXTS * 50, np.arange(300))
    assert len(server.bodies) <= 2 * llm_baseline.THREADS


@pytest.mark.at_length
def test_a_server_that_is_gone_ends_it(server) -> None:
    server.fault = lambda text, nth: "500"
    with pytest.raises(LLMError, match="gave up"):
        ask(model_of(server), AGENTS, [f"billing {i}" for i in range(300)], np.arange(300))
    assert len(server.bodies) < 100


def test_it_can_be_cancelled(server) -> None:
    def stop(done: int, total: int, message: str) -> None:
        raise Cancelled

    with pytest.raises(Cancelled):
        ask(model_of(server), AGENTS, [f"billing {i}" for i in range(300)], np.arange(300), progress=stop)
    assert len(server.bodies) < 50


class TestRun:
    @pytest.mark.at_length
    def test_the_scorecard_has_it_beside_the_router(self, server) -> None:
        config = quick(total_steps=20, llm_queries=10)
        *_, last = train(config, AGENTS, examples(), llm=model_of(server, price_in=1.0))
        row = artifact.read(last.result.artifact).metrics["llm"]
        assert len(server.bodies) == 10
        assert (row["model"], row["queries"], row["unanswered"]) == ("tiny", 10, 0)
        assert set(row["difference"]["jaccard"]) == {"mean", "low", "high", "bound"}
        test = {e.text for e in examples() if e.split == "test"}
        assert set(server.asked) <= test

    def test_it_is_asked_only_where_the_settings_say_so(self, server) -> None:
        *_, last = train(quick(total_steps=20), AGENTS, examples(), llm=model_of(server))
        assert not server.bodies
        assert "llm" not in last.result.scorecard

    @pytest.mark.at_length
    def test_a_run_goes_on_without_it(self, server) -> None:
        server.refuse_key = True
        *_, last = train(quick(total_steps=20, llm_queries=10), AGENTS, examples(), llm=model_of(server))
        assert "refused the key" in " ".join(last.result.scorecard["warnings"])
        assert "llm" not in last.result.scorecard
        card = run(quick(total_steps=20, llm_queries=10))[-1].result.scorecard
        assert "no LLM is connected" in " ".join(card["warnings"])

    def test_partly_asked_rows_are_left_out(self, server) -> None:
        rows = [dataclasses.replace(e, asked=e.required | {0}) if i % 2 else e for i, e in enumerate(examples())]
        list(train(quick(total_steps=20, llm_queries=99), AGENTS, rows, llm=model_of(server)))
        known = frozenset(agent.id for agent in AGENTS)
        whole = [e.text for e in rows if e.split == "test" and (e.asked is None or e.asked == known)]
        assert Counter(server.asked) == Counter(whole)
        assert 0 < len(whole) < 24


@pytest.mark.at_length
def test_the_benchmark_has_a_row_of_it(server, monkeypatch, tmp_path) -> None:
    (tmp_path / "agents.jsonl").write_text("".join(f'{{"id": {a.id}, "name": "{a.name}"}}\n' for a in AGENTS))
    for split in ("train", "val", "test"):
        with (tmp_path / f"{split}.jsonl").open("wb") as stream:
            write_rows((Row(0, e.id, e.text, e.required) for e in examples() if e.split == split), "jsonl", stream)
    with pytest.raises(BenchmarkError, match="LLM_MODEL"):
        benchmark(tmp_path, ["llm"])
    monkeypatch.setenv("LLM_MODEL", "tiny")
    monkeypatch.setenv("LLM_BASE_URL", server.url)
    monkeypatch.setenv("LLM_API_KEY", "secret")
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "total_steps": 20, "llm_queries": 7}
    found = benchmark(tmp_path, ["llm", "ddqn"], 2, settings)
    assert len(server.bodies) == 7  # once, whatever the number of seeds
    assert server.keys[0] == "Bearer secret"
    row = found["routers"]["llm"]
    assert row["llm"]["queries"] == 7
    assert row["llm"]["lead"]["jaccard"]["low"] <= row["llm"]["lead"]["jaccard"]["high"]
    lines = list(leaderboard(found))
    assert "tiny on 7 of 24 test queries, 0 without a usable answer" in lines[-1]
    assert "on these ddqn has" in lines[-1]
