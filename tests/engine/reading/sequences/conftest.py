"""A sequence scorer that was fitted once, for all tests of this folder."""

import numpy as np
import pytest

from tests.engine.reading.sequences.orders import order_task
from training_app.engine.reading.sequences.sequence import SequenceMargins
from training_app.engine.reading.sequences.sequence_fit import SequenceScorer


@pytest.fixture(scope="package")
def toy() -> tuple[SequenceMargins, list[str], np.ndarray]:
    texts, Y = order_task(np.random.default_rng(1), 700)
    scorer = SequenceScorer(width=16, states=24, buckets=512, batch_size=16, passes=12, learning_rate=1e-2)
    fitted = scorer.fit(texts[:500], Y[:500], np.ones((500, 3), bool), seed=0)
    return fitted, texts[500:], Y[500:]
