"""The command that draws figures, tables and the report from stored runs."""

from pathlib import Path
from typing import Annotated

import typer

from dual2.commands.options import Force
from dual2.experiments.catalogue import ABOUT
from dual2.experiments.claims import claims
from dual2.experiments.figures import draw

Stored = Annotated[Path, typer.Argument(metavar="DIR", help="Folder with stored runs.")]


def plot(folder: Stored, force: Force = False) -> None:
    """Draw figures (png, pdf), tables (csv, json) and report.html from the runs in a folder."""
    for file in draw(folder, force=force, about=ABOUT, claims=claims):
        print(file)
