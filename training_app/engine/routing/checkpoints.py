"""Checkpoints of a run: what the scorer phase found and where the policy stands, as one archive of JSON and safetensors.

`train` writes them and goes on from them. A checkpoint names the settings, agents and examples that it belongs to, and is refused
for any others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from training_app.engine.config import Config
from training_app.engine.data import artifact, conversations
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.examples import Agent, Example
from training_app.engine.reading.scorers import CrossFit, FittedScorer, Platt, load_scorer
from training_app.engine.routing.text_reader import scorer_parts

_FILES = ("state.json", "state.safetensors")

#: Tensors and notes of the policy's learning, as `learn` and `learn_published` give and take them.
Learning = tuple[dict[str, Any], dict[str, Any]]


class CheckpointError(ValueError):
    """A checkpoint that cannot be gone on from; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Scores:
    """What the scorer phase hands on: the scorer, its map, the log-odds of the training rows; and, where the policy
    sees something else than log-odds, what it sees."""

    fit: CrossFit
    report: dict[str, Any]
    features: FittedScorer | None = None


def fingerprint(config: Config, agents: Sequence[Agent], examples: Sequence[Example]) -> str:
    """What a checkpoint belongs to: a hash of settings, agents and examples."""
    digest = hashlib.sha256(artifact.json_bytes(config.to_mapping()))
    for agent in agents:
        digest.update(artifact.json_bytes(agent.facts))
    for e in examples:
        asked = None if e.asked is None else sorted(e.asked)
        context = [conversations.earlier_as_json(e.text), e.group]
        more = context if any(context) else []
        digest.update(artifact.json_bytes([e.id, e.text, sorted(e.required), asked, e.split, *more]))
    return digest.hexdigest()


def write(belongs: str, scores: Scores, policy: Learning | None) -> bytes:
    """A checkpoint of what `belongs` names (see `fingerprint`): after the scorer, and of the policy where it has begun."""
    entry, vocabulary, tensors = scorer_parts("scorer", scores.fit.fitted)
    tensors |= {
        "platt.scale": scores.fit.platt.scale,
        "platt.shift": scores.fit.platt.shift,
        "train.log_odds": scores.fit.log_odds,
        "train.margins": scores.fit.margins,
    }
    if scores.fit.held_out is not None:
        tensors["train.held_out"] = scores.fit.held_out
    state: dict[str, Any] = {
        "belongs": belongs,
        "scorer": entry,
        "vocabulary": vocabulary,
        "report": scores.report,
        "policy": None,
        "features": None,
    }
    if scores.features is not None:
        about, words, arrays = scorer_parts("features", scores.features)
        state["features"] = {**about, "vocabulary": words}
        tensors |= arrays
    if policy is not None:
        tensors |= {f"learn.{name}": tensor for name, tensor in policy[0].items()}
        state["policy"] = policy[1]
    return artifact.pack(
        {"state.json": artifact.json_bytes(state), "state.safetensors": artifact.tensor_bytes(tensors)}
    )


def read(data: bytes, belongs: str) -> tuple[Scores, Learning | None]:
    """What `write` was given. Raises CheckpointError where it belongs to something else or cannot be read."""
    try:
        files = artifact.unpack(data, _FILES)
        state = artifact.json_from(files["state.json"], "state.json")
        tensors = artifact.tensors_from(files["state.safetensors"])
        if state["belongs"] != belongs:
            raise CheckpointError("The checkpoint was made with other settings or data: start the run anew.")
        parts = {n.removeprefix("scorer."): t for n, t in tensors.items() if n.startswith("scorer.")}
        fitted = load_scorer(state["scorer"]["kind"], {**state["scorer"]["settings"], **state["vocabulary"]}, parts)
        platt = Platt(tensors["platt.scale"], tensors["platt.shift"])
        arrays = tensors["train.log_odds"], tensors["train.margins"]
        fit = CrossFit(*arrays, fitted, platt, tensors.get("train.held_out"))
        features = None
        if state["features"]:
            about = state["features"]
            parts = {n.removeprefix("features."): t for n, t in tensors.items() if n.startswith("features.")}
            features = load_scorer(about["kind"], {**about["settings"], **about["vocabulary"]}, parts)
        resume = None
        if state["policy"] is not None:
            learnt = {n.removeprefix("learn."): t for n, t in tensors.items() if n.startswith("learn.")}
            resume = (learnt, state["policy"])
        return Scores(fit, state["report"], features), resume
    except (ArtifactError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"The checkpoint cannot be read ({error}): start the run anew.") from error


__all__ = ["CheckpointError", "Learning", "Scores", "fingerprint", "read", "write"]
