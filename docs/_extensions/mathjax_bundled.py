"""Mathematics without a network: MathJax from a package beside the pages, not from a server.

Of the package sphinx-mathjax-offline only the one script that is needed is copied, with the small
extensions that it may load on demand.
"""

from importlib.util import find_spec
from pathlib import Path

from sphinx.util.fileutil import copy_asset

SCRIPT = "tex-svg.js"
PARTS = (SCRIPT, "input/tex/extensions")


def copy_mathjax(app, error) -> None:
    """Copy it into the built site."""
    if error is not None or app.builder.format != "html":
        return
    found = find_spec("sphinx-mathjax-offline")
    if found is None or found.origin is None:
        raise RuntimeError("The documentation needs sphinx-mathjax-offline: pip install '.[docs]'.")
    source, target = (
        Path(found.origin).parent / "static" / "mathjax",
        Path(app.outdir) / "_static" / "mathjax",
    )
    for part in PARTS:
        folder = target / part if (source / part).is_dir() else (target / part).parent
        copy_asset(str(source / part), str(folder))


def setup(app) -> dict:
    """Called by Sphinx."""
    app.setup_extension("sphinx.ext.mathjax")
    app.config.mathjax_path = f"mathjax/{SCRIPT}"
    app.connect("build-finished", copy_mathjax)
    return {"parallel_read_safe": True}
