"""From recorded paths and a world to a trained orchestrator: read, imitate, learn, keep what is best on validation, measure.

Imported by workers only: it brings torch and scikit-learn.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating import baselines, evolution, outcomes, reinforce
from orchestration_app.engine.orchestrating.environment import (
    Environment,
    RecordedPath,
    RecordedWorld,
    SimulatedWorld,
    Tasks,
    World,
    by_network,
    explored,
    f1,
    read_tasks,
    walk,
)
from orchestration_app.engine.orchestrating.logs import KeptEpisode, walked
from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Outputs, Reader, fitted_projection
from orchestration_app.engine.orchestrating.rewards import reward_of
from orchestration_app.engine.orchestrating.scorecard import scorecard
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from training_app.engine.data import intervals
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.judging.llm_baseline import TRIES, LanguageModel
from training_app.engine.llm import CallLimits, Client, LLMError
from training_app.engine.progress import Progress, Result
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import cross_fit
from training_app.engine.routing.router import Router

LOG_EPOCHS = 200  # steps of gradient on judged episodes, all of them at once
LEAST_OUTPUTS = 20  # different outputs below which no scorer of outputs is fitted


@dataclass(frozen=True, slots=True)
class Problem:
    """What an orchestrator is trained for: the agents, the world in which they answer, and texts to learn, choose and measure on.

    `paths` are recorded paths of tasks among `train`, `logged` judged episodes of any task. `router` is the pool's set router;
    `log_odds` float32[train, A] are its scorer's of the texts of `train`, cross-fitted where it was fitted on them, None to ask it.
    """

    agents: tuple[Agent, ...]
    world: World
    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...] = ()
    paths: tuple[RecordedPath, ...] = ()
    router: Artifact | None = None
    log_odds: FloatArray | None = None
    logged: tuple[KeptEpisode, ...] = ()


def train_policy(config: OrchestratorConfig, problem: Problem, llm: LanguageModel | None = None) -> Iterator[Progress]:
    """Train an orchestrator and measure it; the last Progress holds the Result: its artifact and its scorecard.

    What is kept is what was worth most on validation, of the imitation of recorded paths and what was learnt from there on; but the
    one-shot set called one by one where the lead over it there is not beyond chance. The same settings and problem
    give the same artifact on the same machine. `llm` is the model that `llm_tasks` asks; where its server is not there, the scorecard
    says why.
    """
    timing: dict[str, float] = {}
    began = time.process_time()
    yield Progress("reading", 0, 1, "reading tasks and outputs")
    rng = np.random.Generator(np.random.PCG64(config.seed))
    network = fresh_network(len(problem.agents), config.hidden, rng, one_shot=problem.router is not None)
    environment, paths = _read(config, problem, network)
    outcome_world = _outcome_world(config, problem, environment.orchestrator)
    if outcome_world is not None:
        environment = replace(environment, world=outcome_world)
        paths = list(enumerate(outcome_world.paths(problem.train, environment.reward)))
    val = replace(environment, tasks=read_tasks(environment.orchestrator, problem.val))
    timing["reading"] = time.process_time() - began

    began = time.process_time()
    best_network = BestNetwork(val)
    log = yield from _learn(config, problem, environment, paths, best_network)
    on_the_log = _on_the_log(problem, environment, best_network)
    timing["policy"] = time.process_time() - began

    yield Progress("measure", 0, 1, "measuring")
    began = time.process_time()
    best = _orchestrator(config, problem, best_network.network, environment.orchestrator.reader)
    best.version_info["kept"] = best_network.name
    measured = replace(val, orchestrator=best)
    if problem.test:
        measured = replace(measured, tasks=read_tasks(best, problem.test))
    learning = replace(environment, orchestrator=best) if config.baselines else None
    card = scorecard(measured, learning, seed=config.seed)
    if config.llm_tasks:
        yield Progress("baselines", 0, 1, "asking the LLM")
        card |= _beside_llm(config, measured, llm, card)
    if on_the_log:
        card["outcomes"] = on_the_log
    if outcome_world is not None:
        # What labels say of it stands beside.
        labels = scorecard(replace(measured, world=problem.world), seed=config.seed)
        card |= {"measured_by": "outcomes", "by_labels": labels["metrics"]}
    card |= {
        "kept": {
            "name": best_network.name,
            "update": best_network.update,
            "val_reward": best_network.worth,
            "offered": best_network.offered,
        },
        "measured_on": "test" if problem.test else "val",
        "log": log,
        "settings": config.to_mapping(),
    }
    timing["measure"] = time.process_time() - began
    content = best.to_artifact(card, problem.router).to_bytes()
    yield Progress("measure", 1, 1, "done", result=Result(content, {**card, "timing": timing}))


def _orchestrator(config: OrchestratorConfig, problem: Problem, network: Network, reader: Reader) -> Orchestrator:
    return Orchestrator(
        problem.agents, reader, network, repeats=config.repeats, max_steps=config.max_steps,
        version_info={"seed": config.seed, "learner": config.learner},
    )  # fmt: skip


def _read(
    config: OrchestratorConfig, problem: Problem, network: Network
) -> tuple[Environment, list[tuple[int, RecordedPath]]]:
    """The environment of the training tasks, with a reader of outputs fitted on the paths; and the paths, each with its task's row."""
    agents, reward, budget = len(problem.agents), reward_of(config), config.budget or None
    router = None if problem.router is None else Router.from_artifact(problem.router)
    plain = _orchestrator(config, problem, network, Reader(agents, router, None, "words", None))
    tasks = read_tasks(plain, problem.train, problem.log_odds)
    rows = {text: i for i, text in enumerate(problem.train)}
    paths = [(rows[path.task], path) for path in problem.paths if path.task in rows]
    if not paths and config.explore and isinstance(problem.world, SimulatedWorld):
        paths = explored(Environment(plain, problem.world, tasks, reward, budget), config.explore, config.seed)
    recorded = [path for _, path in paths]
    projection = _projection(config, recorded)
    encoding = config.encoding if projection is not None else "words"
    outputs = fit_outputs(problem.agents, recorded, config.seed)
    reader = Reader(agents, router, outputs, encoding, projection)
    return Environment(_orchestrator(config, problem, network, reader), problem.world, tasks, reward, budget), paths


