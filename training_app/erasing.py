"""What models keep of a query's text, taken out when the query is erased: the errors of scorecards, and their copy in artifacts."""

import hashlib
import json
from typing import Any

from datasets_app import snapshots
from datasets_app.models import Query
from training_app.engine import artifact
from training_app.models import Artifact, RouterModel


@snapshots.on_erase
def forget(query: Query, text: str) -> None:
    """Blank the text wherever a scorecard of the pool's models lists it as an error or as a neighbour of one.

    The copy in the artifact goes with it, so the artifact's checksum changes; what it answers does not.
    """
    for model in RouterModel.objects.filter(pool=query.dataset.pool_id).iterator(chunk_size=1):
        if not _blank(model.scorecard, text):
            continue
        stored = Artifact.objects.filter(model=model).first()
        if stored is not None:
            files = artifact.read_bytes(bytes(stored.content))
            metrics = json.loads(files["metrics.json"])
            _blank(metrics, text)
            stored.content = artifact.pack({**files, "metrics.json": artifact.json_bytes(metrics)})
            stored.save(update_fields=("content",))
            model.artifact_digest = hashlib.sha256(stored.content).hexdigest()
            model.artifact_bytes = len(stored.content)
        model.save(update_fields=("scorecard", "artifact_digest", "artifact_bytes"))


def _blank(scorecard: dict[str, Any], text: str) -> bool:
    found = False
    for error in scorecard.get("errors", []):
        for entry in (error, *error.get("nearest", [])):
            if entry["text"] == text:
                entry["text"], found = "", True
    return found
