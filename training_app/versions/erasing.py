"""What this package keeps of texts in a form of its own, taken out when a query or somebody's data are erased.

That is checkpoints of runs, the errors of scorecards and their copy in artifacts, decisions on the very text, and the words that drift
named, in alarms and in messages about them.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any

from django.db import models, transaction
from django.urls import reverse

from agents_app.texts import columns, narrowing
from routerweb import holds
from routerweb.erasing import ErasedQuery, Erasing, Fate, Lookup, RowRule
from routerweb.holds import Content
from training_app.engine.data import artifact
from training_app.engine.data.conversations import as_json, from_json
from training_app.engine.data.examples import TELLING, keys_of, normalise, of_one_conversation
from training_app.engine.judging import drift
from training_app.models import (
    Alarm,
    AlarmDelivery,
    Artifact,
    Checkpoint,
    Decision,
    DriftPoint,
    MustPassCase,
    Outcome,
    RouterModel,
    Scorecard,
)
from training_app.versions import cases

#: How evidence writes a word that drift found: the word and how often it came.
_NAMED = re.compile(r"^(\w+) \(\d+\)$")
#: N-grams of characters are too short to tell whose they were, and stand in an order that their model needs.
_KEPT = ("characters",)
CHECKPOINT_FILES = ("state.json", "state.safetensors")


# ---------------------------------------------------------------------------------------------------- a query


def forget_in_scorecards(erased: Sequence[ErasedQuery]) -> None:
    """Blank the texts wherever a scorecard lists one as an error or as a neighbour of one.

    The copy in the artifact goes with it, so the artifact's checksum changes; what it answers does not.
    """
    texts = {normalise(str(query.text)) for query in erased}
    cards = Scorecard.objects.order_by("pk").values_list("pk", "content").iterator(chunk_size=1)
    for key in [key for key, content in cards if _blank(content, texts)]:
        with transaction.atomic():
            measured = Scorecard.objects.select_for_update(of=("self",), no_key=True).get(pk=key)
            if _blank(measured.content, texts):
                measured.save(update_fields=("content",))
        _rewrite(Artifact.objects.filter(model=measured.model_id), lambda files: _without_errors(files, texts))


def _without_errors(files: dict[str, bytes], texts: Collection[str]) -> dict[str, bytes]:
    metrics = json.loads(files["metrics.json"])
    return {"metrics.json": artifact.json_bytes(metrics)} if _blank(metrics, texts) else {}


def _rewrite(stored: models.QuerySet[Artifact], change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> None:
    """Replace those files of one artifact that `change` gives; its digest and size change with it."""

    def packed(content: bytes) -> bytes | None:
        try:
            files = artifact.read_bytes(content)
        except artifact.ArtifactError:
            return None
        changed = change(files)
        return artifact.pack({**files, **changed}) if changed else None

    def describe(content: bytes) -> None:
        digest = hashlib.sha256(content).hexdigest()
        of = RouterModel.objects.filter(pk__in=stored.values("model"))
        of.update(artifact_digest=digest, artifact_bytes=len(content))

    columns.rewrite(stored, "content", packed, describe)


def forget_decisions(erased: Sequence[ErasedQuery]) -> None:
    """Blank the texts of decisions on them or on turns of their conversations, and the comments on those; what was answered stays,
    and cannot be replayed."""
    texts = [query.text for query in erased]
    is_on_any, pattern = on_any(texts), narrowing.of_texts(said_in(texts))
    words = [column for column in holds.columns(Decision, Content.QUERY) if column.attname in ("text", "messages")]
    may_be = narrowing.narrowed(Decision.objects.order_by().exclude(text=""), words, pattern)
    rows = may_be.values_list("pk", "text", "messages").iterator(chunk_size=2_000)
    keys_on_any = [key for key, of, messages in rows if is_on_any(from_json(of, messages))]
    for keys in columns.chunks(keys_on_any):
        with transaction.atomic():
            Decision.objects.filter(pk__in=keys).update(text="", messages=None)
            Outcome.objects.filter(decision_id__in=keys).update(comment="")


def said_in(texts: Sequence[str]) -> set[str]:
    """The first and the last message of each text, one of which stands in every decision that `on_any` finds."""
    return {message["content"] for text in texts for message in (as_json(text)[0], as_json(text)[-1])}


def on_any(texts: Sequence[str]) -> Callable[[str], bool]:
    """Whether a decision's text is one of these, or a turn of a conversation of one of these."""
    keys = {keys_of(text)[0] for text in texts}
    telling = {normal for text in texts if len(normal := normalise(str(text))) >= TELLING}
    # Of one conversation are only texts that begin with the same message.
    begun: dict[tuple[str, str], list[str]] = {}
    for text in texts:
        begun.setdefault(_first_message(text), []).append(text)

    def is_on_any(of: str) -> bool:
        if normalise(str(of)) in telling or keys_of(of)[0] in keys:
            return True
        return any(of_one_conversation(of, text) for text in begun.get(_first_message(of), ()))

    return is_on_any


