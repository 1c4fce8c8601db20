"""Turns of a conversation that stay with the agents of the turn before: of one turn, or of many. numpy only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from training_app.engine.data import conversations
from training_app.engine.reading.conversing.continuing import last_turn
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.routes import STICKY, Answers, Continued, Route, StopReason

if TYPE_CHECKING:
    from training_app.engine.routing.router import Router


def continued(
    router: Router,
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

    `route` is what the router chose with the same `available` agents, `limits` and `rules`. `last` are the ids of the agents
    of the turn before; where None, those that the answer before this turn names, else those that the router chooses for the
    user's turn before. They stay where that is right with a probability of at least 1 - `sticky`, they can all be chosen, and
    limits and rules allow them.
    """
    text = text if isinstance(text, str) else conversations.read(text)
    named, question = last_turn(text)
    if last is None and (last := named) is None:
        if question is None:
            return route, None
        last = router.route(question, available, rules=rules).agents
    ids = list(route.scores)
    kept = tuple(agent for agent in route.agents if agent in last)
    kept += tuple(agent for agent in ids if agent in last and agent not in kept)
    same = set(route.agents) == set(last)
    if len(kept) < len(set(last)):  # one of them can no longer be chosen
        return route, Continued(tuple(last), False, 1.0)
    p = np.array([list(route.scores.values())])
    before_it, now = (np.array([[agent in chosen for agent in ids]], np.bool_) for chosen in (last, route.agents))
    likely = float(router.continuing.probabilities(p, before_it, now, [text])[0])
    ruled = router.rules if rules is None else rules
    min_agents, max_agents = limits or router.limits
    barred = len(kept) < min_agents or (max_agents and len(kept) > max_agents) or (ruled and not ruled.permits(kept))
    if same or barred or likely < max(1 - sticky, 1e-9):
        return route, Continued(kept, same, likely if same else 1 - likely)
    # What says that they stay has seen this turn's scores and who answered before: its probability is that of the whole set.
    away = likely < router.calibration.abstain_below
    reason: StopReason = "abstained" if away else "stop" if kept else "none"
    held = replace(route, agents=kept, confidence=likely, stop_reason=reason, abstained=away)
    return held, Continued(kept, True, likely, held=True)


def routes(
    router: Router,
    texts: Sequence[str | Sequence[Any]],
    available: Collection[int] | None = None,
    *,
    rules: Rules | None = None,
) -> list[Route]:
    """What an application is answered to each text that asks for nothing special: its route, and for a turn that stays with the agents
    of the turn before, these. What models are judged by, watched by and compared by, with the arguments of `Router.route_batch`."""
    walked = router.route_batch(texts, available, rules=rules)
    return [
        continued(router, text, route, available, rules=rules)[0] for text, route in zip(texts, walked, strict=True)
    ]


def hold_turns(router: Router, texts: Sequence[str], answers: Answers) -> None:
    """Give turns that stay with the agents of the turn before these agents, as `continued` does."""
    turns = [(row, *last_turn(text)) for row, text in enumerate(texts) if conversations.before(text)]
    turns = [turn for turn in turns if turn[1] is not None or turn[2] is not None]
    if not turns:
        return
    ids = [agent.id for agent in router.agents]
    questions = [question or "" for _row, _named, question in turns]
    last = router.sets(questions, router.reader.log_odds(questions))
    for place, (_row, named, _question) in enumerate(turns):
        if named is not None:
            last[place] = [agent in named for agent in ids]
    rows = np.array([row for row, _named, _question in turns])
    p = router.calibration.probabilities(answers.log_odds[rows])
    chosen = answers.selected[rows]
    likely = router.continuing.probabilities(p, last, chosen, [texts[row] for row in rows.tolist()])
    sizes, (min_agents, max_agents) = last.sum(axis=1), router.limits
    stays = (likely >= 1 - STICKY) & (last != chosen).any(axis=1)
    stays &= (sizes >= min_agents) & (sizes <= (max_agents or len(ids)))
    if router.rules:
        stays &= [router.rules.permits([ids[a] for a in np.flatnonzero(row)]) for row in last]
    held = rows[stays]
    answers.selected[held], answers.confidence[held], answers.strange[held] = last[stays], likely[stays], False
