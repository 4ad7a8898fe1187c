"""A wheel of ``dual2-kernels``: kernels compiled for x86-64-v3, for the versions that are here.

    python packaging/kernels/build_kernels.py DIST [--all]

The wheel depends on exactly the versions of dual2, Numba, llvmlite and NumPy that it was made with.
Where a user has others, dual2 ignores it and compiles.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "dual2-kernels"
version = "{dual2}"
description = "Kernels of dual2 {dual2}, compiled for x86-64-v3"
requires-python = "=={python}.*"
license = "Apache-2.0"
dependencies = [{pins}]

[tool.hatch.build.targets.wheel]
packages = ["dual2_kernels"]

[tool.hatch.build.targets.wheel.hooks.custom]
"""
HOOK = """\
from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Tag(BuildHookInterface):
    def initialize(self, version, build_data):
        build_data["pure_python"] = False
        build_data["tag"] = "cp{tag}-none-manylinux_2_28_x86_64"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path, help="folder of the wheel")
    parser.add_argument("--all", action="store_true", help="kernels of every method")
    options = parser.parse_args()
    versions = {name: metadata.version(name) for name in ("dual2", "numba", "llvmlite", "numpy")}
    pins = ", ".join(f'"{name}=={version}"' for name, version in versions.items())
    major, minor = sys.version_info[:2]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        package = root / "dual2_kernels"
        package.mkdir()
        (package / "__init__.py").write_text('"""Kernels of dual2; see its documentation."""\n')
        line = [sys.executable, "-m", "dual2.cli", "warm", "--out", str(package)]
        subprocess.run(line + ["--all"] * options.all, check=True)
        text = PROJECT.format(dual2=versions["dual2"], python=f"{major}.{minor}", pins=pins)
        (root / "pyproject.toml").write_text(text)
        (root / "hatch_build.py").write_text(HOOK.format(tag=f"{major}{minor}"))
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir"]
        subprocess.run([*build, str(options.dist.resolve()), str(root)], check=True)


if __name__ == "__main__":
    main()