def _learn(
    config: OrchestratorConfig,
    problem: Problem,
    environment: Environment,
    paths: Sequence[tuple[int, RecordedPath]],
    best_network: BestNetwork,
) -> Generator[Progress, None, list[dict[str, float]]]:
    """Learn from paths, from judged episodes, then by trying, and offer each network to `kept`. Returns the log of updates."""
    network, tasks = environment.orchestrator.network, environment.tasks
    log: list[dict[str, float]] = []
    best_network.offer(network, "one_shot" if problem.router is not None else "untrained", 0)
    if config.imitate and paths:
        yield Progress("imitation", 0, 1, f"imitating {len(paths)} paths")
        index = [row for row, _ in paths]
        followed = replace(
            environment, tasks=Tasks(tuple(tasks.texts[i] for i in index), tasks.log_odds[index], tasks.one_shot[index])
        )
        network = reinforce.imitate(followed, network, [path for _, path in paths], seed=config.seed)
        best_network.offer(network, "imitation", 0)
    if config.logs and problem.logged and not isinstance(environment.world, outcomes.OutcomeWorld):
        yield Progress("logs", 0, 1, f"learning from {len(problem.logged)} judged episodes")
        network = _from_logs(environment, network, problem.logged, config.seed)
        best_network.offer(network, "logs", 0)
    for update, learnt, metrics in _learnt(config, environment, network):
        if update % config.val_eval_freq == 0 or update == config.updates:
            worth = best_network.offer(learnt, config.learner, update)
            log.append({"step": update, **metrics, "val_reward": worth})
        yield Progress("policy", update, config.updates, "learning", metrics)
    if problem.router is not None:
        best_network.settle()
    return log


