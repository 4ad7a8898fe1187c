"""The report: one page with everything in it, to be opened in any browser without a network."""

from dual2.paper.report.page import page

__all__ = ["page"]
