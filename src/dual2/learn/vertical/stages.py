"""``dual2 learn run``: align, fit and predict in one process, which starts once.

A resident process (:mod:`dual2.parties.resident`) does so for each of its studies.
"""

from pathlib import Path

from dual2.files import read_json
from dual2.learn.vertical.fitting import align, fit
from dual2.learn.vertical.model import PartyModel
from dual2.learn.vertical.party_file import LearnParty
from dual2.learn.vertical.prediction import predict
from dual2.learn.vertical.session import Report


def run_stages(own: LearnParty, new: Path | None, name: str, report: Report) -> PartyModel:
    """Align, fit and, for new rows, predict; what an earlier attempt has finished stays.

    Parameters
    ----------
    own : LearnParty
        The party.
    new : Path or None
        New rows to predict for.
    name : str
        Of this set of predictions.
    report : callable
        Told how it goes.
    """
    align(own, resume=True, report=report)
    model = fit(own, resume=True, report=report)
    if new is None:
        return model
    if _has_ended(own.at(f"predict-{name}").state):
        report(f"The predictions {name} are made already.")
    else:
        predict(own, new, name, resume=True, report=report)
    return model


def serve_study(own: LearnParty, report: Report) -> None:
    """Align, fit, and predict for each table in the folder ``predict``, in the order of names."""
    run_stages(own, None, "", report)
    for new in new_tables(own.party.file.parent):
        if not _has_ended(own.at(f"predict-{new.stem}").state):
            predict(own, new, new.stem, resume=True, report=report)


def new_tables(folder: Path) -> list[Path]:
    """Tables of new rows that a study's folder has; hidden ones are not ready yet."""
    found = (folder / "predict").glob("[!.]*")
    return sorted(one for one in found if one.suffix in (".csv", ".parquet"))


def _has_ended(state: Path) -> bool:
    """Whether a run has ended well; parties that receive nothing have no other sign of it."""
    status = state / "status.json"
    over = status.exists() and not (state / "journal").exists()
    return over and read_json(status).get("state") == "ended"
