"""The scales with which columns of a table entered studies: one for each column, kept for later.

Two studies that scale the same columns differently give the holder of the labels two Gram matrices,
and the eigenvectors of that pencil are the columns. So the first scale of a column stays with the
table, in a file beside it, and later studies use it.
"""

import json
from dataclasses import replace
from typing import Any

from dual2.errors import Refusal
from dual2.files import read_json
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.preparation import Preparation
from dual2.learn.vertical.prepared_columns import Prepared
from dual2.runtime.peers.folder import create

_OTHER_DATA = 2.0
"""Factor between two scales beyond which the column has other units or other content now, so that
its earlier scale would say nothing."""


def with_known_scales(own: LearnParty, made: Preparation) -> Preparation:
    """The preparation with the scales of earlier studies, and notes about what that changes."""
    if own.scales is None or not own.scales.exists():
        return made
    record = read_json(own.scales)
    _demand_same_kind(own, record)
    columns, notes = [], list(made.notes)
    for column in made.columns:
        known = record["scales"].get(column.outputs[0], column.scale) if column.scaled else 1.0
        if column.scaled and _is_other_scale(column, known):
            notes.append(
                f"Column {column.name!r} keeps the scale {known:.6g} of an earlier study "
                f"({own.scales.name}); these rows alone would have {column.scale:.6g}. Two scales "
                "would show the column to the holder of the labels."
            )
            column = replace(column, scale=known)
        columns.append(column)
    for outputs in record["studies"].values():
        if differing := set(outputs) ^ set(made.outputs):
            notes.append(
                "An earlier study on this table had other columns. Two studies of the same rows "
                f"show the holder of the labels the products of {', '.join(sorted(differing)[:5])}"
                f"{', …' if len(differing) > 5 else ''}; a single such column is shown as it is."
            )
            break
    return replace(made, columns=tuple(columns), notes=tuple(notes))


def record_scales(own: LearnParty, made: Preparation) -> None:
    """Keep the scales of a study before its sums are sent; the first of each column stays."""
    if own.scales is None:
        return
    empty: dict[str, Any] = {"scales": {}, "studies": {}}
    record = read_json(own.scales) if own.scales.exists() else empty
    now = {column.outputs[0]: column.scale for column in made.columns if column.scaled}
    for name, scale in now.items():
        known = record["scales"].get(name, scale)
        other = not 1.0 / _OTHER_DATA <= known / scale <= _OTHER_DATA
        record["scales"][name] = scale if other else known
    record["standardize"] = own.study.learning.standardize
    record["studies"][own.study.digest.hex()] = made.outputs
    create(own.scales, json.dumps(record, indent=1).encode())


def _is_other_scale(column: Prepared, known: float) -> bool:
    return known != column.scale and 1.0 / _OTHER_DATA <= known / column.scale <= _OTHER_DATA


def _demand_same_kind(own: LearnParty, record: dict[str, object]) -> None:
    """Refuse columns as they are after a study with standardised ones, and the reverse."""
    if record.get("standardize") != own.study.learning.standardize:
        raise Refusal(
            f"{own.scales}: an earlier study on this table had standardize = "
            f"{str(record.get('standardize')).lower()}. Columns in two scales can be computed by "
            "the holder of the labels. Use the same setting in the study, or accept it in words: "
            'scales = "new" under [table].',
            "its columns entered an earlier study with other scales.",
        )
