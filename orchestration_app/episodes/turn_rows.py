"""The turns of an episode as rows, and rows as turns: for the loop that goes on, for pages and for the API."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from orchestration_app.calls import parts
from orchestration_app.calls.ledger import Ended as EndedCall
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.turns import (
    Decision,
    Failure,
    Outcome,
    Request,
    Result,
    StoredTurn,
    Turn,
)
from orchestration_app.models import Step

#: What the engine calls a failure of ours.
KINDS = {
    "failed": "error", "instruction": "error", "not_allowed": "refused", "no_executor": "unavailable", "not_now": "unavailable",
    "busy": "unavailable", "budget": "unavailable", "interrupted": "cut_off", "denied": "refused",
}  # fmt: skip


#: Calls of these states have an outcome.
ENDED = (Step.Status.DONE, Step.Status.FAILED)


def ended_call(row: Step) -> EndedCall:
    """What is to be stored of a call."""
    return EndedCall(
        row.turn, row.path, row.place, row.status, row.output, row.failure, row.why, row.cost, row.tokens, row.latency,
        row.attempts, row.metadata,
    )  # fmt: skip


def by_name(candidates: Iterable[int | None], probabilities: Iterable[float]) -> dict[str, float]:
    """Probabilities by agent id, and by "stop"."""
    return {"stop" if a is None else str(a): p for a, p in zip(candidates, probabilities, strict=True)}


def as_json(row: Step, names: Mapping[int, str]) -> dict[str, Any]:
    """One step for an answer of the API."""
    return {
        "turn": row.turn,
        "place": row.place,
        "path": row.path,
        "step": row.number,
        "agent": row.agent,
        "name": "" if row.agent is None else names.get(row.agent, str(row.agent)),
        "aim": row.aim,
        "status": row.status,
        "reason": row.reason,
        "probabilities": by_name(row.candidates, row.probabilities),
        "propensity": row.propensity,
        "output": row.output,
        "failure": row.failure,
        "why": row.why,
        "cost": row.cost,
        "tokens": row.tokens,
        "latency": round(row.latency, 4),
        "attempts": row.attempts,
        "metadata": row.metadata,
    }


def as_outcome(outcome: parts.Outcome) -> Outcome:
    """Ours as the engine has it."""
    if isinstance(outcome, parts.Failure):
        kind = KINDS.get(outcome.kind, outcome.kind)
        return Failure(kind, outcome.why, outcome.cost, 0, outcome.latency)  # type: ignore[arg-type]
    return Result(outcome.content, outcome.cost, outcome.tokens, outcome.latency, outcome.metadata)


def rows_of(episode: UUID, turn: Turn) -> list[Step]:
    """The rows of a turn."""
    rows = []
    requests: dict[int, list[Request]] = defaultdict(list)
    for request in turn.requests:
        requests[request.path].append(request)
    decided = {decision.path: decision for decision in turn.decisions}
    for path in sorted(decided.keys() | requests.keys()):
        decision = decided.get(path)
        shown: dict[str, Any] = {}
        if decision is not None:
            shown = {
                "candidates": list(decision.candidates), "probabilities": list(decision.probabilities),
                "propensity": decision.propensity,
            }  # fmt: skip
        for place, request in enumerate(requests[path]):
            spent = sum(call.cost for call in request.calls)
            rows.append(
                Step(
                    episode_id=episode, turn=turn.number, path=path, place=place, number=request.step, call=request.number,
                    agent=request.agent, aim=request.aim, worst=request.worst, call_key=f"{episode.hex}-{request.number}",
                    state={"spent": spent, "calls": len(request.calls)}, **shown,
                )
            )  # fmt: skip
        if decision is not None and not decision.chosen:
            rows.append(_ending(episode, turn.number, decision, shown))
    return rows


def _ending(episode: UUID, turn: int, decision: Decision, shown: Mapping[str, Any]) -> Step:
    return Step(
        episode_id=episode, turn=turn, path=decision.path, number=decision.step, reason=decision.reason or "stop",
        status=Step.Status.DONE, **shown,
    )  # fmt: skip


def stored_turns(rows: Sequence[Step]) -> list[StoredTurn]:
    """The turns that rows hold, with the outcomes of calls that ended."""
    by_turn: dict[int, list[Step]] = defaultdict(list)
    for row in rows:
        by_turn[row.turn].append(row)
    return [_stored(turn, sorted(by_turn[turn], key=lambda row: (row.path, row.place))) for turn in sorted(by_turn)]


def _stored(turn: int, rows: Sequence[Step]) -> StoredTurn:
    by_path: dict[int, list[Step]] = defaultdict(list)
    for row in rows:
        by_path[row.path].append(row)
    decisions = tuple(
        Decision(
            path, first.number, tuple(first.candidates), tuple(first.probabilities),
            tuple(row.agent for row in rows_of_path if row.agent is not None), first.propensity, first.reason or None,  # type: ignore[arg-type]
        )
        for path, rows_of_path in by_path.items()
        if (first := rows_of_path[0]).aim == "answer"
    )  # fmt: skip
    requests = tuple(
        Request(row.call, row.path, row.number, row.agent, row.worst, aim=row.aim)  # type: ignore[arg-type]
        for row in rows
        if row.call is not None and row.agent is not None
    )
    outcomes = {row.call: _stored_outcome(row) for row in rows if row.call is not None and row.status in ENDED}
    return StoredTurn(Turn(turn, decisions, requests), outcomes)


def _stored_outcome(row: Step) -> Outcome:
    if row.status == Step.Status.FAILED:
        return as_outcome(parts.Failure(row.failure, row.why, row.cost, row.latency))
    return Result(row.output, row.cost, row.tokens, row.latency, row.metadata)


def calls_of(rows: Iterable[Step], path: int) -> list[Call]:
    """The finished calls of a path, as a state holds them."""
    return [row.as_call() for row in rows if row.path == path and row.agent is not None and row.aim == "answer"]
