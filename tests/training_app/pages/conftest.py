import pytest

from tests.training_app.pages.figures import scorecard
from tests.training_app.told import artifact
from training_app.models import Run, RunEvent
from training_app.training import runs


@pytest.fixture
def done(run: Run, told_router: None) -> Run:
    """A run that is done, with a model and its scorecard."""
    attempt = runs.claim(run.pk)
    assert attempt
    runs.report(
        run.pk,
        attempt,
        [RunEvent(run=run, phase="policy", step=s, metrics={"val_jaccard": s / 10}) for s in (1, 2)],
        phase="policy",
        step=2,
        total=2,
        metrics={"val_jaccard": 0.2},
    )
    runs.finish(run.pk, attempt, artifact(), scorecard())
    run.refresh_from_db()
    return run
