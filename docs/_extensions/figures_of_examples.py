"""Figures that an example of the gallery has made: among its variables, or pyplot's own."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

SEEN = "__figures_shown__"


def scrape(block, block_vars, gallery_conf) -> str:
    """Save the figures that a block has added, and show them below it."""
    names, paths = block_vars["example_globals"], []
    shown = names.setdefault(SEEN, [])
    own = [value for value in names.values() if isinstance(value, Figure)]
    for figure in [*own, *map(plt.figure, plt.get_fignums())]:
        if all(figure is not other for other in shown):
            shown.append(figure)
            path = next(block_vars["image_path_iterator"])
            figure.savefig(path, dpi=120)
            paths.append(path)
    plt.close("all")  # the next example begins with none
    return figure_rst(paths, gallery_conf["src_dir"])


def sphinx_gallery_scrape():
    """What sphinx-gallery asks a module of scrapers for."""
    return scrape


_get_sg_image_scraper = sphinx_gallery_scrape
