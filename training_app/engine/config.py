"""Every setting of a training run, with its documentation, default, bounds and choices.

The form in the browser, the YAML file, `--set key=value` and the table in the documentation are all made from the
fields of `Config`, so a setting exists in one place. Names are the field's own; where `ddqn-router` has a setting, it
has the same name here. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from training_app.engine import measures
from training_app.engine.measures import GOAL_MEASURES, GOALS, PRIMARY
from training_app.engine.settings import ConfigError, Settings, setting, tables

__all__ = ("PUBLISHED", "Config", "ConfigError", "reference")


@dataclass(frozen=True)
class Config(Settings):
    """The settings of one training run. Build it with `from_mapping`, which checks them."""

    seed: int = setting(
        0,
        "Seed of every random draw: the same seed gives the same model on the same machine.",
        low=0,
        high=2**31 - 1,
        group="run",
    )
    encoder: str = setting(
        "auto",
        "What reads the text. linear: word and character n-grams with a linear model; sequence: an encoder that reads the "
        "words in order, with attention per agent; stack: both, weighed on cross-fitted scores; embedding: a local "
        "sentence-embedding model; auto: the best of these by cross-validation and on the validation queries, including "
        "linear with the agents' descriptions as training rows, and the sentence encoder (see sentences); auto tries "
        "sequence and stack from 60 training queries on; fast: like auto, but without the sentence encoder, so that a "
        "route takes a fraction of the time. A model of auto says how many queries fast would get right.",
        choices=("auto", "fast", "linear", "sequence", "stack", "embedding"),
        group="scorer",
    )
    sentences: bool = setting(
        True,
        "Let encoder: auto try the multilingual sentence encoder that is installed with Routerweb, in pools below 20,000 "
        "training queries. A model that uses it needs 150 to 230 MB more in each process that serves it, and 0.5 to 4 ms "
        "more per route.",
        group="scorer",
    )
    unlabeled: bool = setting(
        True,
        "Let encoder: auto also learn from texts without labels: a slow scorer, fitted on the labels, predicts them, and "
        "a fast scorer learns from these predictions. The texts never count as gold, and the model says what they "
        "brought.",
        group="scorer",
    )
    tidy: bool = setting(
        True,
        "Read texts without greeting, sign-off and quoted mail, and read capitals as small letters. Correct typing slips "
        "towards words of the training queries if validation shows that it helps; never change a word that exists. Not "
        "with encoder: embedding.",
        group="scorer",
    )
    embedding_path: str = setting(
        "",
        "Folder of a local sentence-embedding model, for encoder: embedding. On a server, the name of a folder in "
        "TEACHERS_DIR.",
        group="scorer",
    )
    teacher: str = setting(
        "",
        "A sentence encoder that is fine-tuned on the labels and joins encoder: auto, in pools below 20,000 training "
        "queries. minilm is the English one of requirements-encoder.txt. Or give a folder in the format of "
        "sentence-transformers (on a server, the name of one in TEACHERS_DIR), or a name of the hub if there is internet "
        "access. It takes minutes to train, adds 2 to 5 ms per route if it serves, and needs requirements-teacher.txt.",
        group="scorer",
    )
    teacher_serves: bool = setting(
        True,
        "Let the teacher serve if validation says that it helps. If off, it only teaches the fast scorer, by texts "
        "without labels (see unlabeled).",
        group="scorer",
    )
    svm_c: float = setting(
        0.0,
        "Inverse strength of the regularisation of the linear scorer, on n-grams of 1-2 words and 2-5 characters; "
        "0 chooses strength and n-grams by cross-validation on the training rows.",
        low=0,
        high=1e4,
        group="scorer",
    )
    folds: int = setting(
        0,
        "Folds of the cross-fitting. 0 leaves it to the scorer: ten for a linear one, three for a neural one; from 20,000 "
        "training queries on, one fit with a tenth held out.",
        low=0,
        high=50,
        group="scorer",
    )
    max_features: int = setting(
        0,
        "How many of the most frequent word n-grams, and of the character n-grams, the linear scorer keeps. 0 keeps 20 "
        "million divided by the number of agents, which is all of them except in large pools.",
        low=0,
        high=5_000_000,
        group="scorer",
    )
    baselines: bool = setting(True, "Measure the baselines on the same split beside the router.", group="run")
    judging_folds: int = setting(
        5,
        "If there are 40 to 500 labeled queries and fewer than 100 of them are test queries, also judge router and "
        "baselines by this many folds of all labeled queries, which takes that many times as long; 0 does not. Models judged in "
        "different numbers of folds are not compared by them: with fewer, each answer comes from a router that learned from less.",
        low=0,
        high=20,
        group="run",
    )
    llm_queries: int = setting(
        0,
        "Ask the configured LLM about this many queries of the measured split and show it beside the router; 0 asks none. "
        "It costs money, and the texts go to its server.",
        low=0,
        high=100_000,
        group="run",
    )

    recipe: str = setting(
        "scores",
        "What the network sees and how it learns. scores: cross-fitted log-odds of the scorer, all actions at once, "
        "states drawn without the label; tfidf: raw TF-IDF beside the mask of selected agents, epsilon-greedy episodes "
        "and a uniform replay buffer, as published; classifier: no network, each agent by its own score and one threshold "
        "that is chosen on validation and out-of-fold rows; this is the baseline of the setting classifier, as a model.",
        choices=("scores", "tfidf", "classifier"),
    )
    classifier: str = setting(
        "svm",
        "Which classifier recipe: classifier uses. svm: a linear SVM at strength 1; logreg: logistic regression at 10.",
        choices=("svm", "logreg"),
        group="scorer",
    )
    reward_mode: str = setting(
        "shaped",
        "shaped: the change of Jaccard at every step (potential-based); jaccard: Jaccard at the end and a flat cost per "
        "step; log: Jaccard at the end and a step cost of step_cost * log(1 + t/T); stochastic: 1 at the end if one "
        "required agent, drawn at random, was selected, and a flat cost per step.",
        choices=("shaped", "jaccard", "log", "stochastic"),
    )
    step_cost: float = setting(
        0.05, "Cost of a step in the reward modes jaccard, stochastic and log; shaped has none.", low=0, high=1
    )
    gamma: float = setting(1.0, "Discount. At 1 the shaped reward's return is the final Jaccard itself.", low=0, high=1)
    total_steps: int = setting(
        3000,
        "Gradient steps of recipe: scores; environment steps of recipe: tfidf (200,000 as published).",
        low=1,
        high=10_000_000,
    )
    batch_size: int = setting(64, "States in one gradient step.", low=1, high=65_536)
    learning_rate: float = setting(0.003, "Learning rate of Adam at its peak.", low=1e-6, high=1)
    hidden_layers: tuple[int, ...] = setting((32, 32), "Widths of the hidden layers.", low=1, high=4096)
    epsilon_start: float = setting(1.0, "Share of random actions at the start.", low=0, high=1)
    epsilon_end: float = setting(0.05, "Share of random actions after the decay.", low=0, high=1)
    epsilon_decay_steps: int = setting(
        1500, "Steps over which the share of random actions falls linearly.", low=1, high=10_000_000
    )
    none_share: float = setting(
        0.15,
        "Queries that need no agent are drawn at least this often, if the training data has any: labeled collections "
        "contain fewer of them than live traffic does. 0 draws all queries equally.",
        low=0,
        high=0.9,
    )
    tau: float = setting(
        0.01,
        "Soft update: share of the online network that joins the target network each step; 0 uses "
        "target_update_freq instead.",
        low=0,
        high=1,
    )
    target_update_freq: int = setting(
        500,
        "Hard update: steps between copies of the online network to the target network, if tau is 0.",
        low=1,
        high=1_000_000,
    )
    replay_buffer_size: int = setting(
        50_000, "Transitions that the replay buffer of recipe: tfidf keeps.", low=1, high=5_000_000
    )
    min_replay_size: int = setting(
        1000, "Transitions gathered before the first gradient step of recipe: tfidf.", low=1, high=5_000_000
    )
    tfidf_max_features: int = setting(
        5000, "Size of the TF-IDF vocabulary in the state of recipe: tfidf.", low=1, high=1_000_000
    )
    action_masking: bool = setting(
        True, "Selected agents cannot be selected again. Only recipe: tfidf can turn it off."
    )
    val_eval_freq: int = setting(200, "Steps between measurements on the validation split.", low=1, high=1_000_000)
    patience: int = setting(
        3,
        "Recipe: scores stops after this many measurements on the validation split without a new best, from 1,000 steps "
        "on; 0 continues to total_steps.",
        low=0,
        high=1_000_000,
    )
    save_best: bool = setting(True, "Keep the network that was best on validation, not the last one.")
    max_steps_per_episode: int = setting(20, "Most steps in one episode of recipe: tfidf.", low=1, high=10_000)
    min_agents: int = setting(
        0,
        'STOP is masked until this many agents are selected; above 0 the router never answers "none of these".',
        low=0,
        high=10_000,
        group="answer",
    )
    max_agents: int = setting(0, "Most agents in an answer; 0 is no limit.", low=0, high=10_000, group="answer")
    decision: str = setting(
        "auto",
        "What turns the scores into a set, in recipe: scores. ddqn: the Double DQN; bayes: the set of the highest "
        "expected utility, as if agents were independent; threshold: one threshold for all agents; auto: bayes, unless "
        "the threshold or the Double DQN is reliably ahead on validation. Below 100 validation queries auto learns no "
        "Double DQN.",
        choices=("auto", "ddqn", "bayes", "threshold"),
        group="answer",
    )
    goal: str = setting(
        PRIMARY,
        f"What the policy learns to maximise, and its operating point. {', '.join(GOAL_MEASURES)}: the mean of that measure; "
        "value: the number of queries whose required agents are all in the set, each worth query_value, minus the cost of the "
        "agents; recall: learn jaccard, then reach recall_floor on validation with as few agents as possible; size: learn "
        "jaccard, then choose at most average_agents per query on validation.",
        choices=(*GOALS, "recall", "size"),
        group="answer",
    )
    query_value: float = setting(
        1.0,
        "For goal: value, what a query is worth if all its required agents are in the set, in the currency of the agents' "
        "costs.",
        low=1e-9,
        high=1e12,
        group="answer",
    )
    recall_floor: float = setting(
        0.95, "Mean recall to reach on validation, for goal: recall.", low=0, high=1, group="answer"
    )
    average_agents: float = setting(
        2.0, "Mean number of agents per query on validation, for goal: size.", low=0, high=10_000, group="answer"
    )
    abstain_alpha: float = setting(
        0.0,
        "Conformal abstention: the largest share of answerable queries that the router may abstain from, with 95 % "
        "certainty; 0 never abstains.",
        low=0,
        high=0.5,
        group="answer",
    )
    most_wrong: float = setting(
        0.0,
        "A promise: at most this share of the given answers is wrong, with 95 % certainty; the other queries go to a "
        "person (abstained). In a pool of up to 2,000 labels the promise uses the answers of five folds; in a larger pool "
        "it sets aside 3 of 10 training queries. If these are too few, the scorecard says how many it takes. 0 promises "
        "nothing.",
        low=0,
        high=0.5,
        group="answer",
    )
    wrong: str = setting(
        "exact",
        "What most_wrong counts as wrong. exact: an answer that is not exactly the needed set; jaccard: the mean of 1 "
        "minus Jaccard.",
        choices=("exact", "jaccard"),
        group="answer",
    )
    strangers: float = setting(
        0.5,
        "Abstain from naming an agent if it would be likelier that nobody is needed, supposing that this share of queries "
        "is outside the pool's scope; 0 never does. In pools with 20 training and 10 validation queries that need nobody.",
        low=0,
        high=0.95,
        group="answer",
    )
    double_targets: bool = setting(
        True,
        "Ablation: the target network judges the choice of the online network. If off, the target network's own maximum "
        "counts.",
        group="ablation",
    )
    pairs: bool = setting(
        True,
        "Ablation: show the network which agents go together or instead of each other, if out-of-fold rows say so.",
        group="ablation",
    )
    all_actions: bool = setting(
        True, "Ablation: learn every agent's value in each state, not only that of the selected one.", group="ablation"
    )
    cross_fitting: bool = setting(
        True,
        "Ablation: train the network on out-of-fold scores, not on the scorer's own training rows.",
        group="ablation",
    )
    label_free: bool = setting(
        True,
        "Ablation: draw training states without the label. If off, draw subsets of the required set.",
        group="ablation",
    )
    shared_network: bool = setting(
        True,
        "Ablation: one network shared by all agents with pooled context. If off, one plain network.",
        group="ablation",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_agents and self.max_agents < self.min_agents:
            raise ConfigError("max_agents", f"{self.max_agents} is below min_agents, {self.min_agents}")
        if self.min_replay_size > self.replay_buffer_size:
            raise ConfigError("min_replay_size", f"{self.min_replay_size} is above replay_buffer_size")
        if self.reward_mode == "shaped" and not self.gamma:
            raise ConfigError("gamma", "0 takes the shaped reward's own goal away: above 0, or another reward_mode")
        if self.folds == 1:
            raise ConfigError("folds", "1 fold leaves nothing to fit on: 0 for the scorer's own, or 2 and more")
        if self.judging_folds == 1:
            raise ConfigError("judging_folds", "1 fold leaves nothing to learn from: 0 for none, or 2 and more")
        if self.encoder == "embedding" and not self.embedding_path:
            raise ConfigError("embedding_path", "encoder: embedding needs the folder of a model")
        if self.teacher and (self.encoder != "auto" or self.recipe != "scores"):
            raise ConfigError("teacher", "joins encoder: auto of recipe: scores only, so not the fast router")
        if not self.action_masking and self.recipe != "tfidf":
            raise ConfigError("action_masking", "can be switched off in recipe: tfidf only")


#: Settings with which the published experiment and `ddqn-router` 0.2.0 train.
PUBLISHED: dict[str, Any] = {
    "recipe": "tfidf",
    "reward_mode": "jaccard",
    "step_cost": 0.05,
    "gamma": 0.99,
    "total_steps": 200_000,
    "batch_size": 64,
    "learning_rate": 0.001,
    "hidden_layers": (256, 128),
    "epsilon_start": 1.0,
    "epsilon_end": 0.05,
    "epsilon_decay_steps": 100_000,
    "tau": 0.0,
    "target_update_freq": 500,
    "replay_buffer_size": 50_000,
    "min_replay_size": 1000,
    "tfidf_max_features": 5000,
    "action_masking": True,
    "val_eval_freq": 5000,
    "save_best": True,
    "max_steps_per_episode": 20,
    "seed": 42,
}


# ---------------------------------------------------------------------------------------------------- the reference

GROUPS = {
    "run": "The run",
    "scorer": "How text becomes scores",
    "policy": "What the policy learns",
    "answer": "The answer",
    "ablation": "Turn parts off, for comparison",
}


def reference() -> str:
    """The page of the documentation that lists every setting, in Markdown."""
    page = [
        "# The settings of a run",
        "",
        "For ops and data scientists who tune a training run: every setting, its default and its meaning. Set them with",
        "`--set NAME=VALUE` of `manage.py train`, in a YAML file for `--config`, or in `config` of `POST /api/runs/`. Settings",
        "that you leave out keep their default. The form under *Runs → Train a model* offers two routers, full and fast, and",
        "eleven settings; if you train a run again, it keeps its other settings.",
        "",
        "This page is made from the code: `python -m training_app.engine.config > docs/run-settings.md`.",
    ]
    page += tables(Config, GROUPS)
    page += [
        "",
        "# Measures and goals",
        "",
        "What scorecards, benchmarks and pages measure. Each measure is a mean over queries. A policy can learn to maximise those",
        "marked as a goal (`goal`, which also accepts `value`, `recall` and `size`).",
        "",
        measures.reference(),
    ]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
