"""The command line: every command by name and in one line, imported when it runs.

Help and version need none of the numerical packages, so nothing here imports a command.
"""

from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from dual2.solving.version import __version__


class Entry(NamedTuple):
    """A command in the list of commands."""

    module: str
    """Module of :mod:`dual2.commands`."""
    attribute: str
    """The function there, or the ``Typer`` of a group."""
    summary: str
    """What the list says: the first line of the command's own help."""


COMMANDS = {
    "example": Entry(
        "solving",
        "example",
        "Write an example problem folder: Experiment I, elastic net on 8 agents.",
    ),
    "solve": Entry(
        "solving",
        "solve",
        "Solve the problem in a folder; options override those of problem.toml.",
    ),
    "theory": Entry(
        "solving",
        "theory",
        "Which methods apply to the problem in a folder, and what the paper predicts they cost.",
    ),
    "reproduce": Entry(
        "reproduce",
        "reproduce",
        "Run experiments of the paper: every run stored, figures, tables, claims and a report.",
    ),
    "plot": Entry(
        "bench",
        "plot",
        "Draw figures (png, pdf), tables (csv, json) and report.html from the runs in a folder.",
    ),
    "bench": Entry(
        "bench",
        "bench",
        "Run problems × networks × methods × seeds; continues where an earlier run stopped.",
    ),
    "methods": Entry(
        "listing",
        "methods",
        "Every method: the problems it accepts, its messages and parameters; which are the same.",
    ),
    "warm": Entry(
        "warm",
        "warm",
        "Compile the kernels ahead, so that the first solve does not wait for them.",
    ),
    "info": Entry("listing", "info", "Versions, threads and where compiled kernels are kept."),
    "learn": Entry("learn", "learn_app", "Models of columns of several organisations."),
    "party": Entry("party", "party_app", "One party of a run between organisations."),
    "study": Entry("studies", "study_app", "Set up a study: public files, kits for sites."),
    "certificates": Entry(
        "tls_certificates", "certificates_app", "Keys and certificates of parties."
    ),
}
"""The commands by name, in the order of the help."""

GUIDE = """\
dual2: decentralised constraint-coupled optimisation.

  dual2 example trial            write an example: a public file, and one file per agent
  dual2 solve trial              solve it; the answer and its certificate
  dual2 theory trial             which methods apply, and what they are predicted to cost
  dual2 reproduce exp1           the paper's first experiment, with figures and a report
  dual2 methods                  every method: what it accepts, what it sends

dual2 --help lists all commands, dual2 COMMAND --help the options of one."""
"""What ``dual2`` alone prints."""


def load(name: str) -> Any:
    """The command of that name, imported now."""
    entry = COMMANDS[name]
    target = getattr(import_module(f"dual2.commands.{entry.module}"), entry.attribute)
    if isinstance(target, typer.Typer):
        command: Any = typer.main.get_group(target)
    else:
        alone = typer.Typer(add_completion=False)
        alone.command(name)(target)
        command = typer.main.get_command(alone)
    command.name = name
    return command


class OnDemand(TyperGroup):
    """A group that lists its commands from :data:`COMMANDS` and imports the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:
        """The command that the arguments name, in full instead of its place in the list."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest


app = typer.Typer(cls=OnDemand, add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def begin(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Decentralised constraint-coupled optimisation."""
    if version:
        print(f"dual2 {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(GUIDE)


def _listed() -> None:
    """The place of a command in the list."""


for _name, _entry in COMMANDS.items():
    app.command(_name, help=_entry.summary)(_listed)
