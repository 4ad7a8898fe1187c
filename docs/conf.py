import re
from importlib.metadata import version as installed

project = "dual2"
author = "The dual2 authors"
copyright = "The dual2 authors"
version = release = installed("dual2")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "furo"
html_title = f"dual2 {release}"


def escape_bars(app, what, name, obj, options, lines):
    """Norms are written |x| in docstrings, which reStructuredText would take for substitutions."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[k] = "".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
