"""Pages that are written before a build: names that a package exports, and one per method."""

from pathlib import Path

import api_pages
import method_pages

EXTENSIONS = (api_pages, method_pages)


def write_pages(app, config) -> None:
    """Write what has changed, so that an incremental build reads little."""
    for extension in EXTENSIONS:
        folder = Path(app.srcdir) / extension.FOLDER
        folder.mkdir(exist_ok=True)
        for name, text in extension.pages().items():
            path = folder / (name if "." in name else f"{name}.md")
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")


def setup(app) -> dict:
    """Called by Sphinx; the pages must be there before it looks for pages."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True}
