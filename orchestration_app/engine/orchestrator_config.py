"""Every setting of an orchestrator's training run. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from training_app.engine.settings import ConfigError, Settings, setting, tables

#: Presets of (price, success, failure).
PRESETS: dict[str, tuple[float, float, float]] = {"money": (0.5, 1.0, -2.0), "success": (0.05, 2.0, -1.0)}

ORCHESTRATOR_GROUPS = {
    "run": "An orchestrator's run",
    "reward": "What an episode pays",
    "learning": "How it learns",
    "episode": "What an episode may do",
}


@dataclass(frozen=True)
class OrchestratorConfig(Settings):
    """The settings of one run of the kind orchestrator. Build it with `from_mapping`, which checks them."""

    seed: int = setting(0, "Seed of every random draw.", low=0, high=2**31 - 1, group="run")
    encoder: str = setting(
        "auto",
        "What reads a task, as the set router's setting of this name: the run fits such a scorer first, cross-fitted.",
        choices=("auto", "linear", "sequence", "stack"),
        group="run",
    )
    simulated: str = setting(
        "none",
        "A simulated pool whose agents answer while learning: support, the demo pool, or detour, the smallest one with a known best "
        "path. none: recorded outputs answer.",
        choices=("none", "support", "detour"),
        group="run",
    )
    baselines: bool = setting(True, "Measure the baselines on the same tasks beside the orchestrator.", group="run")
    llm_tasks: int = setting(
        0,
        "Have the configured LLM orchestrate this many of the measured tasks, a call a step, and show it beside; 0 asks none. "
        "It costs money, and tasks and outputs go to its server.",
        low=0,
        high=100_000,
        group="run",
    )
    preset: str = setting(
        "none",
        "A ready reward. money: careful with money (price 0.5, success 1, failure -2); success: careful with success (0.05, 2, -1); "
        "none: as the three settings say.",
        choices=("none", "money", "success"),
        group="reward",
    )
    price: float = setting(
        0.1, "Reward that one unit of cost takes away, the papers' λ.", low=0, high=1_000, group="reward"
    )
    success: float = setting(1.0, "Reward of an episode that succeeded.", low=-1_000, high=1_000, group="reward")
    failure: float = setting(-1.0, "Reward of one that did not.", low=-1_000, high=1_000, group="reward")
    gamma: float = setting(0.99, "Discount of a step.", low=0, high=1, group="reward")
    reward_form: str = setting(
        "flat",
        "flat: every step costs price times its cost, and the end pays success or failure, once; paper: as Puppeteer writes it, the "
        "cost of step t times log(1 + t / max_steps).",
        choices=("flat", "paper"),
        group="reward",
    )
    costs: str = setting(
        "money",
        "What a step's cost is counted in: money, in the pool's currency, or tokens, in thousands.",
        choices=("money", "tokens"),
        group="reward",
    )
    second: float = setting(
        0.01,
        "What a second that agents take counts as, in the unit of cost: time is paid for at the same price. Of calls made beside each "
        "other the longest counts; waiting for a person counts as nothing.",
        low=0,
        high=1_000,
        group="reward",
    )
    learner: str = setting(
        "reinforce",
        "reinforce: policy gradients with a learnt baseline; evolution: CMA-ES over the same small policy; imitation: recorded paths "
        "and nothing else.",
        choices=("reinforce", "evolution", "imitation"),
        group="learning",
    )
    imitate: bool = setting(True, "Start from recorded paths, where there are any.", group="learning")
    logs: bool = setting(
        True,
        "Learn off-line from judged episodes, where there are any, each weighed by how likely its choices were (the product of the "
        "ratios, clipped).",
        group="learning",
    )
    explore: int = setting(
        3000,
        "Random episodes before learning, in simulated pools without recorded paths: the best ones stand for recorded paths. Live "
        "agents are never explored like this.",
        low=0,
        high=1_000_000,
        group="learning",
    )
    updates: int = setting(
        250, "Updates of REINFORCE, or generations of evolution.", low=0, high=100_000, group="learning"
    )
    episodes: int = setting(64, "Episodes of one update.", low=1, high=100_000, group="learning")
    learning_rate: float = setting(0.01, "Learning rate of Adam at its peak.", low=1e-6, high=1, group="learning")
    entropy: float = setting(
        0.02,
        "Weight of the policy's entropy at the start; it falls in a line to nothing.",
        low=0,
        high=10,
        group="learning",
    )
    hidden: int = setting(16, "Hidden units of the policy.", low=1, high=1024, group="learning")
    population: int = setting(
        0,
        "Candidates of one generation of evolution; 0 is by the number of parameters.",
        low=0,
        high=10_000,
        group="learning",
    )
    val_eval_freq: int = setting(
        25,
        "Updates between measurements on validation; the policy that is best there is kept.",
        low=1,
        high=100_000,
        group="learning",
    )
    encoding: str = setting(
        "words",
        "What encodes an agent's output, beside the scorer's log-odds of it. words: hashed words and character trigrams; sentences: "
        "the sentence encoder that is installed with Routerweb, 0.5 to 4 ms an output.",
        choices=("words", "sentences"),
        group="learning",
    )
    max_steps: int = setting(8, "Most steps of an episode, the log's φ.", low=1, high=1_000, group="episode")
    repeats: int = setting(2, "How often an episode may call one agent.", low=1, high=1_000, group="episode")
    budget: float = setting(
        0.0,
        "Budget of an episode while learning, in the pool's currency; 0 is none.",
        low=0,
        high=1e12,
        group="episode",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _, success, failure = self.pays
        if success <= failure:
            raise ConfigError("success", f"{success:g} must be above failure, {failure:g}")

    @property
    def pays(self) -> tuple[float, float, float]:
        """(price, success, failure), those of the preset where one is set."""
        return PRESETS.get(self.preset, (self.price, self.success, self.failure))


def reference() -> str:
    """The page of the documentation that lists every setting, in Markdown."""
    page = [
        "# The settings of an orchestrator's run",
        "",
        "Those of `--kind orchestrator`, of the form under *Runs → Train a model → Orchestrator*, and of `config` where `kind` is",
        "`orchestrator` in `POST /api/runs/`; see [orchestration.md](orchestration.md). What is left out has its default.",
        "",
        "This page is made from the code: `python -m orchestration_app.engine.orchestrator_config > docs/orchestrator-settings.md`.",
    ]
    return "\n".join(page + tables(OrchestratorConfig, ORCHESTRATOR_GROUPS)) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
