"""``dual2.learn.Party``: one party of a learning study, from Python."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dual2.learn.inference import Summary
from dual2.learn.vertical import fitting, prediction
from dual2.learn.vertical.alignment import Rows
from dual2.learn.vertical.model import PartyModel, load_model
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.prediction import Predictions
from dual2.learn.vertical.session import summary
from dual2.learn.vertical.tables import as_table

Array = np.ndarray


class Party:
    """One party of a learning study: the commands ``dual2 learn …`` for notebooks.

    Every party does the same at about the same time: :meth:`align`, :meth:`fit`, :meth:`predict`.
    Coefficients are those of the estimator that the study names, of this party's columns alone.

    Parameters
    ----------
    file : path
        The party's own ``party.toml``, which names the study.
    table : pandas frame or mapping of columns, optional
        Used in the place of the table that the file names.
    report : callable
        Told how it goes; by default nobody.

    Attributes
    ----------
    coef_ : ndarray
        Coefficients of this party's prepared columns, as the estimator's ``coef_`` has them.
    columns_ : list of str
        Names of the prepared columns.
    constant_ : ndarray
        What this party adds to every score; the intercept is the sum of all parties' constants.
    classes_ : tuple of str
        Names of the classes, at the holder of the labels.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        table: Any = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        own = read_learn_party(Path(file))
        if table is not None:
            given = as_table(table)
            own = replace(own, read=lambda: given)
        self._own, self._report = own, report

    @property
    def name(self) -> str:
        """The party's name in the study."""
        return self._own.party.name

    def summary(self) -> str:
        """What the study does and what it shows, before anything runs."""
        return summary(self._own)

    def align(self, resume: bool = False, force: bool = False) -> Rows:
        """Find the rows that all parties have."""
        return fitting.align(self._own, resume, force, self._report)

    def fit(self, resume: bool = False, force: bool = False) -> "Party":
        """Train with the other parties."""
        self.__dict__.pop("model_", None)
        fitting.fit(self._own, resume, force, self._report)
        return self

    def predict(
        self,
        table: Any,
        name: str = "1",
        resume: bool = False,
        force: bool = False,
        accept: str | None = None,
    ) -> Predictions:
        """Predict for the rows of a new table (a frame, columns, or a file) that all have.

        ``accept="unsolved"`` uses a model whose training has not converged.
        """
        return prediction.predict(self._own, table, name, resume, force, self._report, accept)

    @cached_property
    def model_(self) -> PartyModel:
        """The party's part of the model."""
        return load_model(self._own)

    @property
    def coef_(self) -> Array:
        """See the class."""
        found = self.model_.coefficients
        return found if self._own.study.learning.classifier else found[0]

    @property
    def columns_(self) -> list[str]:
        """See the class."""
        return self.model_.preparation.outputs

    @property
    def constant_(self) -> Array:
        """See the class."""
        return self.model_.constants

    @property
    def inference_(self) -> Summary | None:
        """Standard errors and intervals of the own coefficients, if the study asks for them."""
        return self.model_.inference()

    @property
    def evaluation_(self) -> dict[str, Any]:
        """Figures of training and held-out rows, at the holder of the labels."""
        return self.model_.about.get("evaluation", {})

    @property
    def classes_(self) -> tuple[str, ...]:
        """See the class."""
        return self.model_.classes
