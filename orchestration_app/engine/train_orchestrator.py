"""One training run of an orchestrator: the set router that reads tasks, then the policy that walks by what agents answer.

`train` has the shape of `train.train`, so that runs of both kinds are launched, watched and cancelled alike. Imported by workers
only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterator, Sequence

from orchestration_app.engine.orchestrating.environment import RecordedPath, RecordedWorld, SimulatedWorld, World
from orchestration_app.engine.orchestrating.logs import KeptEpisode
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.support import playbook, pool_named
from orchestration_app.engine.orchestrating.training import Problem, train_policy
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.prepared import TrainError, prepared
from training_app.engine.judging.llm_baseline import LanguageModel
from training_app.engine.progress import Progress, Result
from training_app.engine.routing import checkpoints
from training_app.engine.train import train as train_router

PLAYED = 300  # tasks of a simulated pool that its playbook is recorded on

__all__ = ("TrainError", "problem_of", "read_by_router", "train")


def train(
    config: OrchestratorConfig,
    agents: Sequence[Agent],
    examples: Sequence[Example],
    *,
    checkpoint: bytes | None = None,
    llm: LanguageModel | None = None,
    unlabeled: Sequence[str] = (),
    paths: Sequence[RecordedPath] = (),
    logged: Sequence[KeptEpisode] = (),
) -> Iterator[Progress]:
    """Train an orchestrator on `examples` (each with split train, val or test) and what is known of episodes: `paths` that were
    recorded, `logged` episodes that were judged. `llm` is the model that `llm_tasks` asks. Calls are answered by the
    simulated pool that the settings name, or by recorded outputs.

    Yields Progress; the last one holds the Result, whose artifact `Orchestrator.load` takes. A task without a recorded path counts
    as one whose required agents were called in any order, their outputs unknown. There are no checkpoints to go on from: a stopped
    run begins again. Raises TrainError where the data cannot be used.
    """
    world: World | None = None
    if config.simulated != "none":
        pool = pool_named(config.simulated)
        if [agent.id for agent in agents] != [agent.id for agent in pool.agents]:
            raise TrainError(
                f"simulated: {config.simulated} has other agents than this pool: load its own pool, or set none."
            )
        world = SimulatedWorld(pool)
        if config.simulated == "support" and not paths:
            paths = [playbook(pool, e.text) for e in examples if e.split == "train"][:PLAYED]
    read = yield from read_by_router(config, agents, examples, unlabeled)
    yield from train_policy(
        config, dataclasses.replace(problem_of(read, examples, paths, world), logged=tuple(logged)), llm
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Read:
    """A set router, the agents that it covers, and its cross-fitted log-odds float32[N, A] of the texts that it was fitted on."""

    agents: tuple[Agent, ...]
    router: Artifact
    texts: tuple[str, ...]
    log_odds: FloatArray


def read_by_router(
    config: OrchestratorConfig, agents: Sequence[Agent], examples: Sequence[Example], unlabeled: Sequence[str] = ()
) -> Generator[Progress, None, Read]:
    """Train the set router whose scorer reads the tasks. Raises TrainError."""
    examples = [e for e in examples if e.split in ("train", "val")]
    settings = Config(seed=config.seed, encoder=config.encoder, baselines=False)
    data = prepared(agents, examples)
    result: Result | None = None
    scores: bytes | None = None
    for progress in train_router(settings, agents, examples, unlabeled=unlabeled):
        scores = progress.checkpoint if progress.phase == "scorer" and progress.checkpoint else scores
        result = progress.result or result
        yield dataclasses.replace(progress, checkpoint=None, result=None)
    assert result is not None
    assert scores is not None
    fit = checkpoints.read(scores, checkpoints.fingerprint(settings, agents, examples))[0].fit
    rows = data.train.rows if fit.held_out is None else data.train.rows.take(fit.held_out)
    return Read(tuple(data.agents), artifact.read(result.artifact), tuple(rows.texts), fit.log_odds)


def problem_of(
    read: Read, examples: Sequence[Example], paths: Sequence[RecordedPath] = (), world: World | None = None
) -> Problem:
    """What `train_policy` takes, from labeled examples and recorded paths."""
    texts: dict[str, tuple[str, ...]] = {
        split: tuple(dict.fromkeys(e.text for e in examples if e.split == split)) for split in ("val", "test")
    }
    # A text that stands twice has the log-odds of its first row.
    first = {text: i for i, text in reversed(list(enumerate(read.texts)))}
    path_of = {path.task: path for path in paths}
    if world is None:
        cost = {agent.id: agent.cost or 1.0 for agent in read.agents}
        for e in examples:
            calls = tuple(Call(i, "", cost=cost[i], answer="") for i in sorted(e.required) if i in cost)
            path_of.setdefault(e.text, RecordedPath(e.text, e.required, calls))
        lenders = [path_of[text] for text in first]
        world = RecordedWorld.of(read.agents, list(path_of.values()), lenders)
    return Problem(
        read.agents,
        world,
        tuple(first),
        texts["val"],
        texts["test"],
        tuple(path_of[text] for text in first if text in path_of),
        read.router,
        read.log_odds[list(first.values())],
    )
