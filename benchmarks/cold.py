"""Agents that no model knows beside those that one knows: how well descriptions route to them, in single queries and conversations.

    .venv/bin/python -m benchmarks.cold measure DIR [--hide 4] [--draws 5] [--encoder auto] [--split test]
    .venv/bin/python -m benchmarks.cold learn DIR...            the weights of `training_app/engine/routing/joint.py`

Each DIR is a folder as `benchmark` reads it. A draw hides some agents: a router is trained without them and the queries that need
them. Then all queries of a split are answered, turn after turn of a conversation, the hidden agents by what they say of themselves.
Prints recall and precision of the hidden agents on first and on later turns, how often a trained agent is selected where only a hidden
one is needed, and the Jaccard of the queries that need no hidden agent, beside that of the router alone. `learn` fits the weights of a
trained agent's log-odds beside hidden ones on validation queries; all folders count alike.
"""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from training_app.engine.config import Config
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.folders import Folder, read_folder
from training_app.engine.reading import sentences
from training_app.engine.reading.cold import ColdScorer, ColdScores
from training_app.engine.reading.conversing.continuing import successive
from training_app.engine.reading.logistic import logistic
from training_app.engine.routing import holding, joint
from training_app.engine.routing.joint import Joining, Turn
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import Route
from training_app.engine.train import train

MOST = 1_500, 400  # queries that teach, and that are judged, where they are no conversations
THRESHOLD = 0.5  # as pools have it
RIDGE, COUNTED = 1.0, 1_000


@dataclass(frozen=True)
class Draw:
    """A router that does not know the agents `hidden`, and what it and the descriptions say of the rows."""

    router: Router
    hidden: frozenset[int]
    rows: Sequence[Example]
    routes: Sequence[Route]
    scores: Sequence[ColdScores]


def drawn(folder: Folder, hide: int, seed: int, encoder: str, split: str) -> Draw:
    """Hide so many agents, train without them, and ask both."""
    rng = random.Random(seed)
    hidden = frozenset(rng.sample([agent.id for agent in folder.agents], hide))
    known: list[Agent] = [agent for agent in folder.agents if agent.id not in hidden]
    splits = {"train": folder.train, "val": folder.val}
    taught = [replace(e, split=name) for name, rows in splits.items() for e in rows if not e.required & hidden]
    rows = [example for example in folder.examples if example.split == split]
    if not any(before(example.text) for example in rows):
        rng.shuffle(taught)
        rng.shuffle(rows)
        taught, rows = taught[: MOST[0]], rows[: MOST[1]]
    config = Config(baselines=False, encoder=encoder)
    artifact = next(step.result.artifact for step in train(config, known, taught) if step.result)
    router, scorer = Router.load(artifact), ColdScorer(folder.agents, hidden, meaning=True)
    with sentences.remembering():
        scores = [scorer.scores(example.text) for example in rows]
    return Draw(router, hidden, rows, [router.route(example.text) for example in rows], scores)


def answered(draw: Draw) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The agents of every row as an application is answered, and those of the router alone."""
    texts = [row.text for row in draw.rows]
    back = successive(texts, [row.group for row in draw.rows])
    ours: dict[int, tuple[int, ...]] = {}
    alone: dict[int, tuple[int, ...]] = {}
    for first in range(len(texts)):
        chain = [first]
        while (last := int(back[chain[-1]])) >= 0 and last not in ours and last not in chain:
            chain.append(last)
        for row in reversed(chain):
            alone[row], ours[row] = _answer(draw, row, int(back[row]), alone, ours)
    return [ours[row] for row in range(len(texts))], [alone[row] for row in range(len(texts))]


def _answer(
    draw: Draw, row: int, last: int, alone: dict[int, tuple[int, ...]], ours: dict[int, tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    text, route, turn = draw.rows[row].text, draw.routes[row], None
    without = route
    if last >= 0:
        without = holding.continued(draw.router, text, route, last=alone[last])[0]
        route = holding.continued(draw.router, text, route, last=ours[last])[0]
        turn = Turn(text, ours[last], draw.router.continuing)
    joining = Joining(THRESHOLD, single=draw.router.single)
    together = joint.together(route.agents, route.scores, draw.scores[row], joining, turn=turn)
    return without.agents, together.agents


def told(draw: Draw) -> str:
    """A row of the table."""
    ours, alone = answered(draw)
    hidden, rows = draw.hidden, draw.rows
    later = [i for i, row in enumerate(rows) if before(row.text)]
    first = [i for i, row in enumerate(rows) if not before(row.text)]
    only = [i for i, row in enumerate(rows) if row.required and row.required <= hidden]
    others = [i for i, row in enumerate(rows) if not row.required & hidden]

    def found(places: list[int]) -> str:
        needed = sum(len(rows[i].required & hidden) for i in places)
        chosen = sum(len(hidden.intersection(ours[i])) for i in places)
        both = sum(len(rows[i].required & hidden.intersection(ours[i])) for i in places)
        return f"{both / needed:.3f}, {both / chosen:.3f}" if needed and chosen else "–"

    def jaccard(answers: list[tuple[int, ...]]) -> float:
        sets = [(set(answers[i]), rows[i].required) for i in others]
        return float(np.mean([len(a & b) / len(a | b) if a | b else 1.0 for a, b in sets]))

    instead = np.mean([bool(set(ours[i]) - hidden) for i in only]) if only else float("nan")
    return (
        f"| {', '.join(map(str, sorted(hidden)))} | {found(first)} | {found(later)} | {instead:.3f} | {jaccard(alone):.4f} "
        f"| {jaccard(ours) - jaccard(alone):+.4f} |"
    )


def observed(draw: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Of each row and trained agent what `joint.TRAINED` weighs, float64[N, 4], and whether the row needs the agent, bool[N]."""
    x, y = [], []
    for row, route, scores in zip(draw.rows, draw.routes, draw.scores, strict=True):
        lead = max(joint.logit(p) for p in scores.cold.values())
        for agent, p in route.scores.items():
            own = joint.logit(scores.trained[agent])
            x.append([1.0, joint.logit(p), own, max(0.0, lead - max(own, 0.0))])
            y.append(agent in row.required)
    return np.array(x), np.array(y)


def learn(folders: list[Path], encoder: str) -> None:
    """Print the weights of all folders together, and of all but each."""
    parts = []
    for path in folders:
        folder = read_folder(path)
        parts.append(observed(drawn(folder, max(1, len(folder.agents) // 5), 0, encoder, "val")))
        print(f"{path.name}: {len(parts[-1][1])} pairs", flush=True)
    for left_out in (None, *range(len(parts))):
        used = [part for place, part in enumerate(parts) if place != left_out]
        weight = np.concatenate([np.full(len(y), COUNTED / len(y)) for _x, y in used])
        x, y = (np.concatenate(columns) for columns in zip(*used, strict=True))
        weights = logistic(x, y, np.array(joint.TRAINED), RIDGE, weight)
        print("all" if left_out is None else f"without {folders[left_out].name}", np.round(weights, 2).tolist())


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "learn"))
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--hide", type=int, default=4, help="agents of a draw")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--encoder", default="auto")
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    if options.what == "learn":
        learn(options.folders, options.encoder)
        return
    for path in options.folders:
        print(f"{path.name}, {options.split}")
        print("| hidden | first turns: recall, precision | later turns | trained instead | alone | beside |")
        for seed in range(options.draws):
            print(told(drawn(read_folder(path), options.hide, seed, options.encoder, options.split)), flush=True)


if __name__ == "__main__":
    main()
