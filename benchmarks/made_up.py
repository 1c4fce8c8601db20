"""Three made-up pools on which the way of deciding matters, and what it brings there.

    python -m benchmarks.made_up write together FOLDER [--seed S]
    python -m benchmarks.made_up compare together [--seeds 3]

`together`: sets hang together. Two kinds of work, each with a hub and three desks. A job needs the hub and one desk; the first
two desks each bring an assistant whom no text names. A third of the texts say which desk, the others leave it open, by a phrase
that is none of the desks' own. So {hub, desk 1, assistant 1}, {hub, desk 2, assistant 2} or {hub, desk 3}, never two desks.
Its goal is exact match.

`costs`: agents cost. Two trades, each with a lead and a crew of four. A simple job needs the lead, a hard one all of the crew
too. Some texts say how hard the job is; most say nothing, and three in ten of these are hard. A covered query is worth 1, a lead
costs 0.05, each of a crew 0.12. Its goal is value. One threshold is all but the best there: the lead always, the crew where the text
calls for it. It errs only where both jobs are hard, one query in 150.

`prices`: agents cost, some much more than others. The same two trades, one a query. A job needs the lead (0.02), each of two
experts (0.02) in one job of four, whatever the text says, and in three of ten a crew of three (0.15 each); a fifth of the texts
say whether. Where they do not, the best set is the lead and both experts, worth 0.64; with the crew it is worth 0.49. No one threshold
takes agents who are needed in one job of four and leaves those needed in three of ten; and were the crew three people each
needed for himself, as Bayes' rule has it, they would be worth their price. Its goal is value.

A query joins one or both kinds, or none (of `prices` one or none); the texts of the splits differ. `compare` fits one scorer a
seed and lets every rule decide on its scores: for the goal of the pool, and for Jaccard. Differences are paired over queries.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import cross_fit
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.decision import Decision, decide, selected
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import Goal, goal_of

SIZES = {"train": 1500, "val": 500, "test": 1000}
GOALS = {"together": "exact", "costs": "value", "prices": "value"}
JOINING = {"together": (1, 3, 3, 2), "costs": (1, 3, 3, 2), "prices": (2, 9, 9, 0)}  # of none, either kind and both
RULES = ("ddqn", "bayes", "threshold")
KINDS = ("refund", "travel"), ("roof", "garden")

OPENERS = ("hello,", "hi there,", "good day,", "please help,", "quick one:", "")
ENDS = ("thanks", "as soon as you can", "no hurry", "it is for my mother", "since last week", "")
NOTHING = ("tell me a joke", "who won the match", "sing a song", "what time is it", "you are very kind")
THINGS = ("order", "parcel", "ticket", "letter", "box", "file", "case", "form", "bag", "note")

DESKS = {
    "refund": ("paid by card", "sent by bank transfer", "bought with a voucher"),
    "travel": ("going by train", "going by plane", "going by ship"),
}
HUBS = {
    "refund": ("I want my money back for the", "please refund the", "return the amount of the"),
    "travel": ("book a trip with the", "plan my journey with the", "I have to travel with the"),
}
OPEN = {
    "refund": (
        "however I paid",
        "by the usual way of paying",
        "as it was charged",
        "from my account",
        "the way you have it",
        "as before",
    ),
    "travel": (
        "whatever is best",
        "by the usual way",
        "as the company likes",
        "the quickest way",
        "the cheapest way",
        "as before",
    ),
}
LEAD = {
    "roof": ("the roof leaks over the", "a tile fell on the", "the gutter drips on the"),
    "garden": ("the hedge grew over the", "the lawn is high near the", "a branch lies on the"),
}
SIMPLE = {
    "roof": ("only one small spot", "just a look is enough"),
    "garden": ("only a quick trim", "just one small bush"),
}
HARD = {
    "roof": ("the whole frame is rotten", "half of it came down"),
    "garden": ("the old oak must go", "the slope is sliding"),
}
UNSAID = (
    "come and see",
    "let me know",
    "I am at home all day",
    "the key is next door",
    "call me first",
    "what do you think",
)
OPEN_SHARE = 0.65  # of the texts of `together` do not say which desk
UNSAID_SHARE, HARD_SHARE = 0.65, 0.3
LEAD_COST, CREW_COST, CREW = 0.05, 0.12, 4
CHEAP, DEAR, EXPERTS, DEAR_CREW = 0.02, 0.15, 2, 3  # of `prices`
EXPERT_SHARE, SILENT_SHARE = 0.25, 0.8


def agents(pool: str) -> list[Agent]:
    """The roster of a pool."""
    if pool == "together":
        names = [
            f"{kind} {part}"
            for kind in KINDS[0]
            for part in ("hub", "desk 1", "desk 2", "desk 3", "assistant 1", "assistant 2")
        ]
        return [Agent(i, name) for i, name in enumerate(names)]
    found = []
    if pool == "prices":
        for kind in KINDS[1]:
            found += [(f"{kind} lead", CHEAP)] + [(f"{kind} expert {i + 1}", CHEAP) for i in range(EXPERTS)]
            found += [(f"{kind} crew {i + 1}", DEAR) for i in range(DEAR_CREW)]
        return [Agent(i, name, cost=cost) for i, (name, cost) in enumerate(found)]
    for kind in KINDS[1]:
        found += [(f"{kind} lead", LEAD_COST)] + [(f"{kind} crew {i + 1}", CREW_COST) for i in range(CREW)]
    return [Agent(i, name, cost=cost) for i, (name, cost) in enumerate(found)]


def job_together(rng: random.Random, kind: int) -> tuple[str, set[int]]:
    """A clause of one kind of work and the agents that it needs."""
    name, first = KINDS[0][kind], 6 * kind
    clause = f"{rng.choice(HUBS[name])} {rng.choice(THINGS)} {rng.randrange(100)}"
    desk = rng.randrange(3)
    clause += ", " + (rng.choice(OPEN[name]) if rng.random() < OPEN_SHARE else DESKS[name][desk])
    needs = {first, first + 1 + desk}
    return clause, needs if desk == 2 else needs | {first + 4 + desk}


def _trade(rng: random.Random, name: str, unsaid: float) -> tuple[str, bool]:
    """A clause of one trade, and whether its job is hard, which a share of `unsaid` does not say."""
    clause = f"{rng.choice(LEAD[name])} {rng.choice(THINGS)} {rng.randrange(100)}, "
    if rng.random() < unsaid:
        hard = rng.random() < HARD_SHARE
        return clause + rng.choice(UNSAID), hard
    hard = rng.random() < 0.5
    return clause + rng.choice((HARD if hard else SIMPLE)[name]), hard


def job_costs(rng: random.Random, kind: int) -> tuple[str, set[int]]:
    """A clause of one trade and the agents that it needs."""
    first = (1 + CREW) * kind
    clause, hard = _trade(rng, KINDS[1][kind], UNSAID_SHARE)
    return clause, {first} | (set(range(first + 1, first + 1 + CREW)) if hard else set())


def job_prices(rng: random.Random, kind: int) -> tuple[str, set[int]]:
    """The same where experts are cheap and a crew is dear."""
    first = (1 + EXPERTS + DEAR_CREW) * kind
    clause, hard = _trade(rng, KINDS[1][kind], SILENT_SHARE)
    experts = {first + 1 + i for i in range(EXPERTS) if rng.random() < EXPERT_SHARE}
    crew = range(first + 1 + EXPERTS, first + 1 + EXPERTS + DEAR_CREW)
    return clause, {first} | experts | (set(crew) if hard else set())


JOBS: dict[str, Callable[[random.Random, int], tuple[str, set[int]]]] = {
    "together": job_together,
    "costs": job_costs,
    "prices": job_prices,
}


def examples(pool: str, seed: int) -> list[Example]:
    """The labeled queries of a pool, SIZES of each split, no text twice."""
    rng = random.Random(f"{pool} {seed}")
    seen: set[str] = set()
    found = []
    for split, size in SIZES.items():
        for number in range(size):
            while True:
                kinds = rng.choices([(), (0,), (1,), (0, 1)], JOINING[pool])[0]
                parts = [JOBS[pool](rng, kind) for kind in kinds]
                body = " and ".join(part[0] for part in parts) or rng.choice(NOTHING)
                text = " ".join(filter(None, (rng.choice(OPENERS), body, rng.choice(ENDS), str(rng.randrange(1000)))))
                if text not in seen:
                    break
            seen.add(text)
            needs = frozenset().union(*(part[1] for part in parts))
            found.append(Example(f"{split}-{number}", text, needs, None, split))
    return found


def write(pool: str, folder: Path, seed: int) -> None:
    """The files of a pool, as `benchmark` and the import read them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": a.id, "name": a.name, "cost": a.cost} for a in agents(pool)]
    (folder / "agents.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = examples(pool, seed)
    for split in SIZES:
        lines = [
            json.dumps({"id": e.id, "text": e.text, "required_agents": sorted(e.required)})
            for e in found
            if e.split == split
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")


def decided(pool: str, seed: int, goals: dict[str, Goal], settings: dict[str, str]) -> dict[tuple[str, str], BoolArray]:
    """The sets of the test queries by (rule, the goal that it was learnt for), bool[N, A], all on the scores of one scorer."""
    roster, found = agents(pool), examples(pool, seed)
    rows = {split: rows_of([e for e in found if e.split == split], roster) for split in SIZES}
    scorer = LinearScorer(c=1.0)
    told = rows["train"]
    fit = cross_fit(scorer, told, [e.text for e in found[: len(told)]], seed=seed)

    def queries(part: Rows, log_odds: FloatArray) -> Queries:
        return Queries(log_odds, part.required, part.asked)

    served = {split: queries(rows[split], fit.platt(fit.fitted.logits(rows[split].texts))) for split in ("val", "test")}
    sets: dict[tuple[str, str], BoolArray] = {}
    for name, goal in goals.items():
        env = RoutingEnv(len(roster), goal=goal)
        config = Config.from_mapping({"decision": "ddqn", **settings, "seed": seed, "goal": name})
        steps = decide(config, env, queries(told, fit.log_odds), served["val"], None, None, lambda learning: b"")
        while True:
            try:
                next(steps)
            except StopIteration as done:
                decision: Decision = done.value
                break
        print(f"{pool}, seed {seed}, goal {name}: {decision.report}", file=sys.stderr, flush=True)
        for rule in RULES:
            sets[rule, name] = selected(env, decision.rules[rule], served["test"])
        sets["chosen", name] = selected(env, decision.policy, served["test"])
    return sets


def compare(pool: str, seeds: int, settings: dict[str, str]) -> None:
    """Print what every rule gets on the test queries, and the paired lead of the Double DQN over it."""
    roster = agents(pool)
    goals = {name: goal_of(name, roster, 1.0) for name in (GOALS[pool], "jaccard")}
    worth: dict[tuple[str, str, str], list[FloatArray]] = {}  # (rule, learnt for, measured) -> of each seed
    for seed in range(seeds):
        truth = rows_of([e for e in examples(pool, seed) if e.split == "test"], roster).required
        for (rule, learnt), sets in decided(pool, seed, goals, settings).items():
            for measured, goal in goals.items():
                worth.setdefault((rule, learnt, measured), []).append(goal.utility(sets, truth))
    for measured in goals:
        print(f"\n{pool}: mean {measured} on test, {seeds} seeds")
        ours = np.concatenate(worth["ddqn", measured, measured])
        for (rule, learnt, of), values in worth.items():
            if of == measured:
                theirs = np.concatenate(values)
                lead = spread(ours - theirs)
                print(
                    f"  {rule + ' for ' + learnt:24s} {theirs.mean():.4f}   "
                    f"lead of ddqn {lead.mean:+.4f} ({lead.low:+.4f} to {lead.high:+.4f})"
                )


def main() -> None:
    parser = argparse.ArgumentParser(prog="made_up", description="Made-up pools on which the way of deciding matters.")
    parser.add_argument("command", choices=("write", "compare"))
    parser.add_argument("pool", choices=tuple(JOBS))
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the router")
    options = parser.parse_args()
    if options.command == "compare":
        compare(options.pool, options.seeds, dict(pair.split("=", 1) for pair in options.set))
    elif options.folder is None:
        parser.error("write needs a folder")
    else:
        write(options.pool, options.folder, options.seed)


if __name__ == "__main__":
    main()
