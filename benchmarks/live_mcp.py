"""Many tools behind two, on LiveMCPBench: `python -m benchmarks.live_mcp DIR [--folds 5] [--seeds 4]`.

DIR is a clone of github.com/icip-cas/LiveMCPBench: 70 servers with 527 tools and 95 tasks with the tools that people used. Prints

- R@5 of tools and of servers, the mean over tasks of the share of those needed among the best five, and how often any is: cold, and
  learned from the labels of the other folds (about 200);
- how many tokens `tools/list` has with the two tools and those that a task needs beside all 527, four characters a token;
- what one search takes, CPU milliseconds, of a text whose words the encoder has met, and of one that has new words;
- how far each recorded judge agrees with people on the 95 recorded trajectories, with the interval and the weight that it would have.

A tool that several servers have under one name counts as found in any of them.
"""

import argparse
import json
import re
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from orchestration_app.engine.orchestrating import judges
from orchestration_app.engine.tool_search import Document, ToolSearch, as_many_as_needed
from training_app.engine.data import shares
from training_app.engine.reading import sentences

RECORDED = "claude-sonnet-4-20250514_Qwen3-Embedding-0.6B.json"
BEST = 5
CHARACTERS = 4  # of a token
_NUMBERED = re.compile(r"^\s*\d+[.)]\s*")


@dataclass(frozen=True)
class Task:
    """A text, and for each tool that it needs the places of the tools of that name."""

    text: str
    needed: tuple[frozenset[int], ...]


def read(folder: Path) -> tuple[list[Document], list[tuple[str, str]], list[dict[str, Any]], list[Task]]:
    """The tools' documents, the servers, the tools as `tools/list` has them, and the tasks whose tools are known."""
    documents: list[Document] = []
    listed: list[dict[str, Any]] = []
    servers: list[tuple[str, str]] = []
    for entry in json.loads((folder / "tools/LiveMCPTool/tools.json").read_text()):
        for one in entry["tools"].values():
            for tool in one["tools"]:
                documents.append(Document(tool["name"], tool.get("description") or "", len(servers)))
                listed.append({name: tool.get(name) for name in ("name", "description", "inputSchema")})
        servers.append((entry["name"], entry.get("description") or ""))
    places = defaultdict(set)
    for at, document in enumerate(documents):
        places[document.name].add(at)
    tasks = []
    for row in json.loads((folder / "annotated_data/all_annotations.json").read_text()):
        names = [_NUMBERED.sub("", line).strip() for line in row["Annotator Metadata"]["Tools"].splitlines()]
        needed = tuple(frozenset(places[name]) for name in names if name in places)
        if needed:
            tasks.append(Task(row["Question"], needed))
    return documents, servers, listed, tasks


def measured(task: Task, scores: np.ndarray, server_of: np.ndarray) -> dict[str, float]:
    """R@5 of tools, R@5 of servers, and whether any needed server is among the best five."""
    best = set(np.argsort(-scores, kind="stable")[:BEST].tolist())
    of_server = np.full(int(server_of.max()) + 1, -1.0)
    np.maximum.at(of_server, server_of, scores)
    servers = set(np.argsort(-of_server, kind="stable")[:BEST].tolist())
    needed = list(dict.fromkeys(frozenset(server_of[list(places)].tolist()) for places in task.needed))
    hits = [bool(one & servers) for one in needed]
    return {
        "tools": float(np.mean([bool(places & best) for places in task.needed])),
        "servers": float(np.mean(hits)), "any server": float(any(hits)),
    }  # fmt: skip


def labeled(documents: list[Document], tasks: list[Task], cold: ToolSearch) -> list[Document]:
    """The documents with the tasks that called them; of tools of one name, the likeliest."""
    did: dict[int, list[str]] = defaultdict(list)
    for task in tasks:
        scores = cold.scores(task.text)
        for places in task.needed:
            did[max(sorted(places), key=lambda at: float(scores[at]))].append(task.text)
    return [replace(one, tasks=tuple(dict.fromkeys(did.get(at, ())))) for at, one in enumerate(documents)]


def search(folder: Path, folds: int, seeds: int) -> None:
    """Print what finds the tools."""
    documents, servers, listed, tasks = read(folder)
    server_of = np.array([one.server for one in documents])
    cold = ToolSearch(documents, servers, meaning=sentences.installed())
    cold.scores("")
    rows, tokens = [], []
    took: dict[str, list[float]] = {"new": [], "known": []}
    everything = len(json.dumps(listed)) / CHARACTERS
    for task in tasks:
        for words in took:
            sentences._one.cache_clear()
            began = time.process_time()
            scores = cold.scores(task.text)
            took[words].append(1000 * (time.process_time() - began))
        rows.append(measured(task, scores, server_of))
        tokens.append(len(json.dumps([listed[at] for at in as_many_as_needed(scores)])) / CHARACTERS)
    print(f"{len(tasks)} tasks, {len(documents)} tools of {len(servers)} servers")
    print("cold:", _means(rows))
    print(
        f"tools/list: {everything:,.0f} tokens for all, {np.mean(tokens):,.0f} in the mean for those shown"
        f" ({np.mean(tokens) / everything - 1:+.1%})"
    )
    for words, times in took.items():
        middle, late = np.median(times), np.quantile(times, 0.95)
        print(f"a search of {words} words: {middle:.1f} CPU ms in the median, {late:.1f} at the 95th percentile")
    rows, labels = [], []
    for seed in range(seeds):
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(tasks))
        for fold in range(folds):
            held_out = set(order[fold::folds].tolist())
            rest = [task for at, task in enumerate(tasks) if at not in held_out]
            learned = ToolSearch(labeled(documents, rest, cold), servers, meaning=sentences.installed(), before=cold)
            labels.append(sum(len(task.needed) for task in rest))
            rows += [measured(tasks[at], learned.scores(tasks[at].text), server_of) for at in sorted(held_out)]
    print(f"held out, {np.mean(labels):.0f} labels:", _means(rows))


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {f"R@{BEST} {name}": round(float(np.mean([row[name] for row in rows])), 3) for name in rows[0]}


def judged(folder: Path) -> None:
    """Print how far each recorded judge agrees with people."""
    people = {
        row["task_id"]: float("success" in row["task_success"].lower())
        for row in json.loads((folder / "baseline/annotation" / RECORDED).read_text())
    }
    print("judge: share in which people agree, Cohen's kappa, weight beside a person's")
    for judge in sorted(path for path in (folder / "evaluator/output").iterdir() if path.is_dir()):
        rows = json.loads((judge / RECORDED).read_text())
        marks = {row["task_id"]: float("success" in row["judge"].lower()) for row in rows if row["task_id"] in people}
        found = judges.agreement(list(marks.values()), [people[key] for key in marks])
        share = shares.wilson(round(found["share"] * len(marks)), len(marks))
        print(
            f"{judge.name}: {share['mean']:.3f} ({share['low']:.3f} to {share['high']:.3f}) of {len(marks)},"
            f" {found['kappa']:.2f}, {judges.worth(found['share']):.2f}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    search(options.folder, options.folds, options.seeds)
    judged(options.folder)
