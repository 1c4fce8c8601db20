"""The one way to an answer: which side answers a text, the model's route, exploration, agents routed by their descriptions.

The API, its fast lane, the playground, `manage.py route` and replays all come here. An `Answer` holds all that was done, so that
keeping it as a decision, or not, is left to the caller (`answered.keep`).
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from routerweb.serving import disconnect
from training_app.answering import decisions, described, loaded
from training_app.answering.loaded import LoadedModel, LoadedPool
from training_app.engine.data.conversations import opening
from training_app.engine.reading.cold import ColdScorer, ColdScores
from training_app.engine.reading.conversing.continuing import Continuing, last_turn
from training_app.engine.routing import asking, exploring, holding, joint
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.joint import Joining, Together, Turn
from training_app.engine.routing.options import RequestOptions
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import Continued, Explanation, Route
from training_app.models import Decision

#: Characters, and texts, that are routed together before others get their turn: some milliseconds' worth.
TURN_CHARACTERS, TURN_TEXTS = 1_000, 256


class NotReady(Exception):
    """The pool has nothing that could answer yet; the message says why, `hint` what to do, and `code` is a word for programs."""

    code = "not_ready"

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(why)
        self.hint = hint


class NoModel(NotReady):
    """The pool has no model that could answer."""

    code = "no_model"

    def __init__(self, pool: LoadedPool) -> None:
        super().__init__(
            pool.problem or f"The pool {pool.slug} has no active model and no agents yet.",
            f"Add agents, whose descriptions answer at first, or train a model: python manage.py train --pool {pool.slug} --promote.",
        )


class Extra(NamedTuple):
    """What a package adds to an answer: to what is `shown`, and to what is `kept` with the decision."""

    shown: Mapping[str, Any]
    kept: Mapping[str, Any]


#: Of a reply to a question: the agents that it was about, those of them that are meant, and those of the turn before beside them.
Replied = tuple[frozenset[int], frozenset[int], frozenset[int]]


class Answer(NamedTuple):
    """One answer, with all that led to it.

    `number` will be the decision's id. `pool` is the side that answered: the pool as its active model or as its canary answers it.
    `walked` is the model's own route and `route` the one that is given; `explored` is the agent that changed sides between them by
    lot, `cold` how likely each agent that is routed by its description is needed, `cold_taken` those of them that joined the set.
    `ask` names the agents that the user should be asked about; `replied` those that such a question was about, those meant, and those
    of the turn before that were not in doubt.
    `continued` says whether the agents of the turn before go on, None where nothing came before; `continued_cold` says so where cold
    agents are among them or among the answer's.
    `unit` stands for who asked while a canary runs: the sticky key, or what opens the conversation, hashed.
    `microseconds` is what all of it took, `walk_microseconds` the model alone.
    """

    number: int
    pool: LoadedPool
    text: str
    walked: Route
    route: Route
    at: float  # seconds since 1970
    microseconds: int
    walk_microseconds: int
    explanation: Explanation | None = None
    explored: int | None = None
    propensity: float | None = None
    cold: ColdScores | None = None
    cold_taken: tuple[int, ...] = ()
    unit: str = ""
    options: RequestOptions | None = None
    continued: Continued | None = None
    ask: asking.Doubt | None = None
    replied: Replied | None = None
    continued_cold: Continued | None = None

    @property
    def model(self) -> LoadedModel:
        """The version that answered."""
        return model_of(self.pool)


def ready(pool: LoadedPool) -> LoadedPool:
    """The pool with what answers it: its model or, where it has none yet, its agents' descriptions. Raises NoModel."""
    if pool.model is not None:
        return pool
    described_pool = described.described(pool)
    if described_pool is None:
        raise NoModel(pool)
    return described_pool


def model_of(pool: LoadedPool) -> LoadedModel:
    """The pool's model, once it is `ready`. Raises NoModel."""
    if pool.model is None:
        raise NoModel(pool)
    return pool.model


