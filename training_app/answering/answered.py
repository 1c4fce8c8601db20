"""What becomes of an answer: it is kept as a decision, and shown to an application."""

from collections.abc import Mapping
from typing import Any

from training_app.answering import decisions, shadowing
from training_app.answering.answer import Answer
from training_app.engine.data.conversations import left_out
from training_app.engine.reading.cold import ColdScores
from training_app.engine.routing import asking
from training_app.engine.routing.routes import Route


def keep(given: Answer, api_key: int | None, extra: Mapping[str, Any] | None = None) -> None:
    """Keep the answer as a decision of that key, with what packages add to its detail, and hand its text to the shadows. Never
    waits."""
    pool, model, on = given.pool, given.model, given.pool.live
    if on is not None and (given.options is None or given.options.shadowed):
        for shadow in on.shadows:
            shadowing.offer(
                shadowing.Task(shadow, model.pk, given.number, given.text, given.walked.agents, given.walk_microseconds)
            )
    decisions.record(
        decisions.Pending(
            given.number,
            pool.pk,
            model.pk or None,
            api_key,
            given.text,
            given.route,
            rounded(given.route),
            given.microseconds,
            given.at,
            given.propensity,
            {**(_detail(given) or {}), **extra} if extra else _detail(given),
        )
    )


def _detail(given: Answer) -> dict[str, Any] | None:
    """What a replay needs to do again, None where the model alone made the set."""
    on = given.pool.live
    rules = given.pool.rules if given.options is None else given.options.allowed(given.pool.rules)
    if on is None and given.options is None and not rules and given.continued is None:
        return None
    detail: dict[str, Any] = {} if given.options is None else {"options": dict(given.options.replayed)}
    if rules:
        detail["rules"] = rules.config()
    if given.continued is not None:
        detail["continued"] = {"last": given.continued.last, "held": given.continued.held}
    if given.ask is not None:
        detail["ask"] = given.ask.agents
    if given.replied is not None:
        detail["replied"] = [sorted(agents) for agents in given.replied]
    if on is None:
        return detail
    if on.is_canary:
        detail["canary"] = True
    if given.unit:
        detail["unit"] = given.unit
    if given.propensity is not None:
        detail["share"] = on.exploration
        if given.explored is not None:
            detail["explored"] = given.explored
    if on.cold is not None:
        scores = given.cold or ColdScores({})
        detail["cold"] = {
            "scores": scores.cold, "trained": scores.trained, "threshold": on.threshold, "profile": on.cold.profile,
            "taken": bool(given.cold_taken), "walked": list(given.walked.agents), "single": given.model.router.single,
        }  # fmt: skip
        if (turn := given.continued_cold) is not None:
            detail["cold"]["turn"] = {"last": turn.last, "stays": turn.held}
    return detail or None


def answer_as_json(given: Answer, *, kept: bool = True) -> dict[str, Any]:
    """An answer as an application sees it; what is not `kept` has no decision id."""
    pool, route = given.pool, given.route
    names, keys = pool.names, pool.keys
    shown: dict[str, Any] = {
        "agents": route.agents,
        "agent_names": [names[agent] for agent in route.agents],
        "agent_keys": [keys[agent] for agent in route.agents],
        "abstained": route.abstained,
        "confidence": round(route.confidence, 4),
        "steps": route.steps,
        "scores": rounded(route),
        "stop_reason": route.stop_reason,
        "continues": None,
        "continues_confidence": None,
        "model": given.model.name,
        "decision_id": decisions.id_text(given.number) if kept else None,
        "not_covered": pool.not_covered,
    }
    if (continued := given.continued_cold or given.continued) is not None:
        shown["continues"] = set(route.agents) == set(continued.last)
        sure = continued.confidence if shown["continues"] == continued.continues else 1 - continued.confidence
        shown["continues_confidence"] = round(sure, 4)
    if given.ask is not None:
        roster = {agent.id: agent for agent in pool.roster}
        shown["ask"] = {
            "agents": given.ask.agents,
            "agent_names": [names[agent] for agent in given.ask.agents],
            "question": asking.question([roster[agent] for agent in given.ask.agents]),
        }
    if gone := left_out(given.text):
        shown["messages_left_out"] = gone
    if pool.live is not None:
        if pool.live.is_canary:
            shown["canary"] = True
        if given.explored is not None:
            shown["explored"] = True
        if given.cold is not None:
            shown |= {"cold": bool(given.cold_taken), "cold_scores": given.cold.cold}
    return shown


def rounded(route: Route) -> dict[int, float]:
    """The route's scores as they are told and kept."""
    return {agent: round(score, 4) for agent, score in route.scores.items()}