def _first_message(text: str) -> tuple[str, str]:
    first = as_json(text)[0]
    return first["role"], normalise(first["content"])


def forget_words(erased: Sequence[ErasedQuery]) -> None:
    """Take the texts' words out of what drift has named: points, alarms' evidence, and messages about alarms."""
    by_pool: dict[int, set[str]] = {}
    for query in erased:
        by_pool.setdefault(query.pool, set()).update(drift.words_of(query.text))
    for pool, words in by_pool.items():
        points = DriftPoint.objects.filter(model__pool=pool).exclude(words=[]).values_list("pk", "words")
        without = [(key, had, [entry for entry in had if entry[0] not in words]) for key, had in points.iterator()]
        for key, had, words_left in without:
            if words_left != had:
                DriftPoint.objects.filter(pk=key).update(words=words_left)
        for alarm in Alarm.objects.filter(pool=pool, kind=Alarm.Kind.DRIFT):
            _forget_in_alarm(alarm, words)


def _forget_in_alarm(alarm: Alarm, words: set[str]) -> None:
    evidence = _without(alarm.evidence, words)
    if evidence == alarm.evidence:
        return
    with transaction.atomic():
        Alarm.objects.filter(pk=alarm.pk).update(evidence=evidence)
        for delivery in AlarmDelivery.objects.filter(alarm=alarm):
            body = json.loads(delivery.body)
            body["alarm"]["evidence"] = _without(body["alarm"]["evidence"], words)
            AlarmDelivery.objects.filter(pk=delivery.pk).update(body=json.dumps(body, ensure_ascii=False))


def _without(evidence: list[list[str]], words: set[str]) -> list[list[str]]:
    """Rows of evidence without these words; a row of words that has none left goes too."""
    rows = []
    for name, value in evidence:
        entries = value.split(", ")
        named = [match[1] if (match := _NAMED.match(entry)) else "" for entry in entries]
        words_left = [entry for entry, word in zip(entries, named, strict=True) if word not in words]
        if words_left:
            rows.append([name, ", ".join(words_left)])
    return rows


def _blank(scorecard: dict[str, Any], texts: Collection[str]) -> bool:
    changed = False
    for error in scorecard.get("errors", []):
        for entry in (error, *error.get("nearest", [])):
            if entry["text"] and normalise(entry["text"]) in texts:
                entry["text"], changed = "", True
                entry.pop("messages", None)
            elif any(normalise(m["content"]) in texts for m in entry.get("messages", ())):
                entry["text"], changed = "", True
                del entry["messages"]
    return changed


def forget_checkpoints(erased: Sequence[ErasedQuery]) -> None:
    """Delete the checkpoints of runs of these queries' pools: they hold words of what was learnt from. A run begins from the start,
    which it would have to do anyway where its snapshot holds such a query."""
    Checkpoint.objects.filter(run__pool__in={query.pool for query in erased}).delete()