def answer(
    pool: LoadedPool,
    text: str,
    *,
    sticky: str = "",
    explain: bool = False,
    explore: bool = True,
    options: RequestOptions | None = None,
) -> Answer:
    """The answer to one text that `check_text` took, or turn that `conversation` made. `sticky` keeps a user on one side of a canary;
    the turns of a conversation that opens with the same words stay on one by themselves.

    Without `explore` nothing is decided by lot: for those who look at an answer and do not act on it. `options` are the request's own.
    Raises NoModel.
    """
    pool = ready(pool)
    key = sticky or opening(text)
    side = pool if pool.live is None else pool.live.side(pool, key)
    own = side is pool
    if options is not None and options.names_agents:
        side, pool = _narrowed(side, options), _narrowed(pool, options)
    began = time.perf_counter_ns()
    try:
        walked = _walk(side, text, explain, options)
    except Exception as error:  # what a canary may raise is not known
        if own:
            raise
        # A canary must never cost an answer.
        pool.live.failed(model_of(side), error)  # type: ignore[union-attr]
        side = pool
        walked = _walk(side, text, explain, options)
    microseconds = (time.perf_counter_ns() - began) // 1000
    return _finish(side, text, walked, microseconds, explore, _unit(pool, key), options)


def answers(
    pool: LoadedPool,
    texts: Sequence[str],
    *,
    sticky: str = "",
    explore: bool = True,
    options: RequestOptions | None = None,
) -> list[Answer]:
    """The answers to many texts, in their order; the router sees those of one side together, and each alone where
    `options` change the walk. Raises NoModel, and Abandoned once the client has left."""
    pool = ready(pool)
    if not texts:
        return []
    if options is not None and not options.batched:
        return [
            answer(pool, text, sticky=sticky, explore=explore, options=options) for text in disconnect.checked(texts)
        ]
    began = time.perf_counter_ns()
    walked = []
    for some in disconnect.checked(_in_turns(texts)):
        walked += _walk_all(pool, some, sticky)
        time.sleep(0)  # others may compute
    microseconds = (time.perf_counter_ns() - began) // 1000 // len(texts)
    return [
        _finish(side, text, each, microseconds, explore, _unit(pool, sticky or opening(text)), options)
        for text, (side, each) in disconnect.checked(zip(texts, walked, strict=True))
    ]


