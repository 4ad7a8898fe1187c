"""Functions, agents and networks as documents, and back.

A function becomes its name and its constructor's arguments, which are the fields of its dataclass:
``{function = "L1Norm", weight = 10.0}``; one made from another holds it under ``of``. So a new
function is stored without further code.
"""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from dual2.errors import ProblemError, counted, unknown_name
from dual2.functions import Function
from dual2.network import Network
from dual2.problem import Agent

NETWORK_ENTRIES = ("nodes", "edges", "weights")
"""What a network's table may hold."""

OF = "of"
"""Entry for the field ``function`` of a function made from another (``function`` is its name)."""


def encode(value: Any, where: str) -> Any:
    """Functions, arrays and plain values as a document; ``where`` names the place in errors."""
    if isinstance(value, Function) and type(value).__name__ in known_functions():
        fields = [field.name for field in dataclasses.fields(value) if field.init]  # type: ignore
        stored = {OF if name == "function" else name: getattr(value, name) for name in fields}
        return {"function": type(value).__name__} | encode(stored, where)
    if sp.issparse(value):
        csr = sp.csr_array(value)
        parts = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        return {"sparse": "csr", "shape": list(csr.shape)} | parts
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value if value.ndim else value.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        members = {k: encode(v, f"{where}, {k}") for k, v in value.items() if v is not None}
        return {str(k): v for k, v in members.items()}
    if isinstance(value, list | tuple):
        return [encode(member, where) for member in value]
    if isinstance(value, bool | int | float | str):
        return value
    raise ProblemError(
        f"{where}: a {type(value).__name__} cannot be written to a problem folder, only dual2's "
        "own functions with numbers, dense and sparse matrices. Keep the user's own Python "
        "functions and linear operators in a script that calls dual2.solve."
    )


def encode_agent(agent: Agent, where: str) -> dict[str, Any]:
    """The document of one agent."""
    return {name: encode(getattr(agent, name), f"{where}, {name}") for name in ("A", "f", "g")}


def encode_network(network: Network) -> dict[str, Any]:
    """Nodes, edges (pairs of positions in the nodes) and weights of a network."""
    if not isinstance(network, Network):
        raise ProblemError(f"The network is a {type(network).__name__}: expected a Network.")
    nodes = encode(list(network.nodes), "network, nodes")
    return {"nodes": nodes, "edges": network.edges, "weights": network.weights}


def decode(value: Any) -> Any:
    """The inverse of :func:`encode`."""
    if isinstance(value, list):
        return np.array(value) if _real(value) else [decode(member) for member in value]
    if not isinstance(value, dict):
        return value
    if "sparse" in value:
        parts = tuple(np.asarray(value[name]) for name in ("data", "indices", "indptr"))
        return sp.csr_array(parts, shape=tuple(value["shape"]))
    if "function" not in value:
        raise ProblemError(f"expected a table with an entry 'function', found {sorted(value)}.")
    name = value["function"]
    if name not in known_functions():
        raise ProblemError(unknown_name("function", str(name), sorted(known_functions())))
    arguments = {key: decode(member) for key, member in value.items() if key != "function"}
    if OF in arguments:
        arguments["function"] = arguments.pop(OF)
    return known_functions()[name](**arguments)


def _real(value: list[Any]) -> bool:
    """Whether a (nested) list holds real numbers, so that it stands for an array."""
    return any(isinstance(v, float) or (isinstance(v, list) and _real(v)) for v in value)


def decode_network(table: dict[str, Any]) -> Network:
    """A network from edges and, optionally, nodes (labels) and weights (a rule or numbers)."""
    for name in table:
        if name not in NETWORK_ENTRIES:
            raise ProblemError(unknown_name("entry of network", name, NETWORK_ENTRIES))
    edges = np.asarray(table["edges"], dtype=np.int64)
    edges = edges.reshape(0, 2) if edges.size == 0 else edges
    nodes = table.get("nodes", list(range(edges.max(initial=0) + 1)))
    weights = table.get("weights", "laplacian")
    numbers = np.ones(len(edges)) if isinstance(weights, str) else np.asarray(weights)
    if edges.ndim != 2 or edges.shape[1] != 2 or not np.isin(edges, range(len(nodes))).all():
        raise ProblemError(
            f"network: edges must be pairs of numbers from 0 to {len(nodes) - 1}, the positions "
            "of their ends in nodes."
        )
    if numbers.shape != (len(edges),):
        raise ProblemError(
            f"network: {counted(len(edges), 'edge')} and {counted(numbers.size, 'weight')} found; "
            "expected one weight per edge, in their order, or the name of a rule."
        )
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    for (i, j), number in zip(edges, numbers, strict=True):
        graph.add_edge(nodes[i], nodes[j], weight=float(number))
    if isinstance(weights, str):
        return Network(graph, weights)
    return Network(graph, [number for *_, number in graph.edges(data="weight")])


@cache
def known_functions() -> dict[str, type[Function]]:
    """The package's own functions by name."""
    found, queue = {}, [Function]
    while queue:
        for kind in queue.pop().__subclasses__():
            queue.append(kind)
            name, home = kind.__name__, kind.__module__
            if home.startswith("dual2.functions") and dataclasses.is_dataclass(kind):
                found[name] = kind
    return found
