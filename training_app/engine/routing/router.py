"""The router that serves: an artifact in memory, from text to the set of agents. numpy only."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from training_app.engine.data import artifact, conversations
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.artifact import Artifact, ArtifactError
from training_app.engine.data.examples import Agent
from training_app.engine.data.one_thread import use_one_blas_thread
from training_app.engine.reading.conversing.continuing import DEFAULT, Continuing, last_turn
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.reading.needed import Needed, score
from training_app.engine.reading.precedents import Likeness, PrecedentMargins
from training_app.engine.reading.scorers import READ_MEANING, FittedScorer, Platt, load_scorer
from training_app.engine.reading.tidying.tidied import TidiedMargins
from training_app.engine.reading.unfamiliar import Unfamiliar
from training_app.engine.routing.allowed import Allowed, BadRules, Reason, Rules, allowed_for, left_out, walk
from training_app.engine.routing.bayes import BayesPolicy
from training_app.engine.routing.calibration import Calibration
from training_app.engine.routing.policy import Policy, SharedPolicy, greedy, load_policy
from training_app.engine.routing.routes import STICKY, Continued, Explanation, Route, StopReason
from training_app.engine.routing.threshold import ThresholdPolicy

#: Texts whose log-odds a router keeps, and numbers of them all together: 4 MB at most.
REMEMBERED, REMEMBERED_NUMBERS = 2_000, 1_000_000

#: A description-only answer of less confidence says that it does not know: its set is likelier wrong than right by far.
UNSURE = 0.3
SURE_NOBODY = 0.5  # the least confidence of a "none of these" to a text in a language that no training query is in


class Router:
    """A trained router. Immutable and safe to share between threads; make one with `Router.load`."""

    def __init__(
        self,
        agents: Sequence[Agent],
        scorer: FittedScorer,
        platt: Platt,
        policy: Policy,
        calibration: Calibration,
        *,
        features: FittedScorer | None = None,
        needed: Needed | None = None,
        unfamiliar: Unfamiliar | None = None,
        min_agents: int = 0,
        max_agents: int = 0,
        version_info: dict[str, Any] | None = None,
        training: dict[str, Any] | None = None,
        rules: Rules | None = None,
        continuing: Continuing = DEFAULT,
    ) -> None:
        """`features`, where given, is what the policy sees instead of the scorer's log-odds (raw TF-IDF). `needed`, where
        given, adds to the confidence how likely a text needs any agent; `unfamiliar`, where given, tells and reads texts in a language
        that no training query is in. `training` are the settings of the run. `rules` say which sets are allowed, where a route is
        given no others. `continuing` says whether the agents of the turn before go on."""
        self.agents = tuple(agents)
        self.version_info, self.training = dict(version_info or {}), dict(training or {})
        self.calibration, self.policy, self.scorer = calibration, policy, scorer
        self._platt, self._features, self._needed = platt, features, needed
        if needed is not None and isinstance(needed.nearness, Likeness):
            for child in getattr(scorer, "children", ()):
                if isinstance(child, PrecedentMargins):
                    needed.nearness.join(child)
        self._min, self._max = min_agents, max_agents
        self.rules = rules or Rules()
        self.continuing = continuing
        self._unfamiliar = unfamiliar
        self._strangers = (
            None
            if unfamiliar is None
            else self.of_descriptions(
                unfamiliar.descriptions, min_agents, max_agents, unsure=max(UNSURE, calibration.abstain_below)
            )
        )
        self._ids = [agent.id for agent in self.agents]
        self._place = {agent.id: i for i, agent in enumerate(self.agents)}
        self._every = np.ones(len(self.agents), np.bool_)
        self._nothing = np.zeros((1, 0), np.float32)
        self._remembered: dict[bytes, tuple[FloatArray, float]] = {}
        self._room = min(REMEMBERED, REMEMBERED_NUMBERS // max(1, len(self.agents)))
        #: The policy, where it decides one query faster than a batch of one.
        self._walks = policy if isinstance(policy, (SharedPolicy, BayesPolicy)) else None

    @classmethod
    def load(cls, source: str | Path | bytes) -> Router:
        """From the path of an artifact (directory or zip) or its bytes. Raises ArtifactError with the reason."""
        return cls.from_artifact(artifact.read(source))

    @classmethod
    def from_artifact(cls, parts: Artifact) -> Router:
        """From parts already read. Raises ArtifactError where they do not fit together. BLAS then uses one thread in this process."""
        use_one_blas_thread()
        try:
            config = parts.config
            agents = tuple(
                Agent(
                    int(a["id"]),
                    str(a["name"]),
                    str(a.get("description", "")),
                    code=str(a.get("code", "")),
                    cost=float(a.get("cost", 0.0)),
                    key=str(a.get("key", "")),
                )
                for a in config["agents"]
            )
            scorer = _part("scorer", config["scorer"], parts)
            features = _part("features", config["features"], parts) if config.get("features") else None
            platt = Platt(parts.tensors["platt.scale"], parts.tensors["platt.shift"])
            policy = load_policy(config["policy"], _under("policy", parts))
            calibration = Calibration.from_config(config["calibration"])
            router = cls(
                agents,
                scorer,
                platt,
                policy,
                calibration,
                features=features,
                needed=Needed.from_parts(config["needed"], _under("needed", parts)) if config.get("needed") else None,
                unfamiliar=Unfamiliar.from_parts(config["unfamiliar"], _under("unfamiliar", parts))
                if config.get("unfamiliar")
                else None,
                min_agents=int(config.get("min_agents", 0)),
                max_agents=int(config.get("max_agents", 0)),
                version_info=dict(config.get("version_info", {})),
                training=dict(config.get("training", {})),
                rules=Rules.from_config(config.get("rules") or {}),
                continuing=Continuing.from_config(config.get("continuing")),
            )
            if len(platt.scale) != len(agents) or len(platt.shift) != len(agents):
                raise ValueError(f"{len(agents)} agents have {len(platt.scale)} scales")
            # One query shows whether all shapes fit, before an application's first does.
            router.route_batch(["a query"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, BadRules) as error:
            raise ArtifactError(f"the artifact's parts do not fit together: {error}") from error
        return router

    @classmethod
    def of_descriptions(
        cls, scorer: Descriptions, min_agents: int = 0, max_agents: int = 0, unsure: float = UNSURE
    ) -> Router:
        """The router of agents that nobody labeled queries for, by what they say of themselves. It abstains from answers of less
        confidence than `unsure`."""
        same = Platt(np.ones(len(scorer.agents), np.float32), np.zeros(len(scorer.agents), np.float32))
        calibration = Calibration(1.0, 0.0, scorer.confidence, unsure)
        policy = BayesPolicy(1.0, 0.0)
        return cls(scorer.agents, scorer, same, policy, calibration, min_agents=min_agents, max_agents=max_agents)

    @property
    def reads_meaning(self) -> bool:
        """Whether a route asks the sentence encoder, so that a process which holds this router has it loaded."""
        kinds = (self.scorer.kind, *(child.kind for child in getattr(self.scorer, "children", ())))
        return not READ_MEANING.isdisjoint(kinds) or (self._needed is not None and self._needed.reads_meaning)

    @property
    def limits(self) -> tuple[int, int]:
        """The fewest and the most agents of a set; a most of 0 is no limit."""
        return self._min, self._max

    # ------------------------------------------------------------------------------------------------------ routing

    def _reader(self, text: str) -> Router | None:
        """Who reads a text that this model cannot read; None for all others."""
        strange = self._unfamiliar is not None and self._unfamiliar.strange(text)
        return self._strangers if strange else None

    def _ruled(self, rules: Rules | None) -> Rules:
        return self.rules if rules is None else rules

    def _guessed(self, text: str, route: Route) -> Route:
        """The route of a strange text: a best guess where the sentence encoder does not read its language either, or where it is
        "nobody" and likelier wrong than right."""
        sure = bool(route.agents) or route.confidence >= SURE_NOBODY
        if sure and (self._unfamiliar is None or self._unfamiliar.readable(text)):
            return route
        return replace(route, stop_reason="abstained", abstained=True)

    def _available(self, available: Collection[int] | None) -> BoolArray:
        if available is None:
            return self._every
        mask = np.zeros(len(self._ids), np.bool_)
        for identifier in available:
            place = self._place.get(identifier)
            if place is not None:
                mask[place] = True
        return mask

    def _allowed(self, rules: Rules | None) -> Allowed | None:
        """What is allowed by the rules given, the model's own where there are none; None where every set is."""
        chosen = self.rules if rules is None else rules
        return allowed_for(chosen, self.agents) if chosen else None

    def _read(self, text: str) -> tuple[FloatArray, float]:
        """What the scorer says of one text, float32[A], and how near it is to what was learnt from; of a text that was read not long
        ago what was said then. Texts are known by their hashes: none is kept."""
        if type(text) is not str:  # a turn depends on what was said before it
            return self._read_anew(text)
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        reading = self._remembered.get(key)
        if reading is None:
            reading = self._read_anew(text)
            if len(self._remembered) >= self._room:
                self._remembered = {}  # all is forgotten: no book-keeping on the hot path
            self._remembered[key] = reading
        return reading

    def _read_anew(self, text: str) -> tuple[FloatArray, float]:
        if isinstance(self.scorer, TidiedMargins):  # once for both that read it
            read = self.scorer.tidied((text,))
            log_odds = self.scorer.child.logits(read)
        else:
            read, log_odds = [text], self.scorer.logits((text,))
        return self._platt(log_odds)[0], self._needed.nearness.of(read[0]) if self._needed else 0.0

    def _tidied(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts as the scorer reads them: nearness is that of what was read."""
        return self.scorer.tidied(texts) if isinstance(self.scorer, TidiedMargins) else texts

    def log_odds(self, texts: Sequence[str]) -> FloatArray:
        """The log-odds that the policy acts on, float32[N, A]."""
        return self._platt(self.scorer.logits(texts))

    def route(
        self,
        text: str | Sequence[Any],
        available: Collection[int] | None = None,
        *,
        limits: tuple[int, int] | None = None,
        margin: float | None = None,
        rules: Rules | None = None,
    ) -> Route:
        """The agents that `text` needs, out of those whose ids are `available` (all, where None; ids that this router
        does not know are left out). A conversation comes as a `Turn` or as its messages, {"role", "content"} each, the last one the
        user's. `limits` are the fewest and the most agents, where not the router's own, and `margin` is what an
        agent's value must exceed that of stopping by (the operating point). `rules` say which sets are allowed, instead of the model's
        own. Raises BadConversation for a list that is none."""
        text = text if isinstance(text, str) else conversations.read(text)
        if (reader := self._reader(text)) is not None:
            return self._guessed(text, reader.route(text, available, limits=limits, rules=self._ruled(rules)))
        mask = self._available(available)
        min_agents, max_agents = limits or (self._min, self._max)
        at = self.calibration.margin if margin is None else margin
        x, near = self._read(text)
        allowed = self._allowed(rules)
        if isinstance(self._walks, BayesPolicy):
            order, steps, full = self._walks.walk(
                x, mask, min_agents=min_agents, max_agents=max_agents, margin=at, allowed=allowed
            )
        elif self._walks is not None and allowed is None:
            order, steps, full = self._walks.walk(x, mask, min_agents=min_agents, max_agents=max_agents, margin=at)
        else:
            _, orders, counts = self._greedy([text], x[None], mask[None], (min_agents, max_agents), at, allowed)
            steps = int(counts[0])
            order = [int(a) for a in orders[0] if a >= 0]
            full = bool(max_agents) and len(order) >= max_agents
        needed = self._needed.logit_of(near, x, mask) if self._needed else None
        p, confidence = self.calibration.of_one(x, order, mask, needed or 0.0)
        return self._answer(order, p, mask, confidence, needed, steps, full)

    def above(
        self,
        text: str | Sequence[Any],
        threshold: float,
        available: Collection[int] | None = None,
        *,
        limits: tuple[int, int] | None = None,
        rules: Rules | None = None,
    ) -> Route:
        """The agents whose probability reaches `threshold`, likeliest first, in place of the policy's choice; everything else as
        `route`."""
        text = text if isinstance(text, str) else conversations.read(text)
        if (reader := self._reader(text)) is not None:
            return self._guessed(
                text, reader.above(text, threshold, available, limits=limits, rules=self._ruled(rules))
            )
        mask = self._available(available)
        min_agents, max_agents = limits or (self._min, self._max)
        x, near = self._read(text)
        p = self.calibration.probabilities(x[None])[0].tolist()
        ranked = sorted((a for a, open_ in enumerate(mask.tolist()) if open_), key=lambda a: -p[a])
        order = [a for place, a in enumerate(ranked) if place < min_agents or p[a] >= threshold][: max_agents or None]
        allowed = self._allowed(rules)
        if allowed is not None:
            likely = np.nextafter(np.array(p), 2)  # an agent at the threshold is in
            order = walk(
                lambda _: (likely, threshold), mask, allowed, min_agents=min_agents, max_agents=max_agents, margin=0.0
            )[0]
        needed = self._needed.logit_of(near, x, mask) if self._needed else None
        p, confidence = self.calibration.of_one(x, order, mask, needed or 0.0)
        return self._answer(
            order, p, mask, confidence, needed, len(order) + 1, bool(max_agents) and len(order) == max_agents
        )

    def route_batch(
        self,
        texts: Sequence[str | Sequence[Any]],
        available: Collection[int] | None = None,
        *,
        rules: Rules | None = None,
    ) -> list[Route]:
        """`route` of each text, in their order, to the byte: one after the other, since products of several texts differ in last
        digits from those of one."""
        return [self.route(text, available, rules=rules) for text in texts]

    def continued(
        self,
        text: str | Sequence[Any],
        route: Route,
        available: Collection[int] | None = None,
        *,
        last: Collection[int] | None = None,
        sticky: float = STICKY,
        limits: tuple[int, int] | None = None,
        rules: Rules | None = None,
    ) -> tuple[Route, Continued | None]:
        """The route of a turn once it is known who answered the turn before, and whether they go on; None where nothing came before.

        `route` is what this router chose with the same `available` agents, `limits` and `rules`. `last` are the ids of the agents
        of the turn before; where None, those that the answer before this turn names, else those that this router chooses for the
        user's turn before. They stay where that is right with a probability of at least 1 - `sticky`, they can all be chosen, and
        limits and rules allow them.
        """
        text = text if isinstance(text, str) else conversations.read(text)
        named, question = last_turn(text)
        if last is None and (last := named) is None:
            if question is None:
                return route, None
            last = self.route(question, available, rules=rules).agents
        ids = list(route.scores)
        kept = tuple(agent for agent in route.agents if agent in last)
        kept += tuple(agent for agent in ids if agent in last and agent not in kept)
        same = set(route.agents) == set(last)
        if len(kept) < len(set(last)):  # one of them can no longer be chosen
            return route, Continued(tuple(last), False, 1.0)
        p = np.array([list(route.scores.values())])
        before_it, now = (np.array([[agent in chosen for agent in ids]], np.bool_) for chosen in (last, route.agents))
        likely = float(self.continuing.probabilities(p, before_it, now, [text])[0])
        ruled = self._ruled(rules)
        min_agents, max_agents = limits or self.limits
        barred = (
            len(kept) < min_agents or (max_agents and len(kept) > max_agents) or (ruled and not ruled.permits(kept))
        )
        if same or barred or likely < max(1 - sticky, 1e-9):
            return route, Continued(kept, same, likely if same else 1 - likely)
        sure = float(self.confidences([text], [kept], available)[0])
        away = sure < self.calibration.abstain_below
        reason: StopReason = "abstained" if away else "stop" if kept else "none"
        held = replace(route, agents=kept, confidence=sure, stop_reason=reason, abstained=away)
        return held, Continued(kept, True, likely, held=True)

    def _held(self, texts: Sequence[str], x: FloatArray, selected: BoolArray) -> BoolArray:
        """The sets bool[N, A] with those of turns that stay with the agents of the turn before, as `continued` answers them."""
        turns = [(row, *last_turn(text)) for row, text in enumerate(texts) if conversations.before(text)]
        turns = [turn for turn in turns if turn[1] is not None or turn[2] is not None]
        if not turns:
            return selected
        questions = [question or "" for _row, _named, question in turns]
        asked = self.log_odds(questions)
        last = self._greedy(questions, asked, np.ones(asked.shape, np.bool_), allowed=self._allowed(None))[0]
        for place, (_row, named, _question) in enumerate(turns):
            if named is not None:
                last[place] = [agent in named for agent in self._ids]
        rows = np.array([row for row, _named, _question in turns])
        p = self.calibration.probabilities(x[rows])
        stays = (
            self.continuing.probabilities(p, last, selected[rows], [texts[row] for row in rows.tolist()]) >= 1 - STICKY
        )
        if self.rules:
            stays &= [self.rules.permits([self._ids[a] for a in np.flatnonzero(row)]) for row in last]
        selected = selected.copy()
        selected[rows[stays]] = last[stays]
        return selected

    def selections(self, texts: Sequence[str]) -> BoolArray:
        """The sets of many texts over all agents, bool[N, A], for measurements."""
        x = self.log_odds(texts)
        selected = self._greedy(texts, x, np.ones(x.shape, np.bool_), allowed=self._allowed(None))[0]
        selected = self._held(texts, x, selected)
        for row, text in enumerate(texts):
            if (reader := self._reader(text)) is not None:
                selected[row] = [agent in reader.route(text, rules=self.rules).agents for agent in self._ids]
        return selected

    def confidences(
        self, texts: Sequence[str], sets: Sequence[Collection[int]], available: Collection[int] | None = None
    ) -> FloatArray:
        """The calibrated probability that each text's set is right, float32[N]; ids that this router does not know are left out."""
        x, mask = self.log_odds(texts), self._available(available)
        selected = np.array([[agent in chosen for agent in self._ids] for chosen in sets], np.bool_)
        return self.certainty(texts, x, selected.reshape(x.shape), np.broadcast_to(mask, x.shape))

    def certainty(
        self, texts: Sequence[str], log_odds: FloatArray, selected: BoolArray, available: BoolArray | None = None
    ) -> FloatArray:
        """The calibrated probability that each text's set is right, float32[N]: `log_odds` are this router's, float32[N, A],
        selected and available (all, where None) bool[N, A]."""
        masks = np.ones(log_odds.shape, np.bool_) if available is None else available
        needed = self._needed.logits(self._tidied(texts), log_odds, masks) if self._needed else None
        return self.calibration.confidences(log_odds, selected, masks, needed)

    def strangers(self, texts: Sequence[str], log_odds: FloatArray, selected: BoolArray) -> BoolArray:
        """Which answers are abstained from because the text is like none that needs anybody, bool[N]; as in `certainty`."""
        level = self.calibration.stranger_below
        if self._needed is None or level is None:
            return np.zeros(len(log_odds), np.bool_)
        return np.asarray(selected.any(axis=1) & (self._needed.logits(self._tidied(texts), log_odds) < level))

    def answerable(self, texts: Sequence[str]) -> FloatArray:
        """How likely any agent is needed at all, float32[N], larger for likelier: log-odds where the router has learnt
        them (`needed.py`), else what the agents' log-odds say together."""
        x = self.log_odds(texts)
        logits = self._needed.logits(self._tidied(texts), x) if self._needed else score(x)
        return logits.astype(np.float32)

    def seen(self, texts: Sequence[str]) -> FloatArray:
        """What the policy sees of each text: the log-odds float32[N, A], or features float32[N, D] where it was trained on those."""
        return self.log_odds(texts) if self._features is None else self._features.logits(texts)

    def _greedy(
        self,
        texts: Sequence[str],
        x: FloatArray,
        available: BoolArray,
        limits: tuple[int, int] | None = None,
        margin: float | None = None,
        allowed: Allowed | None = None,
    ) -> tuple[BoolArray, Any, Any]:
        min_agents, max_agents = limits or (self._min, self._max)
        seen = x if self._features is None else self._features.logits(texts)
        nothing = np.zeros((len(x), 0), np.float32)
        return greedy(
            self.policy,
            seen,
            nothing,
            available,
            min_agents=min_agents,
            max_agents=max_agents,
            margin=self.calibration.margin if margin is None else margin,
            allowed=allowed,
        )

    def _answer(
        self,
        order: list[int],
        p: list[float],
        mask: BoolArray,
        confidence: float,
        needed: float | None,
        steps: int,
        full: bool,
    ) -> Route:
        reason: StopReason = "max_agents" if full else "stop" if order else "none"
        abstained = self.calibration.abstained(confidence, bool(order), needed)
        if abstained:
            reason = "abstained"
        ids = self._ids
        pairs = zip(ids, p, strict=True)
        scores = dict(pairs if mask is self._every else compress(pairs, mask.tolist()))
        return Route(tuple([ids[a] for a in order]), scores, confidence, steps, reason, abstained)

    # --------------------------------------------------------------------------------------------------- explaining

    @property
    def rule(self) -> str:
        """What turns scores into a set: "ddqn", whichever network it is, "bayes" or "threshold"."""
        return self.policy.kind if isinstance(self.policy, BayesPolicy | ThresholdPolicy) else "ddqn"

    def explain(
        self,
        text: str | Sequence[Any],
        available: Collection[int] | None = None,
        *,
        limits: tuple[int, int] | None = None,
        margin: float | None = None,
        rules: Rules | None = None,
    ) -> Explanation:
        """The route of `text` with the values of every step and the parts of the text that weighed most; those of an earlier turn of a
        conversation with whose it was."""
        text = text if isinstance(text, str) else conversations.read(text)
        if (reader := self._reader(text)) is not None:
            read = reader.explain(text, available, limits=limits, rules=self._ruled(rules))
            return replace(read, route=self._guessed(text, read.route))
        route = self.route(text, available, limits=limits, margin=margin, rules=rules)
        mask = self._available(available)
        allowed = self._allowed(rules)
        barred: dict[int, Reason] = {}
        if allowed is not None:
            free = self.route(text, available, limits=limits, margin=margin, rules=Rules())
            barred = self._left_out(route, free, mask, allowed)
        x = self.log_odds([text])
        seen = x if self._features is None else self._features.logits([text])
        steps = []
        selected = np.zeros(len(mask), np.bool_)
        walk: list[int | None] = [self._place[a] for a in route.agents]
        if len(walk) < route.steps:
            walk.append(None)
        for chosen in walk:
            q, stop = self.policy.values(seen, self._nothing, selected[None], mask[None])
            open_ = mask & ~selected
            if allowed is not None:
                open_ &= allowed.open(selected[None], mask[None])[0]
            steps.append(
                {
                    "q": {self._ids[a]: float(q[0, a]) for a in np.flatnonzero(open_)},
                    "stop": float(stop[0]) + (self.calibration.margin if margin is None else margin),
                    "masked": [self._ids[a] for a in np.flatnonzero(~open_)],
                    "chosen": None if chosen is None else self._ids[chosen],
                }
            )
            if chosen is not None:
                selected[chosen] = True
        parts = self.scorer.explain(text)
        features = {self._ids[a]: part for a, part in enumerate(parts[: len(self._ids)]) if mask[a]}
        return Explanation(route, steps, features, self.rule, barred)

    def weights(self, text: str | Sequence[Any], top: int) -> dict[int, list[tuple[str, float]]]:
        """Of each agent the parts of a text that weigh most, at most `top`, with either sign: words and pieces of words, as scorers
        name them. Empty where the scorer cannot name any."""
        text = text if isinstance(text, str) else conversations.read(text)
        if (reader := self._reader(text)) is not None:
            return reader.weights(text, top)
        parts = self.scorer.explain(text, top)
        return dict(zip(self._ids, parts, strict=False))

    def _left_out(self, route: Route, free: Route, mask: BoolArray, allowed: Allowed) -> dict[int, Reason]:
        """By id, the agents of the `free` route that rules keep out of `route`, and why."""
        selected = np.zeros(len(mask), np.bool_)
        selected[[self._place[agent] for agent in route.agents]] = True
        return left_out([self._place[agent] for agent in free.agents], selected, mask, allowed)


def _under(prefix: str, parts: Artifact) -> dict[str, Any]:
    start = prefix + "."
    return {name.removeprefix(start): t for name, t in parts.tensors.items() if name.startswith(start)}


def _part(name: str, config: dict[str, Any], parts: Artifact) -> FittedScorer:
    settings = {**config.get("settings", {}), **parts.vocabulary.get(name, {})}
    return load_scorer(str(config["kind"]), settings, _under(name, parts))


def scorer_parts(name: str, scorer: FittedScorer) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(entry of config.json, entry of vocabulary.json, tensors) of a scorer that an artifact holds as `name`: long
    lists of texts go to the vocabulary."""
    settings: dict[str, Any] = {}
    vocabulary: dict[str, Any] = {}
    for key, value in scorer.config().items():
        long = isinstance(value, list) and len(value) > 16 and isinstance(value[0], str)
        (vocabulary if long or isinstance(value, dict) else settings)[key] = value
    tensors = {f"{name}.{key}": tensor for key, tensor in scorer.tensors().items()}
    return {"kind": scorer.kind, "settings": settings}, vocabulary, tensors
