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
        "What reads the text. linear: word and character n-grams with a linear model; sequence: an encoder that reads "
        "the words in order, with attention per agent; stack: both, weighed on cross-fitted scores; embedding: a local "
        "sentence-embedding model; auto: the best of these by cross-validation and on the validation queries, of linear with the "
        "agents' descriptions as training rows, and of what the sentence encoder adds (see sentences); sequence and stack are "
        "tried from 60 training queries on; fast: as auto, but without the sentence encoder, for a fraction of the time of a route. "
        "The model of auto says how many queries fast would get right.",
        choices=("auto", "fast", "linear", "sequence", "stack", "embedding"),
        group="scorer",
    )
    sentences: bool = setting(
        True,
        "Let encoder: auto try the multilingual sentence encoder that is installed with Routerweb, in pools below 20,000 training "
        "queries. A model that uses it takes 150 to 230 MB more in each process that serves it, and 0.5 to 4 ms more a route.",
        group="scorer",
    )
    unlabeled: bool = setting(
        True,
        "Let encoder: auto learn from texts without labels too: a fast scorer learns what a slow one, fitted on the labels, makes of "
        "them. They are never counted as gold, and the model says what they brought.",
        group="scorer",
    )
    tidy: bool = setting(
        True,
        "Read texts without greeting, sign-off and quoted mail, and capitals as small letters. Correct typing slips towards words of "
        "the training queries where validation shows that it helps; never change a word that exists. Not with encoder: embedding.",
        group="scorer",
    )
    embedding_path: str = setting(
        "",
        "Folder of a local sentence-embedding model, for encoder: embedding; on a server the name of one in TEACHERS_DIR.",
        group="scorer",
    )
    teacher: str = setting(
        "",
        "A sentence encoder that is fine-tuned on the labels and joins encoder: auto, in pools below 20,000 training queries: the "
        "folder of one in the format of sentence-transformers, on a server the name of one in TEACHERS_DIR, or a name of the hub "
        "where there is internet. "
        "It takes minutes to train, some 2 to 5 ms a route where it serves, and requirements-teacher.txt.",
        group="scorer",
    )
    teacher_serves: bool = setting(
        True,
        "Let the teacher join what is served, where validation says that it helps. Off, it teaches the fast scorer by texts without "
        "labels (see unlabeled) and serves nothing.",
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
        "Folds of the cross-fitting; 0 leaves it to the scorer (ten for a linear one, three for a neural one) and fits it "
        "once, a tenth held out, from 20,000 training queries on.",
        low=0,
        high=50,
        group="scorer",
    )
    max_features: int = setting(
        0,
        "Most frequent word and character n-grams kept by the linear scorer, each; 0 keeps 20 million divided by the "
        "number of agents, which is all of them but in large pools.",
        low=0,
        high=5_000_000,
        group="scorer",
    )
    baselines: bool = setting(True, "Measure the baselines on the same split beside the router.", group="run")
    judging_folds: int = setting(
        5,
        "Where fewer than 100 test queries stand among 40 to 500 labeled ones, judge router and baselines by so many folds of all of "
        "them as well, which takes as many times as long; 0 does not.",
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
        "chosen on validation and out of fold, the baseline that classifier names as a model.",
        choices=("scores", "tfidf", "classifier"),
    )
    classifier: str = setting(
        "svm",
        "Which classifier recipe classifier takes: svm, a linear SVM at strength 1; logreg, logistic regression at 10.",
        choices=("svm", "logreg"),
        group="scorer",
    )
    reward_mode: str = setting(
        "shaped",
        "shaped: the change of Jaccard at every step (potential-based); jaccard: Jaccard at the end and a flat cost a "
        "step; log: Jaccard at the end and a step cost of step_cost * log(1 + t/T); stochastic: 1 at the end if one "
        "required agent, drawn at random, was selected, and a flat cost a step.",
        choices=("shaped", "jaccard", "log", "stochastic"),
    )
    step_cost: float = setting(
        0.05, "Cost of a step in the reward modes jaccard, stochastic and log; shaped has none.", low=0, high=1
    )
    gamma: float = setting(1.0, "Discount. At 1 the shaped reward's return is the final Jaccard itself.", low=0, high=1)
    total_steps: int = setting(
        3000,
        "Gradient steps of recipe scores; environment steps of recipe tfidf (200,000 as published).",
        low=1,
        high=10_000_000,
    )
    batch_size: int = setting(64, "States in one gradient step.", low=1, high=65_536)
    learning_rate: float = setting(0.003, "Learning rate of Adam at its peak.", low=1e-6, high=1)
    hidden_layers: tuple[int, ...] = setting((32, 32), "Widths of the hidden layers.", low=1, high=4096)
    epsilon_start: float = setting(1.0, "Share of random actions at the start.", low=0, high=1)
    epsilon_end: float = setting(0.05, "Share of random actions after the decay.", low=0, high=1)
    epsilon_decay_steps: int = setting(
        1500, "Steps over which the share of random actions falls in a line.", low=1, high=10_000_000
    )
    none_share: float = setting(
        0.15,
        "Queries that need no agent are drawn at least this often, where the training data holds any: labeled "
        "collections hold fewer of them than live traffic does. 0 draws all queries alike.",
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
        "Hard update: steps between copies of the online network to the target network, where tau is 0.",
        low=1,
        high=1_000_000,
    )
    replay_buffer_size: int = setting(
        50_000, "Transitions that the replay buffer of recipe tfidf keeps.", low=1, high=5_000_000
    )
    min_replay_size: int = setting(
        1000, "Transitions gathered before recipe tfidf takes its first gradient step.", low=1, high=5_000_000
    )
    tfidf_max_features: int = setting(
        5000, "Size of the TF-IDF vocabulary in the state of recipe tfidf.", low=1, high=1_000_000
    )
    action_masking: bool = setting(
        True, "Selected agents cannot be selected again. Off is possible in recipe tfidf only."
    )
    val_eval_freq: int = setting(200, "Steps between measurements on the validation split.", low=1, high=1_000_000)
    patience: int = setting(
        3,
        "Recipe scores stops after so many measurements on the validation split without a new best, from 1,000 steps on; 0 goes on "
        "to total_steps.",
        low=0,
        high=1_000_000,
    )
    save_best: bool = setting(True, "Keep the network that was best on validation, not the last one.")
    max_steps_per_episode: int = setting(20, "Most steps in one episode of recipe tfidf.", low=1, high=10_000)
    min_agents: int = setting(
        0,
        "STOP is masked until this many agents are selected; above 0 the router never answers none.",
        low=0,
        high=10_000,
        group="answer",
    )
    max_agents: int = setting(0, "Most agents in an answer; 0 is no limit.", low=0, high=10_000, group="answer")
    decision: str = setting(
        "auto",
        "What turns the scores into a set, in recipe scores. ddqn: the Double DQN; bayes: the set of highest expected worth, were "
        "agents independent; threshold: one threshold for all agents; auto: bayes, unless the threshold or the Double DQN is surely "
        "ahead on validation. Below 100 validation queries auto learns no Double DQN.",
        choices=("auto", "ddqn", "bayes", "threshold"),
        group="answer",
    )
    goal: str = setting(
        PRIMARY,
        f"What the policy learns to do well, and where it works. {', '.join(GOAL_MEASURES)}: the mean of that measure; "
        "value: queries whose "
        "agents are all there, each worth query_value, less what the agents cost; recall: learn jaccard, then reach recall_floor on "
        "validation with as few agents as possible; size: learn jaccard, then at most average_agents a query on validation.",
        choices=(*GOALS, "recall", "size"),
        group="answer",
    )
    query_value: float = setting(
        1.0,
        "What a query is worth whose required agents are all in the set, in the money of the agents' costs, for goal: value.",
        low=1e-9,
        high=1e12,
        group="answer",
    )
    recall_floor: float = setting(
        0.95, "Mean recall to reach on validation, for goal: recall.", low=0, high=1, group="answer"
    )
    average_agents: float = setting(
        2.0, "Mean number of agents a query on validation, for goal: size.", low=0, high=10_000, group="answer"
    )
    abstain_alpha: float = setting(
        0.0,
        "Conformal abstention: the share of answerable queries that may be abstained from, held with a sureness of 95 %; 0 "
        "never abstains.",
        low=0,
        high=0.5,
        group="answer",
    )
    most_wrong: float = setting(
        0.0,
        "A promise: of the answers that are given, at most this share is wrong, held with a sureness of 95 %; the other queries go to "
        "a person (abstained). In a pool of up to 2,000 labels it is made on the answers of five folds; of a larger one 3 of 10 "
        "training queries are set aside for it. Where these are too few the scorecard says how many it takes. 0 promises nothing.",
        low=0,
        high=0.5,
        group="answer",
    )
    wrong: str = setting(
        "exact",
        "What most_wrong counts as wrong. exact: an answer that is not the whole needed set; jaccard: the mean of 1 less Jaccard.",
        choices=("exact", "jaccard"),
        group="answer",
    )
    strangers: float = setting(
        0.5,
        "Abstain from naming an agent where it would be likelier that nobody is needed, if this share of queries were outside the "
        "pool's scope; 0 never does. In pools with 20 training and 10 validation queries that need nobody.",
        low=0,
        high=0.95,
        group="answer",
    )
    double_targets: bool = setting(
        True,
        "Ablation: the target network judges what the online network chooses. Off takes the target network's own maximum.",
        group="ablation",
    )
    pairs: bool = setting(
        True,
        "Ablation: show the network which agents go together or instead of each other, where out-of-fold rows say so.",
        group="ablation",
    )
    all_actions: bool = setting(
        True, "Ablation: learn every agent's value in each state, not only the taken one's.", group="ablation"
    )
    cross_fitting: bool = setting(
        True,
        "Ablation: train the network on out-of-fold scores, not on the scorer's own training rows.",
        group="ablation",
    )
    label_free: bool = setting(
        True,
        "Ablation: draw training states without the label. Off draws subsets of the required set.",
        group="ablation",
    )
    shared_network: bool = setting(
        True,
        "Ablation: one network shared by all agents with pooled context. Off is one plain network.",
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
            raise ConfigError("teacher", "joins encoder: auto of recipe: scores only")
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
    "ablation": "To switch parts off, for comparison",
}


def reference() -> str:
    """The page of the documentation that lists every setting, in Markdown."""
    page = [
        "# The settings of a run",
        "",
        "Every setting of a training run: as `--set NAME=VALUE` of `manage.py train`, in a YAML file for `--config`, and as `config`",
        "of `POST /api/runs/`. What is left out has its default. The form under *Runs → Train a model* offers two routers, full and",
        "fast, and eleven settings; a run that is trained again keeps its others.",
        "",
        "This page is made from the code: `python -m training_app.engine.config > docs/run-settings.md`.",
    ]
    page += tables(Config, GROUPS)
    page += [
        "",
        "# Measures and goals",
        "",
        "What scorecards, benchmarks and pages measure, each a mean over queries, and which measures a policy can learn to maximise",
        "(`goal`, which also takes `value`, `recall` and `size`).",
        "",
        measures.reference(),
    ]
    return "\n".join(page) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
