from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.routing import decision
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import choose, crossed, fit_bayes, fit_threshold, threshold_lead, together
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import Goal
from training_app.engine.routing.pairs import fit_pairs, fit_pairwise
from training_app.engine.routing.router import Router
from training_app.engine.routing.walking import greedy
from training_app.engine.train import train


def worth(mean: float, rows: int, spread: float = 0.1, seed: int = 0) -> np.ndarray:
    return (mean + spread * np.random.default_rng(seed).normal(size=rows)).astype(np.float32)


@pytest.mark.parametrize(
    ("ddqn", "rows", "rule", "why"),
    [
        (0.80, 400, "ddqn", "ahead"),
        (0.70, 400, "bayes", "unsure"),
        (0.60, 400, "bayes", "behind"),
        (0.80, 100, "ddqn", "ahead"),
        (0.70, 100, "bayes", "unsure"),
    ],
)
def test_the_network_has_to_show_that_it_is_ahead(ddqn: float, rows: int, rule: str, why: str) -> None:
    bayes = worth(0.7, rows)
    values = {"bayes": bayes, "threshold": bayes - 0.05, "ddqn": bayes + worth(ddqn - 0.7, rows, 0.02, seed=1)}
    if why == "unsure":
        values["ddqn"] = bayes.copy()
        values["ddqn"][:4] += np.array([0.2, -0.2, 0.3, -0.3], np.float32)
    found = choose(values)
    assert (found["rule"], found["why"], found["rows"]) == (rule, why, rows)


def test_one_threshold_stands_where_bayes_would() -> None:
    few = {name: worth(0.6, 20) for name in ("bayes", "threshold")}
    assert choose(few, None, "threshold")["rule"] == "threshold"
    bayes = worth(0.6, 400)
    values = {"bayes": bayes, "threshold": bayes + 0.1, "ddqn": bayes + 0.05}
    assert choose(values, None, "threshold")["why"] == "behind"
    assert choose(values)["why"] == "ahead"


