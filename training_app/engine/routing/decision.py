"""Which decision rule turns log-odds into a set: the Double DQN, Bayes' best set, or one threshold.

All three are learnt, and compared on validation rows that are new to them: the rules have learnt from training rows only, and the
network of each half of the rows is the one that was best on the other half. The exact rule holds where nothing speaks against it: it
has few numbers to learn where the network has a thousand. One threshold takes its place where it is surely ahead on all rows, each
judged by rules of the other half. Where something else says whether anybody is needed (`needed.py`), the exact rule goes by that if
its sets are worth more on validation. The network answers only where it is surely ahead, or where the settings name it; where
validation has too few rows to show that, it is not learnt.

Imported by workers only: it brings torch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.data.intervals import Interval, spread
from training_app.engine.progress import Progress
from training_app.engine.reading.logistic import logistic
from training_app.engine.routing.allowed import Rules, allowed_for
from training_app.engine.routing.bayes import BayesPolicy, Pairwise
from training_app.engine.routing.checkpoints import Learning
from training_app.engine.routing.ddqn import Queries, learn
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import JACCARD, Goal, goal_of
from training_app.engine.routing.pairs import fit_pairs, fit_pairwise
from training_app.engine.routing.policy import Policy
from training_app.engine.routing.published import learn_published
from training_app.engine.routing.threshold import ThresholdPolicy, best_threshold
from training_app.engine.routing.walking import greedy

CHECKPOINT_EVERY = 5  # measurements between two checkpoints of the policy
#: Of fewer validation rows the network is not learnt: of 53 it was never surely ahead, and took two thirds of the run's time.
FEW_ROWS = 100
HALVINGS, MOST_ROWS = 4, 3_000  # in which the plain rules are compared


@dataclass(frozen=True, slots=True)
class Decision:
    """The `policy` that answers and every rule by name, all fitted; the `log` of the network's learning and the entry of the network
    that was kept; and a `report` of the choice: {"rule", "why", "goal", "rows", "scores": {rule: mean}, "against": {rule: interval
    of the network's lead}, "threshold_lead": interval of the threshold's over Bayes' rule, "pairs": what evidence of pairs saves,
    where it was tried, "exact_pairs": the same of the exact rule, "needed": interval of what it gains by going by whether anybody is
    needed, where something says so, and "kept"}. `why` is asked (the settings name it), recipe (the recipe knows no
    other), ahead, behind, unsure or few."""

    policy: Policy
    rules: dict[str, Policy]
    log: list[dict[str, float]]
    best: dict[str, float]
    report: dict[str, Any]


def environment(config: Config, agents: Sequence[Agent], rules: Rules | None = None) -> RoutingEnv:
    """What a run's settings make of the decision process over these agents, and the pool's rules of which sets are allowed."""
    return RoutingEnv(
        len(agents),
        config.reward_mode,
        config.gamma,
        config.step_cost,
        min(config.min_agents, len(agents)),
        config.max_agents,
        config.action_masking,
        config.max_steps_per_episode if config.recipe == "tfidf" else 0,
        goal_of(config.goal, agents, config.query_value),
        allowed_for(rules, tuple(agents)) if rules else None,
    )


def decide(
    config: Config,
    env: RoutingEnv,
    training: Queries,
    validation: Queries,
    weights: NDArray[np.float64] | None,
    resume: Learning | None,
    keep: Callable[[Learning], bytes],
) -> Generator[Progress, None, Decision]:
    """Learn the network and fit the rules on `training`, whose log-odds are out of fold, and choose on `validation`, a row counting as
    `weights` float64[N] says. `keep` packs a checkpoint now and then."""
    features = config.recipe == "tfidf"
    unjudged = config.decision == "auto" and len(validation) < FEW_ROWS
    if not features and (unjudged or config.decision in ("bayes", "threshold")):
        return (yield from _without_network(config, env, training, validation, weights))
    learning = learn_published if features else learn
    reported: dict[str, Any] = {}
    if config.pairs and config.shared_network and not features:
        training = _with_pairs(config, training, reported)
    log: list[dict[str, float]] = []
    judged: FloatArray | None = None
    policy: Policy | None = None
    for count, tick in enumerate(learning(config, env, training, validation, resume), start=1):
        kept = None
        if tick.policy is None and count % CHECKPOINT_EVERY == 0:
            kept = keep((tick.state or {}, tick.meta or {}))
        yield Progress("policy", tick.step, config.total_steps, "Double DQN", tick.metrics, kept)
        policy = tick.policy
        log, judged = (tick.meta or {}).get("log", []), (tick.state or {}).get("judged")
    assert policy is not None
    best: dict[str, float] = next((entry for entry in log if entry["step"] == (tick.meta or {}).get("kept_step")), {})
    if features:
        return Decision(policy, {"ddqn": policy}, log, best, {"rule": "ddqn", "why": "recipe", "goal": config.goal})

    exact = _exact(config, env, training, reported)
    new, lead = _new_rules(env, training, validation, weights, exact, reported)
    required = validation.required & validation.asked
    values = {name: env.goal.utility(selected(env, rule, validation), required) for name, rule in new.items()}
    if judged is not None and len(validation):
        values["ddqn"] = crossed(judged, validation.folds(2, config.seed))
    every, counts = together(training, validation), _counts(training, len(validation), weights)
    plain = lead or threshold_lead(env, every, counts, config.seed)
    chosen = choose(values, weights, "threshold" if plain.low > 0 else "bayes")
    report = {"goal": config.goal, **chosen, "threshold_lead": plain.plain(), **reported}
    if config.decision != "auto":
        report |= {"rule": config.decision, "why": "asked"}
    by_needed = lead is not None
    rules: dict[str, Policy] = {
        "ddqn": policy,
        "bayes": dataclasses.replace(exact(fit_bayes(every, env.goal, counts)), by_needed=by_needed),
        "threshold": fit_threshold(every, env.goal, counts),
    }
    return Decision(rules[report["rule"]], rules, log, best, report)


def _with_pairs(config: Config, training: Queries, reported: dict[str, Any]) -> Queries:
    """`training` with the weights of pairs of agents, if they help; `reported` gets how much."""
    pairs = fit_pairs(training, config.seed)
    if pairs is None:
        return training
    reported["pairs"] = {**pairs.gain, "kept": pairs.kept}
    return dataclasses.replace(training, pairs=pairs.weights, fold=pairs.fold) if pairs.kept else training


def _without_network(
    config: Config,
    env: RoutingEnv,
    training: Queries,
    validation: Queries,
    weights: NDArray[np.float64] | None,
) -> Generator[Progress, None, Decision]:
    """The decision where the settings name a rule that learns no network, or validation is too small to judge one."""
    every, counts = together(training, validation), _counts(training, len(validation), weights)
    report: dict[str, Any] = {"rule": config.decision, "why": "asked", "goal": config.goal}
    exact = _exact(config, env, training, report)
    _new, lead = _new_rules(env, training, validation, weights, exact, report)
    if config.decision == "auto":
        plain = lead or threshold_lead(env, every, counts, config.seed)
        report |= {"rule": "threshold" if plain.low > 0 else "bayes", "why": "few", "rows": len(validation)}
        report["threshold_lead"] = plain.plain()
    by_needed = lead is not None
    rules: dict[str, Policy] = {
        "bayes": dataclasses.replace(exact(fit_bayes(every, env.goal, counts)), by_needed=by_needed),
        "threshold": fit_threshold(every, env.goal, counts),
    }
    policy = rules[report["rule"]]
    required = validation.required & validation.asked
    sets = selected(env, policy, validation)
    entry = {
        "step": 1,
        "val_jaccard": float(JACCARD.utility(sets, required).mean()) if len(sets) else 0.0,
        "val_goal": float(env.goal.utility(sets, required).mean()) if len(sets) else 0.0,
    }
    yield Progress("policy", 1, 1, report["rule"], {k: v for k, v in entry.items() if k != "step"})
    return Decision(policy, rules, [entry], entry, report)


def _exact(
    config: Config, env: RoutingEnv, training: Queries, report: dict[str, Any]
) -> Callable[[BayesPolicy], BayesPolicy]:
    """What adds evidence of pairs to the exact rule, where out-of-fold rows show that it helps; `report` says what it saves."""

    def lead(learned: Queries, unseen: Queries, pairs: Pairwise) -> NDArray[np.float64]:
        rule, required = fit_bayes(learned, env.goal, _drawn(learned)), unseen.required & unseen.asked
        with_pairs, alone = (
            env.goal.utility(selected(env, each, unseen), required).astype(np.float64)
            for each in (dataclasses.replace(rule, pairs=pairs), rule)
        )
        return with_pairs - alone

    pairs = None
    if config.pairs:
        pairs, saved = fit_pairwise(training, config.seed, lead)
        if saved is not None:
            report["exact_pairs"] = {**saved, "kept": pairs is not None}
    return lambda rule: dataclasses.replace(rule, pairs=pairs)


def _new_rules(
    env: RoutingEnv,
    training: Queries,
    validation: Queries,
    weights: NDArray[np.float64] | None,
    exact: Callable[[BayesPolicy], BayesPolicy],
    report: dict[str, Any],
) -> tuple[dict[str, Policy], Interval | None]:
    """The plain rules by name, as training rows alone have taught them, so that validation is new to them. The exact one goes by
    whether anybody is needed where its sets on validation are worth more with that; then the second is the interval by which one
    threshold is ahead of it there: of training rows nothing says it."""
    # Rows count as the network draws them, or the rules would be learnt for other traffic than it is.
    own = _drawn(training)
    bayes, threshold = exact(fit_bayes(training, env.goal, own)), fit_threshold(training, env.goal, own)
    rules: dict[str, Policy] = {"bayes": bayes, "threshold": threshold}
    if validation.needed is None:
        return rules, None
    required = validation.required & validation.asked
    scale = np.ones(len(validation)) if weights is None else weights / weights.mean()
    knowing = dataclasses.replace(bayes, by_needed=True)
    ours, plain, theirs = (
        scale * env.goal.utility(selected(env, rule, validation), required) for rule in (knowing, bayes, threshold)
    )
    gained = spread(ours - plain)
    report["needed"] = {**gained.plain(), "kept": gained.mean > 0}
    if gained.mean <= 0:
        return rules, None
    return rules | {"bayes": knowing}, spread(theirs - ours)


def selected(env: RoutingEnv, policy: Policy, queries: Queries, margin: float = 0.0) -> BoolArray:
    """The sets that a policy answers with, bool[N, A]."""
    return greedy(policy, queries.x, queries.needed, queries.asked, env.limits._replace(margin=margin))[0]


def together(first: Queries, second: Queries) -> Queries:
    """The queries of both."""
    return Queries(
        np.concatenate([first.x, second.x]),
        np.concatenate([first.required, second.required]),
        np.concatenate([first.asked, second.asked]),
        groups=[*first.groups, *second.groups] if first.groups and second.groups else (),
    )


def fit_bayes(queries: Queries, goal: Goal = JACCARD, counts: NDArray[np.float64] | None = None) -> BayesPolicy:
    """Bayes' rule for a goal, with the two numbers that make the log-odds of `queries` mean what they say; a row counts as `counts`
    float64[N] says."""
    x, y = queries.x[queries.asked].astype(np.float64), queries.required[queries.asked]
    each = 1.0 if counts is None else np.broadcast_to(counts[:, None], queries.asked.shape)[queries.asked]
    scale, shift = logistic(np.stack([x, np.ones_like(x)], axis=1), y, np.array([1.0, 0.0]), 2.0, each)
    if scale <= 0.05:  # a falling map would reverse the scorer's order
        scale, shift = 1.0, 0.0
    return BayesPolicy(float(scale), float(shift), goal.name, goal.costs)


def fit_threshold(queries: Queries, goal: Goal = JACCARD, counts: NDArray[np.float64] | None = None) -> ThresholdPolicy:
    """One threshold for all agents, the best on `queries`, a row counting as `counts` float64[N] says."""
    level = best_threshold(queries.x, queries.required, queries.asked, goal, counts)
    return ThresholdPolicy(np.full(queries.x.shape[1], level, np.float32))


def _drawn(queries: Queries) -> NDArray[np.float64] | None:
    """How often each row is drawn, 1 on average; None for all alike."""
    return None if queries.weight is None else queries.weight / queries.weight.mean()


def _counts(training: Queries, judged: int, weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """How much each row counts, those of either kind 1 on average: float64[N + judged]."""
    parts = [(training.weight, len(training)), (weights, judged)]
    return np.concatenate([np.ones(n) if w is None else w / w.mean() for w, n in parts])


def crossed(judged: FloatArray, half: NDArray[np.int64]) -> FloatArray:
    """What each row got from the network that was best on the other half of the rows, `half` int64[N]: judged float32[E, N], of every
    measurement of the network -> float32[N]. So the choice among the measurements does not flatter."""
    best = np.empty(judged.shape[1], np.float32)
    for side in (0, 1):
        other = judged[:, half != side] if (half != side).any() else judged
        means = other.mean(axis=1, dtype=np.float64)
        last_best = len(means) - 1 - int(means[::-1].argmax())
        best[half == side] = judged[last_best, half == side]
    return best


def threshold_lead(env: RoutingEnv, queries: Queries, weights: NDArray[np.float64], seed: int) -> Interval:
    """By how much one threshold is ahead of Bayes' rule, both fitted on the other half of the rows, the halves drawn HALVINGS times;
    rows count as `weights` float64[N] says. Rules of one or two numbers may be judged by training rows too: their log-odds are out of
    fold."""
    rng = np.random.Generator(np.random.PCG64(seed))
    some = np.sort(rng.permutation(len(queries))[:MOST_ROWS])
    drawn = queries.take(some)
    scale = weights[some] / weights[some].mean()
    leads = np.zeros(len(some))
    for halving in range(HALVINGS):
        half = drawn.folds(2, seed + halving)
        for side in (0, 1):
            learned, judged = drawn.take(np.flatnonzero(half != side)), drawn.take(np.flatnonzero(half == side))
            counts = scale[half != side]
            required = judged.required & judged.asked
            ours = env.goal.utility(selected(env, fit_threshold(learned, env.goal, counts), judged), required)
            theirs = env.goal.utility(selected(env, fit_bayes(learned, env.goal, counts), judged), required)
            leads[half == side] += (ours - theirs) / HALVINGS
    return spread(scale * leads)


def choose(
    values: Mapping[str, FloatArray], weights: NDArray[np.float64] | None = None, plain: str = "bayes"
) -> dict[str, Any]:
    """Which rule answers, by what each row is worth to each of them, float32[N]; rows count as `weights` float64[N] says. `plain` is
    the better of the two rules that learn no network. See `Decision.report`."""
    rows = len(values["bayes"])
    scale = np.ones(rows) if weights is None else weights / weights.mean()
    means = {name: float((scale * value).mean()) if rows else None for name, value in values.items()}

    def lead(name: str, other: str) -> dict[str, float]:
        return spread(scale * (values[name] - values[other])).plain()

    if "ddqn" not in values:
        return {"rule": plain, "why": "few", "rows": rows, "scores": means, "against": {}}
    against = {name: lead("ddqn", name) for name in ("bayes", "threshold")}
    ahead = against[plain]
    if ahead["low"] > 0:
        rule, why = "ddqn", "ahead"
    elif ahead["high"] < 0:
        rule, why = plain, "behind"
    else:
        rule, why = plain, "unsure"
    return {"rule": rule, "why": why, "rows": rows, "scores": means, "against": against}
