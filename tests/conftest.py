"""Make the helpers beside the tests (``problems``) importable from every test file."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
