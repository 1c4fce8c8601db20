"""Learn the weights of the scorer that reads descriptions alone, over many pools with agents held out of each.

    .venv/bin/python -m benchmarks.descriptions DATA DEMO [--write FILE] [--queries N] [--test] [--keep FILE]

DATA holds folders of pools in the format of `import_queries`, DEMO is the demo pool as `datasets_app.demo.generate` writes it; the
four pools of `pools.txt` beside this file, whose queries come in nine languages, are the third source. Only train and validation
rows teach. Prints, for each pool, what the scorer answers to validation rows, or with --test to test rows, with weights that were
learnt without that pool: how often the likeliest agent is needed, the Jaccard of the sets, the share of the queries that need
nobody for which it names nobody, and what the share of exact sets and the mean confidence are. With --write the weights of all
pools together are written there: training_app/engine/reading/descriptions.json. Later turns of conversations have weights of their
own, which are drawn to those of plain texts. With --keep those of plain texts and the confidence are not learnt but taken from FILE.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.folders import read_folder
from training_app.engine.data.metrics import jaccard
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import FEATURES, TURN, Descriptions, bounded, weighed
from training_app.engine.reading.logistic import logistic
from training_app.engine.routing.bayes import BayesPolicy
from training_app.engine.routing.calibration import SET_PRIOR, set_features

HERE = Path(__file__).parent
FOLDERS = ("mixsnips", "clinc_domains", "research_static", "nlupp_hotels", "sgd_turns")
SHARES = (1.0, 0.7, 0.5)  # of a pool's agents that a variant of it keeps
EXAMPLES = 15  # of an agent at most
RIDGE, COUNTED = 1.0, 3_000  # strength of the prior, and rows that all pools together count as
KINDS = ("words", "meaning", "examples")


@dataclass
class Pool:
    """A pool: its agents, queries to learn from and to judge by, and rows that are examples of an agent."""

    name: str
    agents: list[Agent]
    training: list[Example]
    judging: list[Example]
    examples: list[Example] = field(default_factory=list)


@dataclass
class Part:
    """The features of some queries, float32[N, A, FEATURES], and what each needs, bool[N, A]."""

    features: FloatArray
    needed: BoolArray

    def only(self, turns: bool) -> "Part":
        """Its later turns, or its other texts."""
        rows = (self.features[:, 0, TURN] > 0) == turns
        return Part(self.features[rows], self.needed[rows])


#: Of plain texts and of later turns, float64[FEATURES] each.
Weights = tuple[NDArray[np.float64], NDArray[np.float64]]


def read(folder: Path, queries: int, split: str) -> Pool:
    """A pool of a folder: so many queries at most, drawn."""
    data, rng = read_folder(folder), random.Random(1)
    rows = {name: [e for e in data.examples if e.split == name and e.asked is None] for name in ("train", split)}
    for each in rows.values():
        rng.shuffle(each)
    training, rest = rows["train"][:queries], rows["train"][queries:]
    return Pool(folder.name, list(data.agents), training, rows[split][:queries], rest[:2_000])


def turns(folder: Path, queries: int, split: str) -> Pool:
    """The later turns of the demo pool's conversations, which are few among its queries."""
    data = read_folder(folder)
    rows = {name: [e for e in data.examples if e.split == name and before(e.text)] for name in ("train", split)}
    return Pool(f"{folder.name} turns", list(data.agents), rows["train"][:queries], rows[split][:queries])


def own(path: Path) -> Iterator[Pool]:
    """The pools of `pools.txt`: English queries are examples, those in other languages and half of the English ones teach."""
    *pools, nobody = path.read_text("utf-8").strip("\n").split("\n# ")
    strangers = [text for line in nobody.split("\n")[1:] for text in line[4:].split("; ")]
    for block in pools:
        name, *lines = block.removeprefix("# ").split("\n")
        agents: list[Agent] = []
        rows: list[Example] = []
        examples: list[Example] = []
        for line in lines:
            if line[2:4] != ": ":
                title, said = line.split(" | ")
                agents.append(Agent(len(agents), title, said))
                continue
            for place, text in enumerate(line[4:].split("; ")):
                row = Example(text, text, frozenset({len(agents) - 1}))
                (examples if line.startswith("en") and place % 2 == 0 else rows).append(row)
        rows += [Example(text, text, frozenset()) for text in strangers]
        yield Pool(name, agents, rows, rows, examples)


def part(pool: Pool, rows: Sequence[Example], kind: str, keep: set[int]) -> Part:
    """The rows of a pool that has only the agents to `keep`."""
    agents = [agent for agent in pool.agents if agent.id in keep]
    examples: dict[int, list[str]] = {}
    nobody: list[str] = []
    for row in pool.examples if kind == "examples" else ():
        (agent,) = row.required if len(row.required) == 1 else (None,)
        if agent in keep and len(examples.setdefault(agent, [])) < EXAMPLES:
            examples[agent].append(row.text)
        elif not row.required and len(nobody) < EXAMPLES:
            nobody.append(row.text)
    scorer = Descriptions(agents, meaning=kind != "words", examples=examples, nobody=nobody)
    needed = [[agent.id in row.required for agent in agents] for row in rows]
    return Part(np.stack([scorer.features(row.text) for row in rows]), np.array(needed))


