"""What each part of the Double DQN brings: the policy learnt on one scorer's log-odds, one part switched off at a time.

    python -m benchmarks.ablations DIR [--seeds 3] [--goal jaccard] [--set total_steps=1500]

DIR is a folder as `benchmark` reads it. One linear scorer a seed is cross-fitted; every line learns from the same log-odds and answers
the same test queries. Prints a Markdown table: what the goal is worth on test, by how much the whole policy is ahead (paired over
queries, a query's value its mean over seeds), and of the network that was kept the TD error and by how much it expected too much. One
threshold and Bayes' best set on the same scores stand at the end.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from training_app.engine.config import Config
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.folders import read_folder
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows, draw_weights, rows_of
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import cross_fit
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import Decision, decide, environment, selected

#: What is switched off, by the words of the table.
PARTS: dict[str, dict[str, str]] = {
    "the whole": {},
    "plain targets (`double_targets: false`)": {"double_targets": "false"},
    "the taken action only (`all_actions: false`)": {"all_actions": "false"},
    "states that see the label (`label_free: false`)": {"label_free": "false"},
    "no evidence of pairs (`pairs: false`)": {"pairs": "false"},
    "reward at the end, no step cost (`reward_mode: jaccard`)": {"reward_mode": "jaccard", "step_cost": "0"},
    "the scorer's own training rows (`cross_fitting: false`)": {"cross_fitting": "false"},
}


def queries(rows: Rows, log_odds: FloatArray, none_share: float | None = None) -> Queries:
    """Rows as the policy sees them; with `none_share` as it draws them."""
    weight = None if none_share is None else draw_weights(rows.required, none_share, rows.asked)
    return Queries(log_odds, rows.required, rows.asked, weight)


def learnt(config: Config, folder: Path) -> Iterator[tuple[str, FloatArray, dict[str, float]]]:
    """(part, what each test query's set is worth float32[N], the log of the network that was kept) of one seed; the rules without a
    network come with an empty log."""
    found = read_folder(folder)
    train, val, test = (
        rows_of([e for e in found.examples if e.split == s], found.agents) for s in ("train", "val", "test")
    )
    keys = [e.fold_key for e in found.examples if e.split == "train"]
    fit = cross_fit(LinearScorer(c=1.0), train, keys, seed=config.seed)
    own, of_val, of_test = (fit.platt(fit.fitted.logits(rows.texts)) for rows in (train, val, test))
    for part, change in PARTS.items():
        changed = Config.from_mapping({**config.to_mapping(), "decision": "ddqn", **change})
        env = environment(changed, found.agents)
        shown = queries(train, fit.log_odds if changed.cross_fitting else own, changed.none_share)
        work = decide(changed, env, shown, queries(val, of_val), None, None, lambda _state: b"")
        decision: Decision | None = None
        while decision is None:
            try:
                next(work)
            except StopIteration as done:
                decision = done.value
        assert decision is not None
        asked = queries(test, of_test)

        def worth(name: str, decision: Decision = decision, asked: Queries = asked) -> FloatArray:
            sets = selected(environment(config, found.agents), decision.rules[name], asked)
            return environment(config, found.agents).goal.utility(sets, test.required)

        yield part, worth("ddqn"), decision.best
        if part == "the whole":
            yield "one threshold", worth("threshold"), {}
            yield "Bayes' best set", worth("bayes"), {}


def table(folder: Path, seeds: int, settings: dict[str, str]) -> Iterator[str]:
    """The lines of the table."""
    values: dict[str, list[FloatArray]] = {}
    logs: dict[str, list[dict[str, float]]] = {}
    for seed in range(seeds):
        for part, worth, log in learnt(Config.from_mapping({**settings, "seed": seed}), folder):
            values.setdefault(part, []).append(worth)
            logs.setdefault(part, []).append(log)
    goal = settings.get("goal", "jaccard")
    yield f"| | test {goal} | lead of the whole (95% interval) | TD error | expected too much |"
    yield "| --- | --- | --- | --- | --- |"
    whole = np.mean(values["the whole"], axis=0)
    for part in (*PARTS, "one threshold", "Bayes' best set"):
        mine = np.mean(values[part], axis=0)
        lead = spread(whole - mine)
        cells = [f"{mine.mean():.4f}", f"{lead.mean:+.4f} ({lead.low:+.4f} to {lead.high:+.4f})"]
        for name in ("td_error", "overestimation"):
            known = [log[name] for log in logs[part] if name in log]
            cells.append(f"{np.mean(known):.4f}" if known else "–")
        yield f"| {part} | " + " | ".join(cells) + " |"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="ablations", description="What each part of the Double DQN brings.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--goal", default="jaccard")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the router")
    options = parser.parse_args()
    settings = {"goal": options.goal, **dict(pair.split("=", 1) for pair in options.set)}
    for line in table(options.folder, options.seeds, settings):
        print(line, flush=True)


if __name__ == "__main__":
    main()
