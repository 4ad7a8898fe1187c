"""Compile the kernels once, before several workers would each compile them.

``python warm_up.py PART`` solves small problems with one half of the methods, so that two processes
side by side fill the cache without doing the same work. The halves are those that take equally long
to compile.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite.binding
import networkx as nx
import numpy as np

import dual2 as d2
from dual2 import power as dispatch
from dual2.kernel_cache import cache_directory

SUBSOLVERS = ("iDAPG", "exact", "PDPG", "LPD", "APDG", "ABPD-PGS", "Salim")
GOSSIP = ("NPGA", "DCDA", "iD2GT", "APAPC", "Nedic")
"""Families of methods that are compiled beside the subsolvers."""
PARTS = ("gossip", "others")


def problems() -> Iterator[d2.Problem]:
    """Σ A_i x_i = b, where a method may want full-rank A_i or A_i = I, and a loss."""
    rng = np.random.default_rng(0)
    costs = [d2.Quadratic(rng.uniform(1, 2, 2)) for _ in range(3)]
    point, loss = d2.IndicatorPoint([0.1, 0.2]), d2.SquaredLoss([0.1, 0.2])
    for g, h in ((d2.Zero(), point), (d2.L2Norm(0.1), point), (d2.L1Norm(0.1), loss)):
        yield d2.Problem([d2.Agent(np.eye(2), f, g) for f in costs], h)


def schedule() -> None:
    """Generators with ramps and reserve: polyhedra, and chains."""
    units = [
        dispatch.Generator(name, (cost, 20.0), p_max=80.0, ramp=30.0, reserve_max=most)
        for name, cost, most in (("a", 0.0, 30.0), ("b", 0.01, 5.0), ("c", 0.02, 0.0))
    ]
    for reserve in (20.0, None):
        graph = [(0, 1), (1, 2)]
        dispatch.Dispatch(units, [80.0, 90.0, 85.0], graph=graph, reserve=reserve).solve()


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
    network = d2.Network(nx.path_graph(3))
    for wish in wishes:
        for problem in problems():
            with suppress(d2.CapabilityError):
                d2.solve(problem, network, max_rounds=20, record=False, progress=False, **wish)


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
        schedule()
    run(wishes)


if __name__ == "__main__":
    main(sys.argv[1])