# ---------------------------------------------------------------------------------------------------- somebody's data


def rules() -> list[RowRule]:
    """How somebody's data are erased from rows of this package's models."""
    return [
        RowRule(Decision, Fate.BLANKED, _blank_decisions, beside=[(Outcome, "decision_id")], link=_link),
        RowRule(MustPassCase, Fate.DELETED, cases.delete_rows, link=_case_link),
        RowRule(Artifact, Fate.CUT, _cut_artifacts, holding=_artifacts_holding),
        RowRule(Checkpoint, Fate.DELETED, _delete_checkpoints, holding=_checkpoints_holding),
    ]


def _link(decision: Decision) -> tuple[str, str]:
    return decision.text, reverse("decision", args=(decision.pool.slug, decision.pk))


def _case_link(case: MustPassCase) -> tuple[str, str]:
    return case.text, reverse("cases", args=(case.pool.slug,))


def _blank_decisions(keys: Sequence[Any], erasing: Erasing) -> None:
    remarks = holds.columns(Decision, Content.REMARK)
    for some in columns.chunks(keys):
        with transaction.atomic():
            columns.take_out_of(Decision, some, remarks, erasing.lookup)
            Decision.objects.filter(pk__in=some).update(text="", messages=None)
            Outcome.objects.filter(decision_id__in=some).update(comment="")


def _artifacts_holding(lookup: Lookup) -> Iterator[int]:
    for key, content in Artifact.objects.order_by("pk").values_list("pk", "content").iterator(chunk_size=1):
        with suppress(artifact.ArtifactError):  # one that cannot be read
            if any(
                lookup.found_in(_words(value)) for value in _json_files(artifact.read_bytes(bytes(content))).values()
            ):
                yield key


def _cut_artifacts(keys: Sequence[Any], erasing: Erasing) -> None:
    """Take it out of the agents' descriptions, the scorecards and the words that models keep. An n-gram out of which it is taken is
    found in no text any more; what the model answers to texts without it does not change."""

    def change(files: dict[str, bytes]) -> dict[str, bytes]:
        return {
            name: artifact.json_bytes(_cut(value, erasing.lookup.taken_out))
            for name, value in _json_files(files).items()
            if erasing.lookup.found_in(_words(value))
        }

    for key in keys:
        _rewrite(Artifact.objects.filter(pk=key), change)


def _checkpoints_holding(lookup: Lookup) -> Iterator[int]:
    for key, content in Checkpoint.objects.order_by("pk").values_list("pk", "content").iterator(chunk_size=1):
        try:
            files = _json_files(artifact.unpack(bytes(content), CHECKPOINT_FILES))
        except (artifact.ArtifactError, ValueError):
            yield key  # one that cannot be read may hold anything
            continue
        if any(lookup.found_in(_words(value)) for value in files.values()):
            yield key


def _delete_checkpoints(keys: Sequence[Any], erasing: Erasing) -> None:
    Checkpoint.objects.filter(pk__in=keys).delete()


def _json_files(files: dict[str, bytes]) -> dict[str, Any]:
    """The files of an artifact that hold words, by name."""
    return {name: json.loads(data) for name, data in files.items() if name.endswith(".json")}


def _words(value: Any) -> Any:
    """JSON of an artifact without the n-grams that are kept all the same."""
    if isinstance(value, dict):
        return {name: _words(part) for name, part in value.items() if name not in _KEPT}
    return [_words(part) for part in value] if isinstance(value, list) else value


def _cut(value: Any, taken_out: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {taken_out(name): part if name in _KEPT else _cut(part, taken_out) for name, part in value.items()}
    if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
        # No two n-grams of a model are the same.
        return [part if (cut := taken_out(part)) == part else f"{cut}{place}" for place, part in enumerate(value)]
    if isinstance(value, list):
        return [_cut(part, taken_out) for part in value]
    return taken_out(value)
