"""An erased query's text is gone from scorecards and artifacts too."""

import pytest

from agents_app.models import Pool
from datasets_app import snapshots
from datasets_app.models import Query
from training_app import registry
from training_app.engine import artifact
from training_app.models import Artifact, RouterModel


@pytest.mark.parametrize("place", ["error", "neighbour"])
def test_the_text_leaves_scorecard_and_artifact(labeled: Pool, place: str) -> None:
    query = Query.objects.order_by("pk")[0]
    text = query.text
    mine, other = (text, "something else") if place == "error" else ("something else", text)
    card = {"errors": [{"text": mine, "required": [], "selected": [], "nearest": [{"text": other, "required": []}]}]}
    content = artifact.Artifact({}, {}, {}, card).to_bytes()
    model = RouterModel.objects.create(
        pool=labeled, version=1, roster=[], scorecard=card, artifact_digest="0" * 64, artifact_bytes=len(content)
    )
    Artifact.objects.create(model=model, content=content)

    snapshots.erase(query)

    model.refresh_from_db()
    assert text not in str(model.scorecard)
    assert "something else" in str(model.scorecard)
    stored = artifact.read(registry.artifact_bytes(model))
    assert stored.metrics == model.scorecard