def _outcome_world(
    config: OrchestratorConfig, problem: Problem, orchestrator: Orchestrator
) -> outcomes.OutcomeWorld | None:
    """The world that judged episodes score, where they tell more of how episodes end than labels do."""
    if not config.logs or not isinstance(problem.world, RecordedWorld) or len(problem.logged) < outcomes.LEAST:
        return None
    log = outcomes.read(orchestrator, problem.logged, reward_of(config))
    required = {task: path.required for task, path in problem.world.paths.items()}
    scores = [
        f1(frozenset(np.array(orchestrator.ids)[called].tolist()), required[text]) if text in required else np.nan
        for text, called in zip(log.texts, log.called, strict=True)
    ]
    by_labels = np.array(scores)
    if np.isnan(by_labels).all():
        by_labels = np.zeros(len(by_labels))
    by_labels = np.where(np.isnan(by_labels), np.nanmean(by_labels), by_labels)
    if not outcomes.say_more(log, by_labels):
        return None
    texts = [*problem.train, *problem.val, *problem.test]
    return outcomes.OutcomeWorld.of(orchestrator, problem.logged, list(problem.world.paths.values()), texts)


def _on_the_log(problem: Problem, environment: Environment, best_network: BestNetwork) -> dict[str, Any]:
    """What the kept network would have earned on the judged episodes, {} where there are too few. One that would have earned less than
    the one-shot set is given up for it."""
    orchestrator, world, reward = environment.orchestrator, environment.world, environment.reward
    if len(problem.logged) < outcomes.LEAST or problem.router is None:
        return {}
    log = outcomes.read(orchestrator, problem.logged, reward)
    if len(log) < outcomes.LEAST:
        return {}
    if not isinstance(world, outcomes.OutcomeWorld):
        paths = list(world.paths.values()) if isinstance(world, RecordedWorld) else []
        world = outcomes.OutcomeWorld.of(orchestrator, problem.logged, paths, ())
    logged_environment = replace(environment, tasks=read_tasks(orchestrator, log.texts), world=world)
    costs = world.spent(reward)

    def figures() -> dict[str, Any]:
        walks = walk(
            logged_environment, by_network(best_network.network, None), range(len(logged_environment)), keep=False
        )
        sets = np.array(
            [[agent in {call.agent for call in walk.calls} for agent in orchestrator.ids] for walk in walks]
        )
        return outcomes.off_policy(log, sets, reward, costs)

    measured = figures()
    if measured.get("difference", {}).get("mean", 0.0) < 0:
        best_network.give_up()
        measured = figures()
    return measured


def _beside_llm(
    config: OrchestratorConfig, measured: Environment, llm: LanguageModel | None, card: dict[str, Any]
) -> dict[str, Any]:
    """The scorecard's baselines with the LLM among them, or why it is not."""
    if llm is None:
        return {
            "warnings": [
                "llm_tasks is set, and no LLM is connected: do so under Settings, LLM, or name it in LLM_MODEL. None was asked."
            ]
        }
    try:
        with Client(llm.base_url, llm.model, llm.api_key, limits=CallLimits(tries=TRIES)) as client:
            chooser = baselines.llm(client, measured.orchestrator.agents)
            beside = scorecard(measured, llm=chooser, llm_tasks=config.llm_tasks, seed=config.seed)["baselines"]["llm"]
    except LLMError as error:
        return {"warnings": [f"The LLM was not measured: {error}."]}
    return {"baselines": {**card["baselines"], "llm": {**beside, "model": llm.model}}}


def _from_logs(environment: Environment, network: Network, logged: Sequence[KeptEpisode], seed: int) -> Network:
    """The network, taught by judged episodes off-line; as it was where none of them can be walked again."""
    texts = tuple(dict.fromkeys(episode.task for episode in logged))
    rows = {text: i for i, text in enumerate(texts)}
    logged_environment = replace(environment, tasks=read_tasks(environment.orchestrator, texts))
    walks = [walked(logged_environment, rows[episode.task], episode.steps, episode.score) for episode in logged]
    usable = [walk for walk in walks if walk is not None]
    return (
        reinforce.learn_from_logs(logged_environment, network, usable, epochs=LOG_EPOCHS, seed=seed)
        if usable
        else network
    )


