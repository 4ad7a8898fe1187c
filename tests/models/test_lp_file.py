"""Files in the LP format, and errors that name the line."""

import math

import numpy as np
import pytest

import dual2 as d2
from dual2.models import read_lp

FULL = r"""\ a remark
Maximize
 profit: 3 x + 2.5e0 y - z + 4 + [ 2 x^2 - 4 x * y
   + 6 y^2 ] / 2
Subject To
 c1: x + y + z <= 10
 c2: - x + 2 * y >= -3
 x - y = 1
 band: 2 <= x + z <= 5
 R1: 3 >= z
Bounds
 x <= 4
 -5 <= y <= 5
 z free
 w >= -inf
 v = 2
 -1 >= u
End
"""


def read(tmp_path, text, **options):
    path = tmp_path / "m.lp"
    path.write_text(text)
    return read_lp(path, **options)


def test_every_part_of_the_format(tmp_path):
    model = read(tmp_path, FULL)
    assert model.maximise and model.constant == 4.0
    assert model.variables == ("x", "y", "z", "w", "v", "u")
    assert model.constraints == ("c1", "c2", "R3", "band", "R1")
    assert model.c.tolist() == [3, 2.5, -1, 0, 0, 0]
    assert model.Q.toarray()[:2, :2].tolist() == [[2, -2], [-2, 6]]
    assert model.row_lower.tolist() == [-math.inf, -3, 1, 2, -math.inf]
    assert model.row_upper.tolist() == [10, math.inf, 1, 5, 3]
    assert model.A.toarray()[1].tolist() == [-1, 2, 0, 0, 0, 0]
    assert model.lower.tolist() == [0, -5, -math.inf, -math.inf, 2, -math.inf]
    assert model.upper.tolist() == [4, 5, math.inf, math.inf, 2, -1]


def test_whole_variables(tmp_path):
    text = "min\n x + y + z\nst\n x + y >= 1\nbounds\n y <= 7\ngeneral\n y\nbinary\n z\nend\n"
    with pytest.raises(d2.ProblemError, match=r"line 8: the variable 'y' must be whole \(2 such"):
        read(tmp_path, text)
    model = read(tmp_path, text, relax=True)
    assert model.upper.tolist() == [np.inf, 7, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + y\nend\n", "line 1: expected Minimize or Maximize"),
        ("min\n x\nst\n x >= 1\n", "without End"),
        ("min\n x\nst\n x + y >= y\nend\n", "line 4: 'y' is not a number"),
        ("min\n x\nst\n 3 >= 1\nend\n", "line 4: constraint 'R1' has no variables"),
        ("min\n x\nst\n c: x\nend\n", "line 4: the section ends in the middle"),
        ("min\n x\nst\n c: x y\nend\n", "line 4: expected <=, >= or =; found 'y'"),
        ("min\n x\nst\n c: 1 <= x <= 0\nend\n", "line 4: the ends of constraint 'c' exclude"),
        ("min\n x\nst\n c: 1 <= x >= 2\nend\n", "line 4: the range of constraint 'c'"),
        ("min\n x\nst\n c: [ x^2 ] <= 1\nend\n", "line 4: quadratic constraints"),
        ("min\n [ x^3 ] / 2\nst\nend\n", "line 2: x has a power other than 2"),
        ("min\n [ x ^ 2 ] / 3\nst\nend\n", r"line 2: expected \] / 2"),
        ("min\n [ 3 ] / 2\nst\nend\n", "line 2: brackets hold squares"),
        ("min\n x x\nst\nend\n", "line 2: 'x' does not belong to an objective"),
        ("min\n x + <= 1\nst\nend\n", "line 2: expected a number or a variable"),
        ("min\n x\nst\n c: x >= 1\n c: x >= 2\nend\n", "line 5: the row 'c' is declared twice"),
        ("min\n x\nst\n x >= 1\nbounds\n 3 <= 4\nend\n", "line 6: expected the name"),
        ("min\n x\nst\n x >= 1\nsos\n", "line 5: the section 'sos' has no place"),
        ("min\n x\nst\n x §  1\nend\n", "line 4: '§  1' is no name"),
    ],
)
def test_errors_name_the_line(text, message, tmp_path):
    with pytest.raises(d2.ProblemError, match=rf"m\.lp, .*{message}"):
        read(tmp_path, text)