def judged_pair(together: bool) -> Queries:
    """Two agents of the same log-odds, each needed in half of the rows: always both or none, or each on its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=1.5, size=(600, 1)).repeat(6, axis=1)
    lot = rng.random((600, 1 if together else 6))
    required = np.broadcast_to(lot < 1 / (1 + np.exp(-x)), (600, 6))
    return Queries(x.astype(np.float32), required, np.ones((600, 6), bool))


def test_a_threshold_is_ahead_where_agents_are_needed_together() -> None:
    env = RoutingEnv(6)
    hanging = threshold_lead(env, judged_pair(True), np.ones(600), 0)
    apart = threshold_lead(env, judged_pair(False), np.ones(600), 0)
    assert hanging.mean > apart.mean
    assert apart.low <= 0


def test_rules_are_learnt_for_rows_as_often_as_they_will_be_met() -> None:
    """Where queries that need nobody count more, both rules take fewer agents; counting all rows alike changes nothing."""
    queries = judged_pair(False)
    counts = np.where(queries.required.any(axis=1), 1.0, 40.0)
    for fit in (fit_bayes, fit_threshold):
        plain, alike, changed = (fit(queries, Goal(), c) for c in (None, np.full(600, 3.0), counts))
        sizes = [decision.selected(RoutingEnv(6), rule, queries).sum() for rule in (plain, alike, changed)]
        assert sizes[0] == pytest.approx(sizes[1], rel=0.02)
        assert sizes[2] < sizes[0]


def decided(training: Queries, validation: Queries) -> decision.Decision:
    """What a run without a network decides by."""
    config = Config(decision="bayes")
    steps = decision.decide(config, RoutingEnv(6), training, validation, None, None, lambda _: b"")
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(("sure", "kept"), [(4.0, True), (-4.0, False)])
def test_the_exact_rule_goes_by_whether_anybody_is_needed_where_that_helps(sure: float, kept: bool) -> None:
    """Every third query has the words of the others and needs nobody, which something else tells: rightly, or the wrong way round."""
    queries = judged_pair(False)
    nobody = np.arange(600) % 3 == 0
    required = queries.required & ~nobody[:, None]
    needed = np.where(required.any(axis=1), sure, -sure)
    training = dataclasses.replace(queries, required=required)
    found = decided(training, dataclasses.replace(training, needed=needed))
    assert found.report["needed"]["kept"] is kept
    assert found.policy.by_needed is kept
    assert not found.report["needed"]["kept"] or found.report["needed"]["mean"] > 0.05
    assert decided(training, training).policy.by_needed is False


def test_pairs_are_learnt_from_rows_as_often_as_they_will_be_met() -> None:
    """Rows that need nobody are few among labels: where they count more, agents with little to be said for them are left out."""
    queries = hanging_together(600, 0)
    nobody = np.arange(600) % 20 == 0
    queries = dataclasses.replace(queries, required=queries.required & ~nobody[:, None])
    sizes = []
    for weight in (None, np.ones(600), np.where(nobody, 8.0, 1.0)):
        drawn = dataclasses.replace(queries, weight=weight)
        pairs, _saved = fit_pairwise(drawn, 0, lambda *_: np.ones(1))
        assert pairs is not None
        rule = dataclasses.replace(fit_bayes(drawn, Goal(), decision._drawn(drawn)), pairs=pairs)
        sizes.append(int(decision.selected(RoutingEnv(4), rule, queries).sum()))
    assert sizes[0] == sizes[1] > sizes[2]


def test_no_rule_is_judged_by_a_row_that_taught_it(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, told = judged_pair(False), []
    fit = decision.fit_bayes
    monkeypatch.setattr(decision, "fit_bayes", lambda rows, *more: told.append(rows.x[:, 0]) or fit(rows, *more))
    monkeypatch.setattr(decision, "MOST_ROWS", 100)
    threshold_lead(RoutingEnv(6), queries, np.ones(600), 0)
    assert [len(rows) for rows in told] == [50] * 8
    assert not set(told[0].tolist()) & set(told[1].tolist())


def test_rows_count_as_often_as_they_will_be_met() -> None:
    bayes = np.full(400, 0.5, np.float32)
    ddqn = np.where(np.arange(400) < 40, 1.0, 0.4).astype(np.float32)
    weights = np.where(np.arange(400) < 40, 50.0, 1.0)
    values = {"bayes": bayes, "threshold": bayes, "ddqn": ddqn}
    assert choose(values)["rule"] == "bayes"
    assert choose(values, weights)["rule"] == "ddqn"


def test_no_row_is_judged_by_a_network_that_was_chosen_on_it() -> None:
    # One measurement a row that is right there and nowhere else: chosen on all rows, each would look better than it is.
    judged = np.eye(20, dtype=np.float32)
    assert crossed(judged, np.arange(20) % 2).sum() == 0
    # On ties the last measurement counts, as it does where the network is kept.
    same = np.stack([np.zeros(6, np.float32) + 0.5, np.zeros(6, np.float32) + 0.5])
    assert crossed(same, np.arange(6) % 2).tolist() == [0.5] * 6


def hanging_together(count: int, seed: int) -> Queries:
    """Agent 0 comes with either 1 or 2, whom the text hardly tells apart, and 3 with 2: {0, 1} or {0, 2, 3}."""
    rng = np.random.default_rng(seed)
    second = rng.random(count) < 0.5
    required = np.stack([np.ones(count, np.bool_), ~second, second, second], axis=1)
    unsure = rng.normal(scale=0.3, size=(count, 4))
    x = np.where([True, False, False, False], 4.0, unsure + 0.2 * np.where(required, 1, -1))
    return Queries(x.astype(np.float32), required, np.ones_like(required))


def test_evidence_of_pairs_says_who_comes_with_whom_and_who_instead() -> None:
    data = hanging_together(600, 0)
    found = fit_pairs(data, 0)
    assert found is not None
    assert found.kept
    w = found.weights[-1]
    assert w[1, 2] < -2
    assert w[2, 1] < -2
    assert w[2, 3] > 2
    assert not np.diag(w).any()


def test_a_row_is_shown_evidence_that_it_did_not_teach() -> None:
    data = hanging_together(300, 0)
    before = fit_pairs(data, 0)
    turned = data.required.copy()
    turned[7] = ~turned[7]
    after = fit_pairs(dataclasses.replace(data, required=turned), 0)
    assert before is not None
    assert after is not None
    same = [np.array_equal(one, two) for one, two in zip(before.weights, after.weights, strict=True)]
    assert same == [k == before.fold[7] for k in range(len(same))]


def test_independent_agents_have_no_evidence_of_pairs() -> None:
    rng = np.random.default_rng(0)
    required = rng.random((400, 5)) < 0.4
    x = (np.where(required, 1.0, -1.0) + rng.normal(size=required.shape)).astype(np.float32)
    queries = Queries(x, required, np.ones_like(required))
    found = fit_pairs(queries, 0)
    assert found is not None
    assert not found.kept
    assert fit_pairs(queries.take(np.arange(50)), 0) is None


def test_the_threshold_is_the_best_for_its_goal() -> None:
    data = hanging_together(400, 0)
    every = np.ones_like(data.required)
    free, dear = Goal("value", np.zeros(4, np.float32)), Goal("value", np.full(4, 2, np.float32))
    shares = [greedy(fit_threshold(data, goal), data.x, None, every)[0].mean() for goal in (free, Goal(), dear)]
    assert shares[0] > shares[1] > shares[2] == 0


def test_bayes_rule_reads_log_odds_that_are_too_sure_as_what_they_mean() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 4))
    required = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    sure = Queries((3 * z + 1).astype(np.float32), required, np.ones_like(required))
    rule = fit_bayes(sure)
    assert rule.scale == pytest.approx(1 / 3, abs=0.05)
    assert rule.shift == pytest.approx(-1 / 3, abs=0.1)


@pytest.mark.parametrize(
    "rule", ["bayes", *(pytest.param(one, marks=pytest.mark.at_length) for one in ("ddqn", "threshold"))]
)
def test_the_rule_that_the_settings_name_answers(rule: str) -> None:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "total_steps": 40, "val_eval_freq": 20, "goal": "exact"}
    config = Config.from_mapping({**settings, "decision": rule, "baselines": True})
    result = list(train(config, AGENTS, examples()))[-1].result
    assert result is not None
    card = result.scorecard
    assert (card["decision"]["rule"], card["decision"]["why"], card["decision"]["goal"]) == (rule, "asked", "exact")
    router = Router.load(result.artifact)
    assert router.policy.kind == {"ddqn": "shared"}.get(rule, rule)
    texts = [e.text for e in examples()]
    one = [sorted(router.route(text).agents) for text in texts]
    assert one == [sorted(route.agents) for route in router.route_batch(texts)]
    if rule != "ddqn":
        assert card["baselines"][rule]["difference"]["jaccard"]["mean"] == 0
    assert router.explain(texts[0]).steps


def test_a_network_is_learnt_only_where_validation_can_judge_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {
        "encoder": "linear",
        "svm_c": 1.0,
        "folds": 2,
        "total_steps": 20,
        "val_eval_freq": 20,
        "baselines": False,
    }
    for few, rules in ((25, {"bayes", "threshold"}), (24, {"bayes", "threshold", "ddqn"})):
        monkeypatch.setattr(decision, "FEW_ROWS", few)
        result = list(train(Config.from_mapping(settings), AGENTS, examples()))[-1].result
        assert result is not None
        card = result.scorecard["decision"]
        assert (card["why"] == "few") == ("ddqn" not in rules)
        assert set(card.get("scores", rules)) == rules


def test_rows_of_one_conversation_never_judge_each_other() -> None:
    groups = [f"conversation {row // 6}" for row in range(600)]
    data = dataclasses.replace(hanging_together(600, 0), groups=groups)
    for fold in (data.folds(5, 0), data.take(np.arange(300)).folds(2, 1), together(data, data).folds(2, 1)):
        assert len(set(fold.tolist())) > 1
        assert all(len(set(six)) == 1 for six in fold[: len(fold) // 6 * 6].reshape(-1, 6).tolist())
    found = fit_pairs(data, 0)
    assert found is not None
    assert np.array_equal(found.fold, data.folds(5, 0))
