"""The templates of reports: one look, everything inside the page, texts from outside escaped."""

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from dual2.solving.plotting import require
from dual2.solving.report.curves import GLYPHS, STROKES
from dual2.solving.report.words import mathematics, number
from dual2.solving.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = "dual2.solving.report"


@cache
def templates(package: str = HERE) -> "Environment":
    """Templates of a package and of this one, with everything that does not change."""
    require("jinja2")
    from jinja2 import ChoiceLoader, Environment, PackageLoader
    from markupsafe import Markup

    loader = ChoiceLoader([PackageLoader(name, "") for name in (package, HERE)])
    found = Environment(autoescape=True, loader=loader, trim_blocks=True, lstrip_blocks=True)
    found.filters |= {"number": number, "mathematics": lambda text: Markup(mathematics(text))}
    found.globals |= {"css": Markup(_file("report.css")), "script": Markup(_file("report.js"))}
    found.globals |= {"plotting": lambda light: Markup(_plotting_script(bool(light)))}
    found.globals |= {"version": __version__, "strokes": STROKES, "glyphs": GLYPHS}
    return found


def _plotting_script(light: bool) -> str:
    """What draws the curves of a page: plotly.js, or a small script without zoom."""
    if light:
        return _file("light.js")
    require("plotly")
    from plotly.offline import get_plotlyjs

    return get_plotlyjs().replace("</script", "<\\/script")


def _file(name: str) -> str:
    return resources.files(HERE).joinpath(name).read_text(encoding="utf-8")
