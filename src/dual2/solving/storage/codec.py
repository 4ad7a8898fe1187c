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

from dual2.errors import Dual2Error, ProblemError, unknown_name
from dual2.functions import Function
from dual2.network import Network
from dual2.problem import Agent
from dual2.solving.storage.array_tables import read_network, read_numbers, read_sparse

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


def decode(value: Any, where: str) -> Any:
    """The inverse of :func:`encode`; ``where`` names the place in errors."""
    if isinstance(value, list):
        if _real(value):
            return read_numbers(value, where)
        return [decode(member, f"{where}[{k}]") for k, member in enumerate(value)]
    if isinstance(value, bool | str):
        raise ProblemError(f"{where} is {value!r}; expected a number, an array or a table.")
    if not isinstance(value, dict):
        return value
    if "sparse" in value:
        return read_sparse(value, where, dense=where != "A")
    if "function" not in value:
        raise ProblemError(
            f"{where}: expected a table with an entry 'function', found {sorted(value)}."
        )
    name = value["function"]
    if not isinstance(name, str) or name not in known_functions():
        raise ProblemError(
            f"{where}: {unknown_name('function', str(name), sorted(known_functions()))}"
        )
    members = {key: member for key, member in value.items() if key != "function"}
    arguments = {key: decode(member, f"{where}.{key}") for key, member in members.items()}
    return _make(name, arguments, where)


def _make(name: str, arguments: dict[str, Any], where: str) -> Function:
    """A function from the entries of its table."""
    fields = [field for field in dataclasses.fields(known_functions()[name]) if field.init]  # type: ignore
    entries = {OF if field.name == "function" else field.name: field for field in fields}
    for entry in sorted(arguments.keys() - entries.keys()):
        raise ProblemError(f"{where}: {unknown_name(f'entry of {name}', entry, list(entries))}")
    unset = dataclasses.MISSING
    lacking = [
        key for key, field in entries.items() if field.default is field.default_factory is unset
    ]
    for entry in [key for key in lacking if key not in arguments]:
        raise ProblemError(f"{where}: {name} lacks its entry {entry!r}.")
    if OF in arguments:
        arguments["function"] = arguments.pop(OF)
    try:
        return known_functions()[name](**arguments)
    except Dual2Error as error:
        raise ProblemError(f"{where}: {error}") from error
    except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
        raise ProblemError(f"{where}: {name} cannot be made of this: {error}") from error


def _real(value: list[Any]) -> bool:
    """Whether a (nested) list holds real numbers, so that it stands for an array."""
    return any(isinstance(v, float) or (isinstance(v, list) and _real(v)) for v in value)


def decode_network(table: Any) -> Network:
    """A network from edges and, optionally, nodes (labels) and weights (a rule or numbers)."""
    nodes, edges, weights = read_network(table)
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    numbers = np.ones(len(edges)) if isinstance(weights, str) else weights
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
