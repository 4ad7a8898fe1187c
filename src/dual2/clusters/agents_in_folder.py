"""Problem folders for workers of a cluster: each worker reads the files of its own agents."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dual2.errors import CapabilityError
from dual2.files import write_atomically
from dual2.network import AnyNetwork
from dual2.problem import Agent
from dual2.runtime.cluster import Cluster, RemoteProblem
from dual2.solving.storage import load_agents, load_public, to_json

ENGINES = ("threads", "ray", "dask")


@dataclass(frozen=True)
class AgentsInFolder:
    """Loads agent i from a problem folder, and writes ``OUT/<i>.json`` in the worker.

    Attributes
    ----------
    folder : Path
        Problem folder, under the same path in every worker.
    out : Path, optional
        Where answers go.
    """

    folder: Path
    out: Path | None = None

    def __call__(self, i: int) -> Agent:
        """Agent i; no file of another agent is opened."""
        return load_agents(self.folder, [i])[i]

    def save(self, i: int, x: np.ndarray) -> None:
        """Write the answer of agent i."""
        if self.out is not None:
            write_atomically(self.out / f"{i}.json", to_json({"agent": i, "x": x.tolist()}))


def problem_in_folder(
    folder: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    gather: bool = False,
) -> tuple[RemoteProblem, AnyNetwork, dict[str, Any]]:
    """The problem of a folder for a cluster, its network, and its options of ``solve``.

    The driver reads the public file only.

    Parameters
    ----------
    folder : path
        Problem folder, under the same path in every worker.
    out : path, optional
        Folder in which each worker writes the answers of its agents.
    gather : bool
        Whether the driver gets every x_i.
    """
    h, network, options = load_public(folder)
    agents = AgentsInFolder(Path(folder).absolute(), None if out is None else Path(out).absolute())
    return RemoteProblem(agents, h, network.n, agents.save, gather), network, options


def cluster_named(text: str, address: str | None = None) -> Cluster:
    """``ENGINE:WORKERS``, for instance ``ray:4``; ``address`` is that of a running cluster.

    Examples
    --------
    >>> type(cluster_named("threads:2")).__name__
    'Threads'
    """
    engine, _, workers = text.partition(":")
    if engine not in ENGINES or not workers.isdigit() or int(workers) < 1:
        raise CapabilityError(
            f"--cluster {text!r} found; expected ENGINE:WORKERS with an engine of "
            f"{', '.join(ENGINES)}, for instance ray:4."
        )
    if engine == "threads":
        from dual2.clusters.thread_cluster import Threads

        if address is not None:
            raise CapabilityError("--address is for Ray and Dask; threads are in this process.")
        return Threads(int(workers))
    if engine == "ray":
        from dual2.clusters.ray_cluster import Ray

        return Ray(int(workers), address)
    from dual2.clusters.dask_cluster import Dask, load_distributed

    client = None if address is None else load_distributed().Client(address)
    return Dask(int(workers), client)
