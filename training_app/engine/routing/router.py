"""The router that serves: an artifact in memory, from text to the set of agents. numpy only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
from training_app.engine.reading.conversing.continuing import DEFAULT, Continuing
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.reading.scorers import Platt
from training_app.engine.reading.unfamiliar import Unfamiliar
from training_app.engine.routing import holding
from training_app.engine.routing.allowed import Allowed, BadRules, Reason, Rules, SetLimits, allowed_for, left_out, walk
from training_app.engine.routing.bayes import BayesPolicy, Needs
from training_app.engine.routing.calibration import Calibration
from training_app.engine.routing.policy import Policy, load_policy
from training_app.engine.routing.routes import Answers, Explanation, Route, StopReason
from training_app.engine.routing.text_reader import TextReader
from training_app.engine.routing.threshold import ThresholdPolicy
from training_app.engine.routing.walking import Walk, greedy, of_one

#: A description-only answer of less confidence says that it does not know: its set is likelier wrong than right by far.
UNSURE = 0.3
#: Where a smaller share of the training queries needs several agents, an agent that no model knows is answered alone.
SINGLE = 0.1
SURE_NOBODY = 0.5  # the least confidence of a "none of these" to a text in a language that no training query is in


class Router:
    """A trained router. Immutable and safe to share between threads; make one with `Router.load`."""

    def __init__(
        self,
        agents: Sequence[Agent],
        reader: TextReader,
        policy: Policy,
        calibration: Calibration,
        *,
        unfamiliar: Unfamiliar | None = None,
        limits: tuple[int, int] = (0, 0),
        rules: Rules | None = None,
        continuing: Continuing = DEFAULT,
        several: float = 1.0,
    ) -> None:
        """`unfamiliar`, where given, tells and reads texts in a language that no training query is in. `limits` are the fewest and the
        most agents of a set (a most of 0 is no limit) and `rules` say which sets are allowed, where a route is given no others.
        `continuing` says whether the agents of the turn before go on; `several` is the share of the training queries that need several
        agents among those that need any."""
        self.agents = tuple(agents)
        self.calibration, self.policy, self.reader = calibration, policy, reader
        self.limits, self.rules, self.continuing = limits, rules or Rules(), continuing
        #: Whether hardly a query needs several agents, as far as the labels say.
        self.single = several < SINGLE
        #: Where its version comes from, and the settings of its run: empty but for one that was loaded.
        self.version_info: dict[str, Any] = {}
        self.training: dict[str, Any] = {}
        self._unfamiliar = unfamiliar
        self._strangers = (
            None
            if unfamiliar is None
            else self.of_descriptions(unfamiliar.descriptions, limits, unsure=max(UNSURE, calibration.abstain_below))
        )
        self._ids = [agent.id for agent in self.agents]
        self._place = {agent.id: i for i, agent in enumerate(self.agents)}
        self._every = np.ones(len(self.agents), np.bool_)

    @classmethod
    def load(cls, source: str | Path | bytes) -> Router:
        """From the path of an artifact (directory or zip) or its bytes. Raises ArtifactError with the reason."""
        return cls.from_artifact(artifact.read(source))

    @classmethod
    def from_artifact(cls, parts: Artifact) -> Router:
        """From parts already read. Raises ArtifactError where they do not fit together. BLAS then uses one thread in this process."""
        use_one_blas_thread()
        try:
            config, agents, reader = parts.config, parts.agents, TextReader.from_artifact(parts)
            router = cls(
                agents,
                reader,
                load_policy(config["policy"], parts.under("policy")),
                Calibration.from_config(config["calibration"]),
                unfamiliar=Unfamiliar.from_parts(config["unfamiliar"], parts.under("unfamiliar"))
                if config.get("unfamiliar")
                else None,
                limits=(int(config.get("min_agents", 0)), int(config.get("max_agents", 0))),
                rules=Rules.from_config(config.get("rules") or {}),
                continuing=Continuing.from_config(config.get("continuing")),
                several=float(config.get("several", 1.0)),
            )
            router.version_info = dict(config.get("version_info", {}))
            router.training = dict(config.get("training", {}))
            if reader.scales != (len(agents), len(agents)):
                raise ValueError(f"{len(agents)} agents have {reader.scales[0]} scales")
            # One query shows whether all shapes fit, before an application's first does.
            router.route_batch(["a query"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, BadRules) as error:
            raise ArtifactError(f"the artifact's parts do not fit together: {error}") from error
        return router

    @classmethod
    def of_descriptions(cls, scorer: Descriptions, limits: tuple[int, int] = (0, 0), unsure: float = UNSURE) -> Router:
        """The router of agents that nobody labeled queries for, by what they say of themselves. It abstains from answers of less
        confidence than `unsure`."""
        same = Platt(np.ones(len(scorer.agents), np.float32), np.zeros(len(scorer.agents), np.float32))
        calibration = Calibration(1.0, 0.0, scorer.confidence, unsure)
        return cls(scorer.agents, TextReader(scorer, same), BayesPolicy(1.0, 0.0), calibration, limits=limits)

    @property
    def reads_meaning(self) -> bool:
        """Whether a route asks the sentence encoder, so that a process which holds this router has it loaded."""
        return self.reader.reads_meaning

    # ------------------------------------------------------------------------------------------------------ routing

    def _stand_in(self, text: str) -> Router | None:
        """The router of a text that this model cannot read; None for all others."""
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

    def _limited(
        self, limits: tuple[int, int] | None = None, margin: float | None = None, rules: Rules | None = None
    ) -> SetLimits:
        """What a set keeps to, where a part is not given by the model's own."""
        at = self.calibration.margin if margin is None else margin
        ruled = self._ruled(rules)
        return SetLimits(*(limits or self.limits), at, allowed_for(ruled, self.agents) if ruled else None)

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
        if (other := self._stand_in(text)) is not None:
            return self._guessed(text, other.route(text, available, limits=limits, rules=self._ruled(rules)))
        mask = self._available(available)
        x, near = self.reader.one(text)
        needed, seen = self.reader.needed_by_one(near, x, mask), self.reader.seen([text], x[None])[0]
        walk = of_one(self.policy, seen, needed, mask, self._limited(limits, margin, rules))
        counts = self._left_open(mask, walk[0], x, self._ruled(rules))
        return self._answer(walk, mask, self.calibration.of_one(x, walk[0], counts, needed or 0.0), needed)

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
        if (other := self._stand_in(text)) is not None:
            return self._guessed(text, other.above(text, threshold, available, limits=limits, rules=self._ruled(rules)))
        mask, keeps = self._available(available), self._limited(limits, rules=rules)
        least, most = keeps.min_agents, keeps.max_agents
        x, near = self.reader.one(text)
        p = self.calibration.probabilities(x[None])[0].tolist()
        ranked = sorted((a for a, open_ in enumerate(mask.tolist()) if open_), key=lambda a: -p[a])
        order = [a for place, a in enumerate(ranked) if place < least or p[a] >= threshold][: most or None]
        if keeps.allowed is not None:
            likely = np.nextafter(np.array(p), 2)  # an agent at the threshold is in
            order, *_ = walk(lambda _: (likely, threshold), mask, keeps.allowed, keeps._replace(margin=0.0))
        needed = self.reader.needed_by_one(near, x, mask)
        walked = order, len(order) + 1, bool(most) and len(order) == most
        counts = self._left_open(mask, order, x, self._ruled(rules))
        return self._answer(walked, mask, self.calibration.of_one(x, order, counts, needed or 0.0), needed)

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

    def sets(self, texts: Sequence[str], log_odds: FloatArray) -> BoolArray:
        """The set of each text by the policy alone, over all agents, bool[N, A]; log_odds float32[N, A] are those of the texts."""
        seen, every = self.reader.seen(texts, log_odds), np.ones(log_odds.shape, np.bool_)
        return greedy(self.policy, seen, self.needed(texts, log_odds), every, self._limited())[0]

    def needed(self, texts: Sequence[str], log_odds: FloatArray, available: BoolArray | None = None) -> Needs:
        """What the policy goes by of each text beside its log-odds float32[N, A]: those that anybody is needed; None where it does
        not ask. available bool[N, A], all where None."""
        asks = isinstance(self.policy, BayesPolicy) and self.policy.by_needed
        return self.reader.needed(texts, log_odds, available) if asks else None

    def answers(self, texts: Sequence[str]) -> Answers:
        """What `holding.routes` answers to many texts over all agents, for measurements."""
        x = self.reader.log_odds(texts)
        selected = self.sets(texts, x)
        confidence = self._certainty(texts, x, selected, np.ones(x.shape, np.bool_))
        answers = Answers(x, selected, confidence, self._unlike(texts, x, selected))
        holding.hold_turns(self, texts, answers)
        for row, text in enumerate(texts):
            if (other := self._stand_in(text)) is not None:
                guessed = self._guessed(text, other.route(text, rules=self.rules))
                route, _continued = holding.continued(self, text, guessed)
                answers.selected[row] = [agent in route.agents for agent in self._ids]
                answers.confidence[row], answers.strange[row] = route.confidence, route.abstained
        return answers

    def selections(self, texts: Sequence[str]) -> BoolArray:
        """The sets of `answers`, bool[N, A]."""
        return self.answers(texts).selected

    def confidences(
        self, texts: Sequence[str], sets: Sequence[Collection[int]], available: Collection[int] | None = None
    ) -> FloatArray:
        """The calibrated probability that each text's set is right, float32[N]; ids that this router does not know are left out."""
        x, mask = self.reader.log_odds(texts), self._available(available)
        selected = np.array([[agent in chosen for agent in self._ids] for chosen in sets], np.bool_)
        return self._certainty(texts, x, selected.reshape(x.shape), np.broadcast_to(mask, x.shape))

    def _certainty(
        self, texts: Sequence[str], log_odds: FloatArray, selected: BoolArray, available: BoolArray
    ) -> FloatArray:
        """The calibrated probability that each text's set is right, float32[N], by its scores alone."""
        needed = self.reader.needed(texts, log_odds, available)
        if self.rules:
            rows = zip(available, selected, log_odds, strict=True)
            available = np.array([self._left_open(mask, np.flatnonzero(row), x, self.rules) for mask, row, x in rows])
            available = available.reshape(selected.shape)
        return self.calibration.confidences(log_odds, selected, available, needed)

    def _left_open(self, mask: BoolArray, order: Iterable[int], log_odds: FloatArray, rules: Rules) -> BoolArray:
        """The agents that count for how sure a set is: those of `mask`, bool[A], without the ones that a likelier agent of the set
        requires. `order` are the set's places."""
        if not rules:
            return mask
        settled = rules.settled([self._ids[a] for a in sorted(order, key=lambda a: -log_odds[a])])
        return mask & ~np.isin(self._ids, list(settled)) if settled else mask

    def _unlike(self, texts: Sequence[str], log_odds: FloatArray, selected: BoolArray) -> BoolArray:
        """Which answers are abstained from because the text is like none that needs anybody, bool[N]."""
        level = self.calibration.stranger_below
        needed = None if level is None else self.reader.needed(texts, log_odds)
        if needed is None:
            return np.zeros(len(log_odds), np.bool_)
        return np.asarray(selected.any(axis=1) & (needed < level))

    def _answer(
        self, walked: Walk, mask: BoolArray, probabilities: tuple[list[float], float], needed: float | None
    ) -> Route:
        """`probabilities` are those of every agent and that of the whole set."""
        order, steps, full = walked
        p, confidence = probabilities
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
        if (other := self._stand_in(text)) is not None:
            read = other.explain(text, available, limits=limits, rules=self._ruled(rules))
            return replace(read, route=self._guessed(text, read.route))
        route = self.route(text, available, limits=limits, margin=margin, rules=rules)
        mask = self._available(available)
        keeps = self._limited(limits, margin, rules)
        barred: dict[int, Reason] = {}
        if keeps.allowed is not None:
            free = self.route(text, available, limits=limits, margin=margin, rules=Rules())
            barred = self._left_out(route, free, mask, keeps.allowed)
        steps = self._steps(text, route, mask, keeps)
        parts = self.reader.scorer.explain(text)
        features = {self._ids[a]: part for a, part in enumerate(parts[: len(self._ids)]) if mask[a]}
        return Explanation(route, steps, features, self.rule, barred)

    def _steps(self, text: str, route: Route, mask: BoolArray, keeps: SetLimits) -> list[dict[str, Any]]:
        """The values that the policy saw at each step of a route."""
        log_odds = self.reader.log_odds([text])
        seen, needed = self.reader.seen([text], log_odds), self.needed([text], log_odds, mask[None])
        selected = np.zeros(len(mask), np.bool_)
        places: list[int | None] = [self._place[a] for a in route.agents]
        if len(places) < route.steps:
            places.append(None)
        steps = []
        for chosen in places:
            q, stop = self.policy.values(seen, needed, selected[None], mask[None])
            open_ = mask & ~selected
            if keeps.allowed is not None:
                open_ &= keeps.allowed.open(selected[None], mask[None])[0]
            steps.append(
                {
                    "q": {self._ids[a]: float(q[0, a]) for a in np.flatnonzero(open_)},
                    "stop": float(stop[0]) + keeps.margin,
                    "masked": [self._ids[a] for a in np.flatnonzero(~open_)],
                    "chosen": None if chosen is None else self._ids[chosen],
                }
            )
            if chosen is not None:
                selected[chosen] = True
        return steps

    def weights(self, text: str | Sequence[Any], top: int) -> dict[int, list[tuple[str, float]]]:
        """Of each agent the parts of a text that weigh most, at most `top`, with either sign: words and pieces of words, as scorers
        name them. Empty where the scorer cannot name any."""
        text = text if isinstance(text, str) else conversations.read(text)
        if (other := self._stand_in(text)) is not None:
            return other.weights(text, top)
        parts = self.reader.scorer.explain(text, top)
        return dict(zip(self._ids, parts, strict=False))

    def _left_out(self, route: Route, free: Route, mask: BoolArray, allowed: Allowed) -> dict[int, Reason]:
        """By id, the agents of the `free` route that rules keep out of `route`, and why."""
        selected = np.zeros(len(mask), np.bool_)
        selected[[self._place[agent] for agent in route.agents]] = True
        return left_out([self._place[agent] for agent in free.agents], selected, mask, allowed)
