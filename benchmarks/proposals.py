"""Whether missing agents are proposed: three agents hidden from a pool, and traffic that asks for them too.

    .venv/bin/python -m benchmarks.proposals missing DIR [--traffic 500] [--draws 20] [--first 0]
    .venv/bin/python -m benchmarks.proposals twins DIR...
    .venv/bin/python -m benchmarks.proposals rewritten DIR...

`missing`: in each draw three agents of DIR are hidden, with the training rows that need them. A linear router learns the rest,
and test queries drawn at random go to `gaps` with its answers. A proposal is right if 0.8 of its queries need one hidden agent.
`--first` is the number of the first draw: numbers of 100 and more are for development. `twins`: in each pool the busiest agent gets a
twin, to which half of its queries go. Where stands the pair among the confused ones? `rewritten`: the two agents whose descriptions
are most alike get the same vague one, and then their own again. How often do descriptions alone confuse them before and after?
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Example
from training_app.engine.data.folders import read_folder
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.judging import gaps
from training_app.engine.judging.analysis import confusion
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.logistic import sigmoid
from training_app.engine.reading.scorers import cross_fit
from training_app.engine.routing.router import Router

HIDDEN, PURITY, LEARNT, UNSURE, TRIED = 3, 0.8, 2_500, 0.6, 300


def spoken(example: Example) -> str:
    """A query with what was said just before it, as a linear router reads it."""
    return " ".join([*(message.content for message in before(example.text)[-2:]), str(example.text)])


def vectors_of(texts: Sequence[str]) -> Any:
    """Their embeddings, float32[N, D]."""
    return np.concatenate([sentences.embed([text]) for text in texts])


def probabilities(train: Sequence[str], required: Any, test: Sequence[str]) -> Any:
    """What a linear router that learnt `train` says of `test`, float[N, A]."""
    asked, groups = np.ones(required.shape, np.bool_), [str(i) for i in range(len(train))]
    fit = cross_fit(LinearScorer(), Rows(list(train), required, asked), groups, seed=0, folds=3)
    return sigmoid(fit.platt(fit.fitted.logits(list(test))))


def with_nobody(sets: Any) -> Any:
    """Sets bool[N, A] with one more agent, bool[N, A + 1], whom those need that need nobody."""
    return np.concatenate([sets, ~sets.any(axis=1, keepdims=True)], axis=1)


def missing(source: Path, traffic: int, draws: range) -> None:
    """Print each draw's hidden agents and proposals."""
    folder, rng = read_folder(source), np.random.default_rng(0)
    learnt = [folder.train[i] for i in sorted(rng.permutation(len(folder.train))[:LEARNT].tolist())]
    texts, test_texts = [spoken(one) for one in learnt], [spoken(one) for one in folder.test]
    vectors, test_vectors = (vectors_of([gaps.spoken(one.text) for one in rows]) for rows in (learnt, folder.test))
    talks, test_talks = (np.array([gaps.conversation(one.text) for one in rows]) for rows in (learnt, folder.test))
    required, needed = rows_of(learnt, folder.agents).required, rows_of(folder.test, folder.agents).required
    common = [a for a in range(len(folder.agents)) if required[:, a].sum() >= 10 and needed[:, a].sum() >= 10]
    counts, repeated = [], 0
    for draw in draws:
        rng = np.random.default_rng(100 + draw)
        hidden = rng.choice(common, HIDDEN, replace=False)
        kept = np.flatnonzero(~required[:, hidden].any(axis=1))
        seen = [a for a in range(len(folder.agents)) if a not in hidden and required[kept, a].any()]
        rows = rng.choice(len(test_texts), min(traffic, len(test_texts)), replace=False)
        p = probabilities([texts[i] for i in kept], required[kept][:, seen], [test_texts[i] for i in rows])
        doubtful = p.max(axis=1) < UNSURE
        labeled = gaps.Labeled(vectors[kept], talks[kept].tolist(), with_nobody(required[kept][:, seen]))
        sample = gaps.Traffic(test_vectors[rows], test_talks[rows].tolist(), with_nobody(p >= 0.5), doubtful)
        found = gaps.gaps(sample, labeled)
        shares = [needed[rows[list(gap.rows)]][:, hidden].mean(axis=0) for gap in found]
        right = [int(share.argmax()) for share in shares if share.max() >= PURITY]
        proposed, false = set(right), len(shares) - len(right)
        repeated += len(right) - len(proposed)
        counts.append((len(proposed), false))
        names = ", ".join(folder.agents[a].name for a in hidden)
        print(f"{names}: {len(proposed)} of {HIDDEN} proposed, {false} of {len(found)} proposals false", flush=True)
    complete, agents = sum(n == HIDDEN for n, _ in counts), sum(n for n, _ in counts)
    print(f"all proposed in {complete} of {len(counts)}, {agents} of {HIDDEN * len(counts)} agents", end="; ")
    print(
        f"at most 2 false in {sum(false <= 2 for _, false in counts)}; {repeated} proposals of an agent proposed before"
    )


