import os
import posixpath
import re
import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))
os.environ.setdefault("MPLBACKEND", "Agg")

project = "dual2"
author = "The dual2 authors"
copyright = "The dual2 authors"
version = release = installed("dual2")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
    "numpydoc",
    "mathjax_bundled",
    "generated_pages",
    "search_texts",
]
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = [
    "_build",
    "_extensions",
    "_templates",
    "gallery/*.ipynb",
    "peers_table.md",
    "**/GALLERY_HEADER.rst",
]
templates_path = ["_templates"]
bibtex_bibfiles = ["references.bib"]
bibtex_default_style = "unsrt"
bibtex_reference_style = "author_year"

autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
if not any(re.search(r"\s", str(file.relative_to(EXAMPLES))) for file in EXAMPLES.rglob("*")):
    # The gallery takes a space in the path above the examples for one in their own names.
    suppress_warnings = ["sphinx_gallery.space_in_filename"]

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "parallel": True,
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__",
    "image_scrapers": ("figures_of_examples",),
    "matplotlib_animations": False,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "copyfile_regex": r".*\.rst",
}

html_theme = "furo"
html_title = f"dual2 {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
html_show_sourcelink = True
html_show_search_summary = False  # search.js shows texts that need no server
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#00629b", "color-brand-content": "#00629b"},
    "dark_css_variables": {"color-brand-primary": "#6db9e8", "color-brand-content": "#6db9e8"},
}


def escape_bars(app, what, name, obj, options, lines):
    """Norms are written |x| in docstrings, which reStructuredText would take for substitutions."""
    for k, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(``.*?``)", line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[k] = "".join(parts)


def mend_links_of_sources(app, pagename, templatename, context, doctree):
    """From a source back to its page: to the top of it where it has the object by another name."""
    objects, folder = app.env.domaindata["py"]["objects"], posixpath.dirname(pagename)

    def mended(link: re.Match[str]) -> str:
        whole, page, anchor = link[0], link[1], link[2]
        found = objects.get(anchor)
        there = posixpath.normpath(posixpath.join(folder, page)).removesuffix(".html")
        here = found and (found.docname, found.node_id) == (there, anchor)
        return whole if here else whole.replace(f"#{anchor}", "")

    if pagename.startswith("_modules/"):
        link = r'<a class="viewcode-back" href="([^"#]*)#([^"]*)"'
        context["body"] = re.sub(link, mended, context["body"])


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars)
    app.connect("html-page-context", mend_links_of_sources)