def parts(pool: Pool, kind: str) -> list[Part]:
    """The training queries of a pool in its variants, each with other agents held out; a query that needs one of these needs
    nobody."""
    rng = random.Random(2)
    ids = [agent.id for agent in pool.agents]
    found = []
    for place, share in enumerate(SHARES):
        keep = set(rng.sample(ids, max(2, round(share * len(ids)))))
        found.append(part(pool, pool.training[place :: len(SHARES)], kind, keep))
    return found


def learned(pools: Sequence[list[Part]], plain: NDArray[np.float64] | None = None) -> Weights:
    """The weights of plain texts, unless these are given, and of later turns, which are drawn to them."""
    plain = _fitted(pools, False, np.zeros(len(FEATURES))) if plain is None else plain
    return plain, _fitted(pools, True, plain)


def _fitted(pools: Sequence[list[Part]], turns: bool, prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of one of the two by logistic regression; all pools count alike, and within one all queries, whatever its number of
    agents. The prior where there are none."""
    pools = [[one.only(turns) for one in each] for each in pools]
    counted = COUNTED / len(pools)
    pools = [each for each in pools if any(len(one.needed) for one in each)]
    if not pools:
        return prior
    features, needed, counts = [], [], []
    for each in pools:
        queries = sum(len(one.needed) for one in each)
        for one in each:
            features.append(one.features.reshape(-1, len(FEATURES)))
            needed.append(one.needed.ravel())
            counts.append(np.full(one.needed.size, counted / queries))
    matrix = np.concatenate(features).astype(np.float64)
    return logistic(matrix, np.concatenate(needed), prior, RIDGE, np.concatenate(counts))


def answered(one: Part, weights: Weights) -> tuple[FloatArray, BoolArray]:
    """(log-odds float32[N, A], the sets of highest expected Jaccard bool[N, A])."""
    odds = np.array([bounded(weighed(row, *weights), row) for row in one.features], np.float32)
    return odds, BayesPolicy(1.0, 0.0).sets(odds, np.ones(odds.shape, np.bool_))[0]


def confidence(pools: Sequence[list[Part]], weights: Sequence[Weights]) -> NDArray[np.float64]:
    """What the confidence of a set is made of, from the answers to each pool by the weights that were learnt without it."""
    features, right = [], []
    for each, own_weights in zip(pools, weights, strict=True):
        for one in each:
            odds, sets = answered(one, own_weights)
            features.append(set_features(odds, sets, np.ones(odds.shape, np.bool_)))
            right.append((sets == one.needed).all(axis=1))
    return logistic(np.concatenate(features), np.concatenate(right), SET_PRIOR, 2.0)


def line(name: str, one: Part, weights: Weights, sure: NDArray[np.float64]) -> str:
    """What a pool's judging queries get."""
    odds, sets = answered(one, weights)
    needs = one.needed.any(axis=1)
    top = one.needed[needs, odds[needs].argmax(axis=1)].mean()
    exact = (sets == one.needed).all(axis=1)
    p = 1 / (1 + np.exp(-set_features(odds, sets, np.ones(odds.shape, np.bool_)) @ sure))
    nobody: BoolArray = np.asarray(~needs)
    silent = f"{(~sets[nobody].any(axis=1)).mean():.3f}" if nobody.any() else "–"
    return (
        f"  {name:16} {len(exact):5} queries  likeliest {top:.3f}  Jaccard {jaccard(sets, one.needed).mean():.3f}"
        f"  nobody {silent} of {nobody.sum():4}  exact {exact.mean():.3f}  confidence {p.mean():.3f}"
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("demo", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--queries", type=int, default=150, help="of a pool's training and of its judging rows")
    parser.add_argument("--test", action="store_true", help="judge by test rows")
    parser.add_argument("--keep", type=Path, help="the weights of plain texts and the confidence")
    options = parser.parse_args()
    kept = json.loads(options.keep.read_text("utf-8")) if options.keep else None
    split = "test" if options.test else "val"
    folders = [options.demo, *(options.data / name for name in FOLDERS)]
    pools = [*own(HERE / "pools.txt"), *(read(folder, options.queries, split) for folder in folders)]
    pools.append(turns(options.demo, options.queries, split))
    stored: dict[str, dict[str, object]] = {"weights": {}, "turns": {}, "confidence": {}}
    with sentences.remembering():
        for kind in KINDS:
            taught = [parts(pool, kind) for pool in pools]
            plain = None if kept is None else np.array([kept["weights"][kind][name] for name in FEATURES])
            without = [learned([one for one in taught if one is not each], plain) for each in taught]
            sure = confidence(taught, without) if kept is None else np.array(kept["confidence"][kind])
            print(f"{kind}:", flush=True)
            for pool, weights in zip(pools, without, strict=True):
                judged = part(pool, pool.judging, kind, {agent.id for agent in pool.agents})
                print(line(pool.name, judged, weights, sure), flush=True)
            for of, every in zip(("weights", "turns"), learned(taught, plain), strict=True):
                stored[of][kind] = dict(zip(FEATURES, [round(float(value), 3) for value in every], strict=True))
            stored["confidence"][kind] = [round(float(value), 3) for value in sure]
    if options.write:
        options.write.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
