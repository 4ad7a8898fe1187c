"""What the processes that scripts start begin with."""

import sys

PYTHON = (sys.executable,)
"""The interpreter, and its first arguments."""
