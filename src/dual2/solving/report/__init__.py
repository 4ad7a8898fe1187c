"""One page about a run, to be opened in any browser without a network."""

from dual2.solving.report.run_page import write_report

__all__ = ["write_report"]
