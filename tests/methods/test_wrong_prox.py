"""A user's prox that returns a wrong shape ends every method with one clear error."""

import networkx as nx
import numpy as np
import pytest

import dual2 as d2
from dual2.errors import CapabilityError, ProblemError
from dual2.methods.registry import AUTO, METHODS

NETWORK = d2.Network(nx.cycle_graph(4))
POINT, LOSS = d2.IndicatorPoint(np.ones(2)), d2.SquaredLoss(np.ones(2))
IDENTITY_NEEDED, ZERO_NEEDED = {"Nedic"}, {"iD2GT", "APAPC", "APAPC-Chebyshev", "IDEA", "VF-L-BFGS"}
REFUSING = {*IDENTITY_NEEDED, *ZERO_NEEDED, "Proj-IDEA", "Newton", "interior-point", "NPGA"}
"""Methods that take no function that is known by its prox alone, or need matrices of their own."""


def _too_short(v, step):
    return v[:1]


@pytest.mark.parametrize("method", [*METHODS, AUTO])
@pytest.mark.parametrize("position", [0, 3])
def test_a_prox_of_wrong_shape_is_named_before_the_first_iteration(method, position):
    reported = []
    proxes = [d2.L1Norm(0.1)] * 4
    proxes[position] = d2.Proximable(_too_short, value=lambda x: 0.0)
    rng = np.random.default_rng(0)
    agents = [d2.Agent(rng.standard_normal((2, 3)), d2.SquaredNorm(1.0), g) for g in proxes]
    h = POINT if method not in METHODS or not METHODS[method].needs.h.lack(POINT) else LOSS
    expected = CapabilityError if method in REFUSING else ProblemError
    with pytest.raises(expected) as caught:
        d2.solve(d2.Problem(agents, h), NETWORK, method=method, callback=reported.append)
    assert reported == []
    if expected is ProblemError:
        assert "prox returned shape (1,) for an argument of shape (3,)" in str(caught.value)
