"""The saddle table: rows, conditions, and values transcribed by hand."""

import math
from dataclasses import replace

import pytest

from dual2.errors import CapabilityError
from dual2.theory import SaddleNumbers, saddle_complexities
from dual2.theory.saddle_table import CASES, SADDLE_BOUNDS

C = SaddleNumbers(
    L_x=90.0, mu_x=2.0, L_y=7.0, mu_y=0.5, S=11.0, s=3.0, s_plus=3.0, mu_phi=0.4, lambda_P=13.0,
    f2_zero=True, g2_zero=True, g3_zero=True, linear=True,
)  # fmt: skip
EPS = 1e-3
KX, KY, KXY, KB = 45.0, 14.0, 121.0, 121 / 9
KXY1, KXY2, KXY3 = 630 / 9, 630 / 13, 121 / 13
LOG = math.log(1000.0)
R = math.sqrt


def both(value):
    return value, value


CONCAVE = max(R(KX) * LOG, 11 / R(2e-3), R(7000))
STRONG = max(R(KX), R(KXY), R(KY)) * LOG
DUAL = max(R(7 / 0.4), 11 / R(2 * 0.4)) * LOG
FULL = max(R(KXY1), R(KX * KB)) * LOG
AUGMENTED = max(R(KXY2), R(KX * KXY3)) * LOG
WANTED = {
    ("concave", "LPD"): both(max(R(90000), 11 / R(2e-3), R(7000))),
    ("concave", "ABPD-PGS"): both(CONCAVE),
    ("concave", "lower bound"): both(CONCAVE),
    ("strongly concave", "LPD"): both(STRONG),
    ("strongly concave", "ABPD-PGS"): both(STRONG),
    ("strongly concave", "APDG"): both(STRONG),
    ("strongly concave", "iDAPG"): (R(KX) * max(R(KXY), R(KY)) * LOG, max(R(KXY), R(KY)) * LOG),
    ("strongly concave", "lower bound"): both(STRONG),
    ("full rank", "APDG"): both(max(R(KXY1), R(KX * KB), KB) * LOG),
    ("full rank", "iDAPG"): (R(KX) * FULL, FULL),
    ("linear", "Salim"): (R(KX) * LOG, R(KX * KB) * LOG),
    ("linear", "APDG"): both(R(KX * KB) * LOG),
    ("linear", "iDAPG"): (KX * R(KB) * LOG, R(KX * KB) * LOG),
    ("linear", "lower bound"): (R(KX) * LOG, R(KX * KB) * LOG),
    ("augmented", "PDPG"): both(max(KXY2, KX * KXY3) * LOG),
    ("augmented", "iDAPG"): (R(KX) * AUGMENTED, AUGMENTED),
    ("dual", "iDAPG"): (R(KX) * DUAL, DUAL),
}


def test_every_row_of_the_paper_is_there():
    # Lines of the printed table: 3 concave, 4 strongly concave (LPD and ABPD-PGS share the first),
    # 2 full rank, 4 linear, 2 under the last assumption, 1 dual: 16 lines, 17 rows.
    assert len(SADDLE_BOUNDS) == len(WANTED) == 17
    assert {bound.case for bound in SADDLE_BOUNDS} == set(CASES)
    assert sum(bound.algorithm == "lower bound" for bound in SADDLE_BOUNDS) == 3


def test_values():
    found = {(r.case, r.algorithm): (r.oracle_a, r.oracle_b) for r in saddle_complexities(C, EPS)}
    assert set(found) == set(WANTED)
    for key, wanted in WANTED.items():
        assert found[key] == pytest.approx(wanted, rel=1e-12), key


def test_lower_bounds_are_below_what_they_bound():
    rows = saddle_complexities(C, EPS)
    lowest = {r.case: max(r.oracle_a, r.oracle_b) for r in rows if r.algorithm == "lower bound"}
    for row in rows:
        assert max(row.oracle_a, row.oracle_b) >= lowest.get(row.case, 0.0) * (1 - 1e-12)


@pytest.mark.parametrize(
    "change, lost",
    [
        ({"mu_y": 0.0}, {"strongly concave"}),
        ({"s": 0.0}, {"full rank"}),
        ({"linear": False}, {"linear"}),
        ({"f2_zero": False}, {"full rank", "linear", "augmented"}),
        ({"lambda_P": 0.0}, {"augmented"}),
        ({"mu_phi": 0.0}, {"dual"}),
    ],
)
def test_cases_need_their_assumptions(change, lost):
    applies = {row.case for row in saddle_complexities(replace(C, **change)) if row.applies}
    assert applies == set(CASES) - lost


def test_prox_excludes_apdg():
    rows = saddle_complexities(replace(C, g2_zero=False))
    assert not [row for row in rows if row.applies and row.algorithm == "APDG"]
    reason = {row.reason for row in rows if row.algorithm == "APDG" and row.case == "full rank"}
    assert reason == {"needs g_2 = 0"}


def test_strong_convexity_of_the_dual_is_inferred():
    c = replace(C, mu_phi=None, lambda_P=None)
    assert c.symbols["μ_φ"] == 0.5
    assert replace(c, mu_y=0.0).symbols["μ_φ"] == pytest.approx(9 / 90)
    assert replace(c, mu_y=0.0, f2_zero=False).symbols["μ_φ"] == 0.0


def test_bad_arguments():
    with pytest.raises(CapabilityError, match="mu_x = 0"):
        saddle_complexities(replace(C, mu_x=0.0))
    with pytest.raises(CapabilityError, match="eps"):
        saddle_complexities(C, 2.0)
