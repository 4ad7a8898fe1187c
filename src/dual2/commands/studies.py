"""``dual2 study``: set up a study of several sites, with a kit for each of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dual2.commands.common_options import Force
from dual2.errors import CapabilityError, Dual2Error

if TYPE_CHECKING:
    from dual2.parties.study import Study

study_app = typer.Typer(no_args_is_help=True, help="Set up a study: public files, kits for sites.")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The public folder of the study.")]
LEARN = """\
# Public: the same bytes at every party. Entries: documentation, page "Learn between organisations".
run = {run}

[learn]
model = {model}

[rows]
policy = "psi"
id = {id}
minimum = 50

[labels]
holder = {holder}
private = true

[predictions]
to = [{holder}]
"""
PROBLEM = """\
# Public: the same bytes at every party. Entries: documentation, page "Parties".
run = {run}
problem = "problem"
sums = {{ masked = true, matrices = {matrices} }}
"""
TABLE = """
[table]
file = "table.csv"                # or .parquet; or sql = "SELECT …" with url = "$DATABASE"
{label}
[table.columns]                   # the columns of this party: "number" or "category"
"""


@study_app.command()
def new(
    folder: Folder,
    run: Annotated[str | None, typer.Option(help="Name of the run; by default the folder's.")] = (
        None
    ),
    holder: Annotated[str | None, typer.Option(help="Who has the labels, for a model.")] = None,
    model: Annotated[str, typer.Option(help="An estimator of dual2.learn.")] = "LogisticRegression",
    id: Annotated[str, typer.Option(help="Name of the column with ids.")] = "id",
    problem: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A problem folder, in place of a model.")
    ] = None,
    matrices: Annotated[
        bool, typer.Option("--matrices", help="Allow sums of matrices, for a problem.")
    ] = False,
    force: Force = False,
) -> None:
    """Write a study without parties: of a model (--holder) or of a problem (--problem)."""
    from dual2.parties.names import demand_name
    from dual2.parties.provisioning import begin_study

    if (holder is None) == (problem is None):
        raise Dual2Error(
            "A study is of a model or of a problem. Expected one of --holder NAME, --problem DIR."
        )
    said = json.dumps(demand_name(run or folder.resolve().name, "--run"))
    if problem is None:
        words = {"model": model, "id": id, "holder": holder}
        text = LEARN.format(run=said, **{name: json.dumps(one) for name, one in words.items()})
    else:
        text = PROBLEM.format(run=said, matrices=json.dumps(matrices))
    print(begin_study(folder, text, force))
    if problem is not None:
        _copy_public(problem, folder / "problem")
    print(f"Every site: dual2 certificates create NAME. Then: dual2 study add {folder} NAME.pem")


def _copy_public(problem: Path, to: Path) -> None:
    """The public files of a problem folder, nothing of its agents."""
    from dual2.solving.storage.problem_folder import PUBLIC_FILES

    to.mkdir(parents=True, exist_ok=True)
    for name in PUBLIC_FILES:
        if (problem / name).exists():
            shutil.copyfile(problem / name, to / name)


@study_app.command()
def add(
    folder: Folder,
    certificate: Annotated[Path, typer.Argument(metavar="NAME.PEM", help="What a site sent.")],
    address: Annotated[
        str | None, typer.Option(help="host:port; none if the site only dials others.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="By default that of the certificate.")] = None,
) -> None:
    """Add a party by its certificate."""
    from dual2.parties.provisioning import add_party
    from dual2.runtime.peers.identity import fingerprint, read_certificate

    added = add_party(folder, certificate, name, address)
    print(f"{added}: {fingerprint(read_certificate(folder / f'{added}.pem'))}")
    print(f"Let {added} confirm this fingerprint, over the telephone.")


@study_app.command()
def pack(folder: Folder) -> None:
    """Check the study and write a kit for each site: DIR/kits/NAME.zip, public files only."""
    from dual2.files import read_toml
    from dual2.parties.provisioning import STUDY_FILE, pack_kits

    if not (folder / STUDY_FILE).exists():
        raise Dual2Error(f"{folder / STUDY_FILE} is not there. First: dual2 study new {folder}")
    if "learn" in read_toml(folder / STUDY_FILE):
        study, draft, edit = _learning(folder / STUDY_FILE)
    else:
        from dual2.parties.study import read_study

        study = read_study(folder / STUDY_FILE)
        draft, edit = _data_line, "Fill in data, then: dual2 party check party.toml"
    for kit in pack_kits(study, folder, draft, edit):
        print(kit)
    print(f"Study {study.digest.hex()}: every site compares this, with dual2 party check.")


def _learning(file: Path) -> tuple[Study, Callable[[str], str], str]:
    """A study of tables, the last part of its parties' own files, and what these fill in."""
    try:
        from dual2.learn.vertical.study import read_learn_study
    except ImportError as error:
        raise CapabilityError(str(error)) from error
    study = read_learn_study(file)
    holder = study.names[study.learning.holder]

    def draft(name: str) -> str:
        label = 'label = "label"                   # name of the column with the labels\n'
        return TABLE.format(label=label if name == holder else "")

    return study, draft, "Fill in table and its columns, then: dual2 learn check party.toml"


def _data_line(name: str) -> str:
    """Where a party of a problem has its data."""
    return f'data = "{name}.npz"               # this agent of the problem folder, agents/K.npz\n'
