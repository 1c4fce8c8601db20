"""A teacher among the scorers of `encoders.py`, fitted once per fold for itself and for the student. Imported by workers only."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from training_app.engine.data.rows import Rows
from training_app.engine.reading.scorers import CrossFit
from training_app.engine.reading.teaching.teacher import INSTALL, TeacherMargins, missing_packages
from training_app.engine.reading.teaching.teacher_fit import TeacherScorer
from training_app.engine.reading.teaching.teacher_folder import TeacherFolder, teacher_folder
from training_app.engine.settings import ConfigError


def checked(teacher: str) -> TeacherFolder | None:
    """The folder of the setting `teacher`, None where it is "". Raises ConfigError where a package is missing, or the folder cannot
    be read: before anything is fitted."""
    if not teacher:
        return None
    missing = missing_packages()
    if missing:
        raise ConfigError("teacher", f"needs the packages {', '.join(missing)}: {INSTALL}")
    return teacher_folder(teacher)


class Coach:
    """A teacher that was cross-fitted on `rows`, for those that learn from it."""

    def __init__(self, tuned: TeacherScorer, fit: CrossFit, rows: Rows) -> None:
        self.tuned, self.fit = tuned, fit
        self.name = tuned.folder.name
        self._margins = dict(zip(rows.texts, fit.margins, strict=True))

    def about(self) -> dict[str, Any]:
        """What the model remembers of it."""
        served = self.fit.fitted
        return dict(served.about) if isinstance(served, TeacherMargins) else {}

    def within(self, rows: Rows, seed: int) -> CrossFit:
        """As if it had been cross-fitted on `rows`, some of those it was: fitted on them, with the margins that they had out of fold.
        Of the rows left out those margins know a little, and of the margins only the map is learnt."""
        fitted = self.tuned.fit(rows.texts, rows.required, rows.asked, seed=seed)
        margins = np.stack([self._margins[text] for text in rows.texts])
        return dataclasses.replace(self.fit, fitted=fitted, margins=margins, log_odds=self.fit.platt(margins))
