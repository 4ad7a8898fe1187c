"""Compile the kernels once, before several workers would each compile them.

``python warm_up.py PART`` solves small problems with one half of the methods, so that two processes
side by side fill the cache without doing the same work. The halves are those that take equally long
to compile.
"""

import hashlib
import os
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding
import networkx as nx
import numpy as np

import dual2 as d2
from dual2.compiled import cache_directory

SUBSOLVERS = ("iDAPG", "exact", "PDPG", "LPD", "APDG", "ABPD-PGS", "Salim")
GOSSIP = ("NPGA", "DCDA", "iD2GT", "APAPC", "Nedic")
"""Families of methods that are compiled beside the subsolvers."""
PARTS = ("gossip", "others")


def problem(g: d2.Function) -> d2.Problem:
    """Σ A_i x_i = b with full-rank A_i, or A_i = I where a method wants that."""
    rng = np.random.default_rng(0)
    agents = [d2.Agent(np.eye(2), d2.Quadratic(rng.uniform(1, 2, 2)), g) for _ in range(3)]
    return d2.Problem(agents, d2.IndicatorPoint([0.1, 0.2]))


def mark() -> Path | None:
    """A file beside the kernels that says that those of this text and processor are there."""
    folder = cache_directory()
    if folder is None:
        return None
    processor = os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()
    text = processor.encode() + Path(__file__).read_bytes()
    return folder / f"warm-{hashlib.sha256(text).hexdigest()[:12]}"


def run(wishes: list[dict[str, Any]]) -> None:
    """Solve small problems, as far as the methods take them."""
    for wish in wishes:
        for g in (d2.Zero(), d2.L2Norm(0.1)):
            try:
                network = d2.Network(nx.path_graph(3))
                d2.solve(problem(g), network, max_rounds=20, record=False, **wish)
            except d2.CapabilityError:
                continue


def load() -> None:
    """Load the kernels of the methods that tests start in processes."""
    run([{"method": "Newton", "sums": "exact"}, {"method": "iD2A"}, {"method": "NPGA-EXTRA"}])


def main(part: str) -> None:
    """One half of what the tests will need."""
    names = [name for name in d2.METHODS if name not in ("iD2A", "MiD2A")]
    gossip = [name for name in names if name.startswith(GOSSIP)]
    if part == "gossip":
        wishes = [{"method": "iD2A", "subsolver": name} for name in SUBSOLVERS]
        wishes += [wish | {"rho": 0} for wish in wishes]
        wishes += [{"method": name} for name in gossip]
    else:
        wishes = [{"method": name} for name in names if name not in gossip]
        wishes.append({"method": "Newton", "sums": "exact"})
    run(wishes)


if __name__ == "__main__":
    main(sys.argv[1])
