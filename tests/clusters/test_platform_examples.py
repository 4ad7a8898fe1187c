"""The launchers for platforms that people already operate, where these are installed."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import networkx as nx
import pytest

import dual2 as d2

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.skipif(find_spec("nvflare") is None, reason="needs the package nvflare")
def test_nvflare_sites_find_what_one_process_finds():
    program = EXAMPLES / "nvflare" / "run.py"
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, program, "--sites", "3"],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"site"')]
    answers.sort(key=lambda answer: answer["site"])
    assert len(answers) == 3, done.stdout + done.stderr
    spec = spec_from_file_location("sites", program.with_name("sites.py"))
    assert spec is not None and spec.loader is not None
    sites = module_from_spec(spec)
    spec.loader.exec_module(sites)
    problem = d2.Problem([sites.agent_of(k) for k in range(3)], sites.public_loss())
    result = d2.solve(problem, d2.Network(nx.path_graph(3)), method="Newton")
    for k, answer in enumerate(answers):
        assert answer["status"] == "CONVERGED"
        assert answer["x"] == result.x[k].tolist()  # the same bits


def test_the_examples_of_platforms_are_python():
    for file in (EXAMPLES / "nvflare").glob("*.py"):
        compile(file.read_text(encoding="utf-8"), str(file), "exec")