class BestNetwork:
    """The network that was worth most on validation so far; of equals the earlier. The first one offered is the safe one: `settle`
    goes back to it unless the best one's lead there is beyond chance."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.offered: list[dict[str, float | str]] = []
        self.name, self.update, self.worth = "", 0, -np.inf
        self.network: Network
        self._safe: tuple[Network, str, NDArray[np.float64]]
        self._rewards: NDArray[np.float64]

    def offer(self, network: Network, name: str, update: int) -> float:
        """Measure a network, greedy, and keep it if it is better. Returns its mean reward."""
        environment = self.environment
        walks = walk(environment, by_network(network, None), range(len(environment)), keep=False)
        measures = reinforce.measured(environment, walks)
        rewards = np.array([environment.reward.total(sum(w.costs), w.score) for w in walks])
        if not self.offered:
            self._safe = network, name, rewards
        self.offered.append({"name": name, "update": update, **measures})
        if measures["reward"] > self.worth + 1e-9:
            self.network, self.name, self.update, self.worth = network, name, update, measures["reward"]
            self._rewards = rewards
        return measures["reward"]

    def give_up(self) -> None:
        """Go back to the safe one."""
        network, name, rewards = self._safe
        self.network, self.name, self.update, self.worth = network, name, 0, float(rewards.mean())

    def settle(self) -> None:
        """Keep the safe one where the paired 95% interval of the best one's lead over it does not lie above 0."""
        _network, name, rewards = self._safe
        if self.name != name and intervals.spread(self._rewards - rewards).low <= 0:
            self.give_up()


def _learnt(
    config: OrchestratorConfig, environment: Environment, network: Network
) -> Iterator[tuple[int, Network, dict[str, float]]]:
    """(update, network, what was measured) of the learner that the settings name."""
    if config.learner == "reinforce":
        settings = reinforce.LearnSettings(
            config.episodes, config.updates, config.learning_rate, config.entropy, seed=config.seed
        )
        for tick in reinforce.learn(environment, network, settings):
            yield tick.update, tick.network, tick.metrics
    elif config.learner == "evolution":
        yield from evolution.evolve(
            environment,
            network,
            generations=config.updates,
            population=config.population,
            episodes=config.episodes,
            seed=config.seed,
        )


def fit_outputs(agents: Sequence[Agent], paths: Sequence[RecordedPath], seed: int) -> Outputs | None:
    """A scorer of outputs from recorded paths: which agents are called after such an output (the next one, where the order
    matters, any later one elsewhere). None where the paths hold too few outputs to learn from."""
    place = {agent.id: a for a, agent in enumerate(agents)}
    texts: list[str] = []
    targets: list[np.ndarray] = []
    groups: list[str] = []
    for path in paths:
        for t, call in enumerate(path.calls):
            if call.failed or not call.output.strip() or call.agent not in place:
                continue
            after = path.calls[t + 1 : t + 2] if path.ordered else path.calls[t + 1 :]
            target = np.zeros(len(agents), np.bool_)
            target[[place[later.agent] for later in after if later.agent in place]] = True
            texts.append(call.output)
            targets.append(target)
            groups.append(path.task)
    if len(set(texts)) < LEAST_OUTPUTS // 4 or len(texts) < LEAST_OUTPUTS:
        return None
    required = np.stack(targets)
    scorer = LinearScorer(c=1.0, word_range=(1, 2), character_range=(2, 4), max_features=4000)
    fit = cross_fit(scorer, Rows(texts, required, np.ones_like(required)), groups, seed=seed, folds=3)
    return Outputs(fit.fitted, fit.platt)


def _projection(config: OrchestratorConfig, paths: Sequence[RecordedPath]) -> FloatArray | None:
    if config.encoding != "sentences":
        return None
    outputs = sorted({call.output for path in paths for call in path.calls if call.output.strip()})
    return fitted_projection(outputs[:2000]) if outputs else None