def _in_turns(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in their order, up to TURN_TEXTS at once that have TURN_CHARACTERS together, or one that is longer."""
    first, characters = 0, 0
    for place, text in enumerate(texts):
        if place > first and (characters + len(text) > TURN_CHARACTERS or place - first == TURN_TEXTS):
            yield texts[first:place]
            first, characters = place, 0
        characters += len(text)
    yield texts[first:]


def _narrowed(pool: LoadedPool, options: RequestOptions) -> LoadedPool:
    """The pool with only those agents that the request allows."""
    if pool.model is None:
        return pool
    ids = (agent.id for agent in pool.model.router.agents) if pool.available is None else pool.available
    return replace(pool, available=frozenset(agent for agent in ids if options.allows(agent)))


class Walked(NamedTuple):
    """What a model answers to a text: its route with the agents of the turn before where they stay, and what led to it."""

    route: Route
    continued: Continued | None
    explanation: Explanation | None = None
    replied: Replied | None = None


def _walk(pool: LoadedPool, text: str, explain: bool, options: RequestOptions | None = None) -> Walked:
    router = model_of(pool).router
    explanation: Explanation | None = None
    if options is not None:
        route, explanation = options.walk(router, text, pool.available, explain, pool.rules)
    elif explain:
        explanation = router.explain(text, pool.available, rules=pool.rules)
        route = explanation.route
    else:
        route = router.route(text, pool.available, rules=pool.rules)
    return _with_last(pool, text, route, explanation, options)


def _with_last(
    pool: LoadedPool,
    text: str,
    route: Route,
    explanation: Explanation | None = None,
    options: RequestOptions | None = None,
) -> Walked:
    """The route once it is known whether the agents of the turn before go on."""
    route, continued = RequestOptions.continued(options, model_of(pool).router, text, route, pool.available, pool.rules)
    asked = asking.replied(text, {agent.id: agent for agent in pool.roster if agent.id in route.scores})
    if asked is None:
        return Walked(route, continued, explanation)
    about, meant = asked
    # The reply says nothing of them, and a router that reads it alone would leave them out.
    undoubted = frozenset(() if continued is None else continued.last) - about
    rules = pool.rules if options is None else options.allowed(pool.rules)
    route = loaded.with_agents(route, _meant(route, about, meant, undoubted, rules))
    return Walked(route, continued, explanation and replace(explanation, route=route), (about, meant, undoubted))


def _meant(
    route: Route, about: frozenset[int], meant: frozenset[int], undoubted: frozenset[int], rules: Rules
) -> tuple[int, ...]:
    """The agents of a route once the user has said which of those in doubt are meant, likeliest first: these, with all that they
    require, and of the others and of those of the turn before that were not in doubt those that the rules allow beside them."""
    others = undoubted.union(route.agents) - about
    agents: frozenset[int] = frozenset()
    for agent in sorted(route.scores, key=lambda agent: (agent not in meant, -route.scores[agent])):
        wider = agents | rules.closed({agent})
        if agent in meant | others and wider <= route.scores.keys() and rules.permits(wider):
            agents = wider
    return tuple(sorted(agents, key=lambda agent: -route.scores[agent]))


def _walk_all(pool: LoadedPool, texts: Sequence[str], sticky: str) -> list[tuple[LoadedPool, Walked]]:
    """Each text's route and the side that made it: the pool, or the pool as its canary answers it."""
    on = pool.live
    sides = [pool if on is None else on.side(pool, sticky or opening(text)) for text in texts]
    walked: dict[int, tuple[LoadedPool, Walked]] = {}
    canaried = [place for place, side in enumerate(sides) if side is not pool]
    if canaried and on is not None:
        side = sides[canaried[0]]
        model = model_of(side)
        try:
            routes = model.router.route_batch([texts[place] for place in canaried], side.available, rules=side.rules)
            walks = [_with_last(side, texts[place], route) for place, route in zip(canaried, routes, strict=True)]
        except Exception as error:  # a canary must never cost an answer
            on.failed(model, error)
        else:
            walked = {place: (side, each) for place, each in zip(canaried, walks, strict=True)}
    rest = [place for place in range(len(texts)) if place not in walked]
    if rest:
        routes = model_of(pool).router.route_batch([texts[place] for place in rest], pool.available, rules=pool.rules)
        walked |= {
            place: (pool, _with_last(pool, texts[place], route)) for place, route in zip(rest, routes, strict=True)
        }
    return [walked[place] for place in range(len(texts))]


def _unit(pool: LoadedPool, key: str) -> str:
    canary = pool.live.canary if pool.live is not None else None
    return loaded.unit(canary.salt, key) if canary is not None else ""


def _finish(
    pool: LoadedPool,
    text: str,
    walk: Walked,
    microseconds: int,
    explore: bool,
    unit: str,
    options: RequestOptions | None = None,
) -> Answer:
    walked, continued = walk.route, walk.continued
    explanation = walk.explanation
    at = time.time()
    number, on = decisions.new_id(at), pool.live
    if on is None:
        return Answer(
            number, pool, text, walked, walked, at, microseconds, microseconds, explanation, options=options,
            continued=continued, replied=walk.replied,
        )  # fmt: skip
    began = time.perf_counter_ns()
    router = model_of(pool).router
    min_agents, max_agents = router.limits if options is None else options.limits(router)
    rules = pool.rules if options is None else options.allowed(pool.rules)
    permits = rules.permits if rules else None
    explored, propensity = None, None
    if on.exploration and explore and (options is None or options.explored):
        drawn = exploring.explore(
            walked.agents,
            walked.scores,
            on.exploration,
            loaded.chance,
            min_agents=min_agents,
            max_agents=max_agents,
            permits=permits,
        )
        explored, propensity = drawn.agent, drawn.propensity
    cold = None if on.cold is None else on.cold.scores(text)
    if cold is not None and options is not None:
        cold = replace(cold, cold={agent: score for agent, score in cold.cold.items() if options.allows(agent)})
    if on.ask_cost is None or asking.asked_before(text):
        doubt = None
    else:
        rules = pool.rules if options is None else options.allowed(pool.rules)
        doubt = asking.doubt(walked.scores, walked.agents, walked.confidence, rules.settled(walked.agents))
        if doubt is not None and doubt.worth <= on.ask_cost:
            doubt = None
    joining = Joining(on.threshold, (min_agents, max_agents), permits, router.single)
    # Whom the user named in reply to a question is meant, whoever answered before.
    turn = None if on.cold is None or walk.replied else _turn(pool, on.cold, text, continued, options, joining)
    route, together = completed(walked, explored, cold, joining, turn)
    whole = microseconds + (time.perf_counter_ns() - began) // 1000
    return Answer(
        number, pool, text, walked, route, at, whole, microseconds, explanation, explored, propensity, cold, together.joined, unit,
        options, continued, doubt, walk.replied, together.continued,
    )  # fmt: skip


def _turn(
    pool: LoadedPool,
    scorer: ColdScorer,
    text: str,
    continued: Continued | None,
    options: RequestOptions | None,
    joining: Joining,
) -> Turn | None:
    """The turn that a cold agent may go on to answer. Where nobody says who answered before, cold agents are considered there too."""
    if continued is None:
        return None
    router, last = model_of(pool).router, continued.last
    named, question = last_turn(text)
    if named is None and question is not None and (options is None or "previous" not in options.values):
        route = router.route(question, pool.available, rules=pool.rules)
        last = joint.together(route.agents, route.scores, scorer.scores(question), joining).agents
    return Turn(text, last, router.continuing, RequestOptions.sticky(options))


def completed(
    walked: Route, explored: int | None, cold: ColdScores | None, joining: Joining, turn: Turn | None = None
) -> tuple[Route, Together]:
    """The model's route with the agent that changed sides by lot, then with the cold agents that the text needs and without those of
    the model's that it does not need beside them, or with the agents of the turn before: the route that is given, and how it came."""
    route = walked
    if explored is not None:
        route = loaded.with_agents(route, exploring.turned(route.agents, explored))
    if cold is None:
        return route, Together(route.agents)
    together = joint.together(route.agents, walked.scores, cold, joining, explored, turn)
    changed = together.joined or set(together.agents) != set(route.agents)
    return (loaded.with_agents(route, together.agents) if changed else route), together


# --- Again --------------------------------------------------------------------------------------------------------


def again(kept: Decision, router: Router, cold: ColdScores | None) -> tuple[Explanation, Route]:
    """A decision's answer on the router that made it: the model's own walk, and the route that came of it.

    The agents that were available then are those it gave scores. What the lot decided is not drawn again: the agent that changed sides
    is the one that the decision names. `cold` is what descriptions say, None where no agent was routed by its description.
    """
    detail, available = kept.detail or {}, frozenset(int(agent) for agent in kept.scores)
    options, rules = RequestOptions.of_decision(detail), Rules.from_config(detail.get("rules") or {})
    if options is None:
        explanation, limits = router.explain(kept.routed_text, available, rules=rules), router.limits
    else:
        _route, walked = options.walk(router, kept.routed_text, available, explain=True, rules=rules)
        rules = options.allowed(rules)
        assert walked is not None
        explanation, limits = walked, options.limits(router)
    if (before := detail.get("continued", {})).get("held"):
        held, _again = holding.continued(
            router,
            kept.routed_text,
            explanation.route,
            available,
            last=before["last"],
            sticky=1.0,
            limits=limits,
            rules=rules,
        )
        explanation = replace(explanation, route=held)
    if replied := detail.get("replied"):
        about, meant, *rest = map(frozenset, replied)  # early decisions name nobody else
        agents = _meant(explanation.route, about, meant, frozenset().union(*rest), rules)
        explanation = replace(explanation, route=loaded.with_agents(explanation.route, agents))
    threshold = detail.get("cold", {}).get("threshold", 1.0)
    joining = Joining(threshold, limits, rules.permits if rules else None, router.single)
    turn = turn_then(detail, kept.routed_text, router.continuing)
    route, _together = completed(explanation.route, detail.get("explored"), cold, joining, turn)
    return explanation, route


def turn_then(detail: Mapping[str, Any], text: str, continuing: Continuing) -> Turn | None:
    """The turn of a decision that a cold agent might have gone on to answer, None where there was none; it stays where it did then."""
    turn = detail.get("cold", {}).get("turn")
    if turn is None:
        return None
    return Turn(text, tuple(turn["last"]), continuing, sticky=float(turn["stays"]))
