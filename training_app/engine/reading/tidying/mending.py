"""Rows as they are read: tidied, with slips mended where validation shows that this helps. Imported by workers only."""

from __future__ import annotations

import dataclasses
import random
from functools import partial
from typing import Any

from training_app.engine.config import Config
from training_app.engine.data.conversations import before, text_of
from training_app.engine.data.intervals import spread
from training_app.engine.data.rows import Rows
from training_app.engine.reading.linear import best_jaccards
from training_app.engine.reading.scorers import CrossFit, Reading
from training_app.engine.reading.stacking import served
from training_app.engine.reading.tidying.perturbations import slip
from training_app.engine.reading.tidying.tidied import Spelling, tidied


def tidied_rows(rows: Rows, spelling: Spelling | None = None) -> Rows:
    """The rows with their texts as `tidied` reads them."""
    return dataclasses.replace(rows, texts=[tidied(text, spelling) for text in rows.texts])


def reading_of(config: Config) -> Reading | None:
    """How cross-fitting reads texts that a scorer was not fitted on: with slips mended by the words that it was fitted on."""
    if not config.tidy or config.recipe != "scores" or config.encoder == "embedding":
        return None
    return lambda texts: partial(tidied, spelling=Spelling.of(texts))


def mended(fit: CrossFit, spelling: Spelling, validation: Rows, seed: int) -> dict[str, Any]:
    """What mending slips brings in Jaccard on validation, each way at its best threshold: to texts as they are ("plain") and with a
    slip in each ("slips"). "kept" where texts with slips surely gain and plain texts do not lose."""
    if not len(validation):
        return {"kept": False}
    rng = random.Random(seed)  # noqa: S311 - a slip needs no secret
    slips = [text_of(slip(str(text), rng), before(text)) for text in validation.texts]
    report: dict[str, Any] = {}
    for name, texts in {"plain": validation.texts, "slips": slips}.items():
        values = []
        for with_spelling in (spelling, None):
            read = tidied_rows(dataclasses.replace(validation, texts=texts), with_spelling)
            values.append(best_jaccards(served(fit, read), read.required, read.asked))
        report[name] = spread(values[0] - values[1]).plain()
    return {**report, "kept": bool(report["slips"]["low"] > 0 and report["plain"]["mean"] >= 0)}
