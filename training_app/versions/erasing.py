"""What this room keeps of a query's text, taken out when the query is erased: the errors of scorecards and their copy in artifacts,
decisions on the very text, and the words that drift named, in alarms and in the messages that told of them.
"""

import hashlib
import json
import re
from typing import Any

from datasets_app.labels import snapshots
from datasets_app.models import Query
from training_app.engine.data import artifact
from training_app.engine.data.conversations import before, from_json
from training_app.engine.data.examples import TELLING, keys_of, normalise, of_one_conversation
from training_app.engine.judging import drift
from training_app.models import Alarm, AlarmDelivery, Artifact, Decision, DriftPoint, Outcome, Scorecard, packed

#: How evidence writes a word that drift found: the word and how often it came.
_NAMED = re.compile(r"^(\w+) \(\d+\)$")


@snapshots.on_erase
def forget(query: Query, text: str) -> None:
    """Blank the text wherever a scorecard of the pool's models lists it as an error or as a neighbour of one.

    The copy in the artifact goes with it, so the artifact's checksum changes; what it answers does not.
    """
    for measured in Scorecard.objects.select_related("model").iterator(chunk_size=1):
        if not _blank(measured.content, text):
            continue
        model = measured.model
        stored = Artifact.objects.filter(model=model).first()
        if stored is not None:
            files = artifact.read_bytes(bytes(stored.content))
            metrics = json.loads(files["metrics.json"])
            _blank(metrics, text)
            stored.content = artifact.pack({**files, "metrics.json": artifact.json_bytes(metrics)})
            stored.save(update_fields=("content",))
            model.artifact_digest = hashlib.sha256(stored.content).hexdigest()
            model.artifact_bytes = len(stored.content)
        measured.save(update_fields=("content",))
        model.save(update_fields=("artifact_digest", "artifact_bytes"))


@snapshots.on_erase
def forget_decisions(query: Query, text: str) -> None:
    """Blank the text of decisions on it or on a turn of its conversation, and the comments on those; what was answered stays, and
    cannot be replayed."""
    packed.unpack_all()
    own, normal = keys_of(text)[0], normalise(str(text))
    telling = len(normal) >= TELLING

    def is_on_it(of: str) -> bool:
        if before(of):
            return (telling and normalise(str(of)) == normal) or keys_of(of)[0] == own or of_one_conversation(of, text)
        return normalise(of) == (normal if telling else own) or of_one_conversation(of, text)

    rows = Decision.objects.order_by().values_list("pk", "text", "messages").iterator(chunk_size=2_000)
    on_it = [key for key, of, said in rows if of and is_on_it(from_json(of, said))]
    for start in range(0, len(on_it), 500):
        keys = on_it[start : start + 500]
        Decision.objects.filter(pk__in=keys).update(text="", messages=None)
        Outcome.objects.filter(decision_id__in=keys).update(comment="")


@snapshots.on_erase
def forget_words(query: Query, text: str) -> None:
    """Take the text's words out of what drift has named: points, alarms' evidence, and messages about alarms."""
    words, pool = drift.words_of(text), query.dataset.pool_id
    for point in DriftPoint.objects.filter(model__pool=pool).exclude(words=[]).iterator():
        left = [entry for entry in point.words if entry[0] not in words]
        if left != point.words:
            DriftPoint.objects.filter(pk=point.pk).update(words=left)
    for alarm in Alarm.objects.filter(pool=pool, kind=Alarm.Kind.DRIFT):
        left = _without(alarm.evidence, words)
        if left == alarm.evidence:
            continue
        Alarm.objects.filter(pk=alarm.pk).update(evidence=left)
        for delivery in AlarmDelivery.objects.filter(alarm=alarm):
            told = json.loads(delivery.body)
            told["alarm"]["evidence"] = _without(told["alarm"]["evidence"], words)
            AlarmDelivery.objects.filter(pk=delivery.pk).update(body=json.dumps(told, ensure_ascii=False))


def _without(evidence: list[list[str]], words: set[str]) -> list[list[str]]:
    """Rows of evidence without these words; a row of words that has none left goes too."""
    found = []
    for name, value in evidence:
        entries = value.split(", ")
        named = [match[1] if (match := _NAMED.match(entry)) else "" for entry in entries]
        left = [entry for entry, word in zip(entries, named, strict=True) if word not in words]
        if left:
            found.append([name, ", ".join(left)])
    return found


def _blank(scorecard: dict[str, Any], text: str) -> bool:
    found = False
    for error in scorecard.get("errors", []):
        for entry in (error, *error.get("nearest", [])):
            if entry["text"] and normalise(entry["text"]) == normalise(str(text)):
                entry["text"], found = "", True
                entry.pop("messages", None)
            elif any(normalise(m["content"]) == normalise(str(text)) for m in entry.get("messages", ())):
                entry["text"], found = "", True
                del entry["messages"]
    return found
