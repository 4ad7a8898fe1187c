"""The oldest versions that ``pyproject.toml`` allows work: installed in an environment, and tried.

    python tests/oldest_check.py            # with the interpreter that runs it

Every ``name>=version`` of the dependencies becomes ``name==version``; the package comes from
the tree. Tried are solves with the common kernels, warnings being errors, and the command line.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOLVES = """\
import numpy as np, dual2 as d2
agents = [d2.Agent(np.eye(2), d2.Quadratic([1.0, w]), d2.L1Norm(0.1)) for w in (1.0, 2.0)]
for h in (d2.SquaredLoss([1.0, 2.0]), d2.IndicatorPoint([1.0, 2.0]), d2.LogisticLoss([1.0, -1.0])):
    for method in ("auto", "iD2A"):
        result = d2.solve(d2.Problem(agents, h), d2.Network([(0, 1)]), method=method)
        assert result.status == "CONVERGED", (h, method, result.summary)
print("solved")
"""


def oldest(dependencies: list[str]) -> list[str]:
    """The lower bounds as pins.

    >>> oldest(["numpy>=2.1", "typer>=0.12"])
    ['numpy==2.1', 'typer==0.12']
    """
    pins = [re.fullmatch(r"([\w.-]+)>=([\d.]+)", text) for text in dependencies]
    if not all(pins):
        raise SystemExit(f"Each dependency needs one lower bound; found {dependencies}.")
    return [f"{pin[1]}=={pin[2]}" for pin in pins if pin]


def run(*line: object, cwd: Path = ROOT) -> None:
    """Run a command; end if it fails."""
    if subprocess.run([str(part) for part in line], cwd=cwd).returncode:
        raise SystemExit(f"failed: {' '.join(map(str, line))}")


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = oldest(project["dependencies"])
    with tempfile.TemporaryDirectory() as folder:
        run(sys.executable, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        install = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*install, *pins)
        run(*install, "--no-deps", ROOT)
        run(python, "-W", "error", "-c", SOLVES, cwd=Path(folder))
        for line in ("info", "--help", "example trial", "solve trial --out x.json"):
            run(python, "-m", "dual2.cli", *line.split(), cwd=Path(folder))
    print(f"works with {', '.join(pins)}")


if __name__ == "__main__":
    main()