def twins(sources: Sequence[Path]) -> None:
    """Print the place of the planted pair in each pool."""
    for source in sources:
        folder, rng = read_folder(source), np.random.default_rng(0)
        train, test = ([*rows[:LEARNT]] for rows in (folder.train, folder.test))
        required, needed = rows_of(train, folder.agents).required, rows_of(test, folder.agents).required
        busiest = int(required.sum(axis=0).argmax())
        required, needed = (_with_twin(sets, busiest, rng) for sets in (required, needed))
        p = probabilities([spoken(one) for one in train], required, [spoken(one) for one in test])
        mixed = confusion(p >= 0.5, needed, np.ones(needed.shape, np.bool_), list(range(needed.shape[1])))
        evidence = [(a, b) for a, b, count in mixed["pairs"] for _ in range(count)]
        top = np.argsort(-p, axis=1)[:, :2]
        evidence += [(int(a), int(b)) for (a, b), row in zip(top, p, strict=True) if gaps.in_doubt(row[a], row[b])]
        found = gaps.confusions(evidence, dict(enumerate(needed.sum(axis=0).tolist())))
        pair = (busiest, needed.shape[1] - 1)
        place = next((i for i, one in enumerate(found, 1) if one.agents == pair), None)
        print(f"{source.name}: twin of {folder.agents[busiest].name}, place {place} of {len(found)}", flush=True)


def _with_twin(sets: Any, agent: int, rng: np.random.Generator) -> Any:
    """The sets bool[N, A + 1], in half of which a twin stands in the agent's place."""
    moved = sets[:, agent] & (rng.random(len(sets)) < 0.5)
    changed = np.concatenate([sets, moved[:, None]], axis=1)
    changed[moved, agent] = False
    return changed


def rewritten(sources: Sequence[Path]) -> None:
    """Print how often descriptions alone take one of the pair for the other."""
    for source in sources:
        folder = read_folder(source)
        own = vectors_of([f"{agent.name}. {agent.description}" for agent in folder.agents])
        alike = own @ own.T - 2 * np.eye(len(own))
        pair = {folder.agents[int(a)].id for a in np.unravel_index(alike.argmax(), alike.shape)}
        vague = "Helps with requests about " + " and ".join(agent.name for agent in folder.agents if agent.id in pair)
        before_it = [replace(agent, description=vague) if agent.id in pair else agent for agent in folder.agents]
        rows = [one for one in folder.test if len(one.required & pair) == 1][:TRIED]
        counts = []
        for agents in (before_it, list(folder.agents)):
            router = Router.of_descriptions(Descriptions(agents, meaning=True))
            answers = [set(router.route(one.text).agents) for one in rows]
            wrong = sum(bool(answer & pair - one.required) for answer, one in zip(answers, rows, strict=True))
            counts.append((wrong, sum(answer == one.required for answer, one in zip(answers, rows, strict=True))))
        (confused, right), (after, right_after) = counts
        names = " and ".join(agent.name for agent in folder.agents if agent.id in pair)
        print(
            f"{source.name}, {names}: confused {confused} → {after}, right {right} → {right_after} of {len(rows)}",
            flush=True,
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("missing", "twins", "rewritten"))
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--traffic", type=int, default=500)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the number of the first draw")
    options = parser.parse_args()
    if options.what == "twins":
        twins(options.folders)
    elif options.what == "rewritten":
        rewritten(options.folders)
    else:
        missing(options.folders[0], options.traffic, range(options.first, options.first + options.draws))


if __name__ == "__main__":
    main()
