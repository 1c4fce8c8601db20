"""Every setting of an orchestrator's training run. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

from training_app.engine.settings import ConfigError, Settings, setting, tables

#: Presets of (price, success, failure).
PRESETS: dict[str, tuple[float, float, float]] = {"money": (0.5, 1.0, -2.0), "success": (0.05, 2.0, -1.0)}

ORCHESTRATOR_GROUPS = {
    "run": "An orchestrator's run",
    "reward": "The reward of an episode",
    "learning": "How it learns",
    "episode": "Limits of an episode",
}


@dataclass(frozen=True)
class OrchestratorConfig(Settings):
    """The settings of one run of the kind orchestrator. Build it with `from_mapping`, which checks them."""

    seed: int = setting(0, "Seed of every random draw.", low=0, high=2**31 - 1, group="run")
    encoder: str = setting(
        "auto",
        "What reads a task, like the set router's setting of this name: the run first fits such a scorer, cross-fitted.",
        choices=("auto", "linear", "sequence", "stack"),
        group="run",
    )
    simulated: str = setting(
        "none",
        "A simulated pool whose agents answer during learning: support, the demo pool, or detour, the smallest pool with "
        "a known best path. none: recorded outputs answer.",
        choices=("none", "support", "detour"),
        group="run",
    )
    baselines: bool = setting(True, "Measure the baselines on the same tasks beside the orchestrator.", group="run")
    llm_tasks: int = setting(
        0,
        "Have the configured LLM orchestrate this many of the measured tasks, one call per step, and show it beside the "
        "orchestrator; 0 asks none. It costs money, and tasks and outputs go to its server.",
        low=0,
        high=100_000,
        group="run",
    )
    preset: str = setting(
        "none",
        "A ready reward. money: careful with money (price 0.5, success 1, failure -2); success: careful with success "
        "(0.05, 2, -1); none: the three settings below.",
        choices=("none", "money", "success"),
        group="reward",
    )
    price: float = setting(
        0.1, "Reward that one unit of cost takes away, the papers' λ.", low=0, high=1_000, group="reward"
    )
    success: float = setting(1.0, "Reward of an episode that succeeded.", low=-1_000, high=1_000, group="reward")
    failure: float = setting(-1.0, "Reward of an episode that failed.", low=-1_000, high=1_000, group="reward")
    gamma: float = setting(0.99, "Discount of a step.", low=0, high=1, group="reward")
    reward_form: str = setting(
        "flat",
        "flat: every step costs price times its cost, and the end pays success or failure, once; paper: as in Puppeteer's "
        "paper, the cost of step t times log(1 + t / max_steps).",
        choices=("flat", "paper"),
        group="reward",
    )
    costs: str = setting(
        "money",
        "The unit of a step's cost: money, in the pool's currency, or tokens, in thousands.",
        choices=("money", "tokens"),
        group="reward",
    )
    second: float = setting(
        0.01,
        "What a second of an agent's time costs, in the unit of cost. For calls made beside each other the longest "
        "counts; waiting for a person costs nothing.",
        low=0,
        high=1_000,
        group="reward",
    )
    learner: str = setting(
        "reinforce",
        "reinforce: policy gradients with a learned baseline; evolution: CMA-ES over the same small policy; imitation: "
        "recorded paths and nothing else.",
        choices=("reinforce", "evolution", "imitation"),
        group="learning",
    )
    imitate: bool = setting(True, "Start from recorded paths, if there are any.", group="learning")
    logs: bool = setting(
        True,
        "Learn off-line from judged episodes, if there are any, each weighted by how likely its choices were (the product "
        "of the ratios, clipped).",
        group="learning",
    )
    explore: int = setting(
        3000,
        "Random episodes before learning, in simulated pools without recorded paths: the best ones replace recorded "
        "paths. Live agents are never explored like this.",
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
        "Weight of the policy's entropy at the start; it falls linearly to 0.",
        low=0,
        high=10,
        group="learning",
    )
    hidden: int = setting(16, "Hidden units of the policy.", low=1, high=1024, group="learning")
    population: int = setting(
        0,
        "Candidates of one generation of evolution; 0 chooses by the number of parameters.",
        low=0,
        high=10_000,
        group="learning",
    )
    val_eval_freq: int = setting(
        25,
        "Updates between measurements on validation; the run keeps the policy that is best there.",
        low=1,
        high=100_000,
        group="learning",
    )
    encoding: str = setting(
        "words",
        "What encodes an agent's output, beside the scorer's log-odds of it. words: hashed words and character trigrams; "
        "sentences: the sentence encoder that is installed with Routerweb, 0.5 to 4 ms per output.",
        choices=("words", "sentences"),
        group="learning",
    )
    max_steps: int = setting(
        8,
        "Most steps of an episode; it is also the φ in the logarithm of the paper's reward.",
        low=1,
        high=1_000,
        group="episode",
    )
    repeats: int = setting(2, "How often an episode may call one agent.", low=1, high=1_000, group="episode")
    budget: float = setting(
        0.0,
        "Budget of an episode during learning, in the pool's currency; 0 is none.",
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
        "For ops who train an orchestrator: every setting of such a run, its default and its meaning. Set them with",
        "`manage.py train --kind orchestrator`, in the form under *Runs → Train a model → Orchestrator*, or in `config` of",
        "`POST /api/runs/` with `kind` `orchestrator`; see [orchestration.md](orchestration.md). Settings that you leave out keep",
        "their default.",
        "",
        "This page is made from the code: `python -m orchestration_app.engine.orchestrator_config > docs/orchestrator-settings.md`.",
    ]
    return "\n".join(page + tables(OrchestratorConfig, ORCHESTRATOR_GROUPS)) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
