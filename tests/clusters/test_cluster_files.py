"""Files for Slurm and Kubernetes: they parse, hang together, and run as far as they can here."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from test_documents import understand

FOLDER = Path(__file__).parents[2] / "packaging" / "cluster"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))


def documents(path):
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def pods(node):
    """Every specification of a pod in a manifest."""
    if isinstance(node, dict):
        if "containers" in node:
            yield node
        for value in node.values():
            yield from pods(value)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_hang_together(path):
    for document in documents(path):
        assert {"apiVersion", "kind", "metadata"} <= document.keys()
        for pod in pods(document):
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            for container in pod["containers"]:
                mounts = {mount["name"] for mount in container.get("volumeMounts", [])}
                assert mounts <= volumes
                for variable in container.get("env", []):
                    assert isinstance(variable["value"], str)


def test_the_indexed_job_names_its_pods_as_its_service_does():
    service, job = documents(FOLDER / "indexed_job.yaml")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"]["job-name"] == job["metadata"]["name"]
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    text = pod["containers"][0]["args"][0]
    count = job["spec"]["completions"]
    assert job["spec"]["parallelism"] == count
    assert f"for i in {' '.join(map(str, range(count)))}" in text and f"-n {count} " in text


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_commands_are_those_of_this_version(path):
    lines = re.findall(r"(dual2 (?:solve|warm)[^&|\n]*)", path.read_text(encoding="utf-8"))
    assert lines
    for line in lines:
        words = re.sub(r'"?\$\{?[\w@\[\]]+\}?"?', "", line)
        understand(" ".join(shlex.split(words)), whole=False)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_shell_in_manifests_parses(path):
    for document in documents(path):
        for pod in pods(document):
            for container in pod["containers"]:
                for text in container.get("args", []):
                    subprocess.run(["sh", "-n"], input=text, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_slurm_script_resumes_and_passes_signals_on(tmp_path):
    """With stand-ins for mpiexec and dual2: what it starts, and what it does with USR1."""
    tools = tmp_path / "bin"
    tools.mkdir()
    scripts = {
        "dual2": 'echo "$@" >> "$LOG"',
        "mpiexec": 'echo "mpiexec $@" >> "$LOG"\n'
        "trap 'echo asked >> \"$LOG\"; exit 3' USR1\nkill -USR1 $PPID\n"
        "for k in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; done",
    }
    for name, text in scripts.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    log, answer = tmp_path / "log", tmp_path / "answer.json"
    (tmp_path / "answer.json.d").mkdir()
    (tmp_path / "answer.json.d" / "rank-0.700.npz").touch()
    variables = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "LOG": str(log)}
    variables |= {"SLURM_NTASKS": "4"}
    line = ["bash", str(FOLDER / "solve.slurm"), "problem", str(answer)]
    done = subprocess.run(line, env=variables, timeout=60)
    said = log.read_text().splitlines()
    assert said[0] == "warm" and said[-1] == "asked" and done.returncode == 3
    assert said[1] == f"mpiexec -n 4 dual2 solve problem --out {answer} --gather --resume"
