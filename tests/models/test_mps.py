"""MPS and QPS files: every rule of the format, and errors that name the line."""

import gzip

import numpy as np
import pytest
import scipy.optimize

import dual2 as d2
from dual2.models import read_model, read_mps

FULL = """* a remark
NAME          SAMPLE
OBJSENSE
    MAX
ROWS
 N  COST
 E  BALANCE
 L  LIMIT
 G  FLOOR
 N  OTHER
 E  BAND
 E  SHAFT
COLUMNS
    X  COST  1.0  BALANCE  1.0
    X  LIMIT  2.0  OTHER  9.0
    Y  COST  -3.0  BALANCE  1.0
    Y  FLOOR  1.0
    Z  BAND  1.0  SHAFT  1.0
    W  LIMIT  1.0
RHS
    RHS  BALANCE  4.0  COST  5.0
    RHS  LIMIT  8.0  FLOOR  1.0
    RHS  BAND  2.0  SHAFT  2.0
    OLD  LIMIT  99.0
RANGES
    RNG  LIMIT  3.0  FLOOR  -2.0
    RNG  BAND  1.5  SHAFT  -1.5
BOUNDS
 UP BND  X  -1.0
 MI BND  Y
 UP BND  Y  1e30
 FR BND  Z
 LO BND  W  -2
 UP BND  W  -1
ENDATA
"""


def write(tmp_path, text, name="m.mps"):
    path = tmp_path / name
    path.write_text(text)
    return path


def small(columns="", rhs="", bounds="", rows="", tail=""):
    return (
        f"NAME SMALL\nROWS\n N c\n L r\n{rows}COLUMNS\n x c 1 r 1\n y r 2\n{columns}RHS\n{rhs}"
        f"BOUNDS\n{bounds}{tail}ENDATA\n"
    )


def test_every_rule_of_the_format(tmp_path):
    model = read_mps(write(tmp_path, FULL))
    assert model.name == "SAMPLE" and model.maximise
    assert model.variables == ("X", "Y", "Z", "W")
    assert model.constraints == ("BALANCE", "LIMIT", "FLOOR", "BAND", "SHAFT")
    assert model.c.tolist() == [1, -3, 0, 0] and model.constant == -5.0
    assert model.row_lower.tolist() == [4, 5, 1, 2, 0.5]
    assert model.row_upper.tolist() == [4, 8, 3, 3.5, 2]
    assert model.lower.tolist() == [-np.inf, -np.inf, -np.inf, -2]
    assert model.upper.tolist() == [-1, np.inf, np.inf, -1]
    assert model.A.toarray()[1].tolist() == [2, 0, 0, 1]
    notes = "; ".join(model.notes)
    assert "OTHER" in notes and "'OLD' was ignored" in notes and "X ≤ -1" in notes


def test_packed_and_fixed_files_with_blanks_in_names(tmp_path):
    text = (
        "NAME          BLANKS\nROWS\n N  MY COST\n L  MY ROW\nCOLUMNS\n"
        "    MY COL    MY COST            2.0   MY ROW             1.0\n"
        "RHS\n              MY ROW             4.0\nBOUNDS\n UP           MY COL             3.0\n"
        "ENDATA\n"
    )
    path = tmp_path / "blanks.mps.gz"
    path.write_bytes(gzip.compress(text.encode("latin-1")))
    model = read_model(path)
    assert model.variables == ("MY COL",) and model.constraints == ("MY ROW",)
    assert model.row_upper.tolist() == [4.0] and model.upper.tolist() == [3.0]
    with pytest.raises(d2.ProblemError, match=r"blanks\.mps\.gz, line 3"):
        read_mps(path, format="free")
    with pytest.raises(d2.ProblemError, match="format is 'tight'; expected"):
        read_mps(path, format="tight")


def test_sets_without_names_and_a_chosen_objective(tmp_path):
    text = small(rhs=" r 4 c -1\n", bounds=" UP x 3\n FX y 2\n", rows=" N d\n")
    text = text.replace("NAME SMALL\n", "NAME\nOBJNAME\n d\n").replace("y r 2", "y r 2 d 7")
    model = read_mps(write(tmp_path, text))
    assert model.row_upper.tolist() == [4] and model.c.tolist() == [0, 7]
    assert model.constant == 0 and model.lower.tolist() == [0, 2] and model.upper.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("section", "entries"),
    [("QUADOBJ", " x x 4\n y x -1\n y y 2\n"), ("QMATRIX", " x x 4\n y x -1\n x y -1\n y y 2\n")],
)
def test_products_of_the_objective(section, entries, tmp_path):
    model = read_model(write(tmp_path, small(tail=f"{section}\n{entries}"), "m.qps"))
    assert model.Q.toarray().tolist() == [[4, -1], [-1, 2]]
    assert model.objective([1.0, 2.0]) == 0.5 * (4 - 4 + 8) + 1


def test_whole_variables_are_refused_or_relaxed(tmp_path):
    columns = " M1 'MARKER' 'INTORG'\n u r 1\n v r 1\n M2 'MARKER' 'INTEND'\n w r 1\n"
    path = write(tmp_path, small(columns=columns, bounds=" LI B v 2\n BV B w\n"))
    with pytest.raises(d2.ProblemError, match=r"line 9: .*'u' must be whole \(3 such.*relax=True"):
        read_model(path)
    model = read_model(path, relax=True)
    assert model.lower.tolist() == [0, 0, 0, 2, 0]
    assert model.upper.tolist() == [np.inf, np.inf, 1, np.inf, 1]
    assert "3 whole variables were relaxed" in model.notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"columns": " z q 1\n"}, "line 8: there is no row 'q' in ROWS"),
        ({"columns": " z r 1 c\n"}, "line 8: expected a column, then a row and a number"),
        ({"columns": " z r 1,5\n"}, "line 8: '1,5' is not a number"),
        ({"columns": " z r 1_0\n"}, "line 8: '1_0' is not a number"),
        ({"columns": " z r nan\n"}, "line 8: 'nan' is not a number"),
        ({"columns": " x r 1\n"}, "line 8: the column 'x' comes back"),
        ({"columns": " z r 1 r 2\n"}, "line 8: the entry of row 'r', column 'z' is given twice"),
        ({"columns": " z c 1 c 2\n"}, "line 8: the cost of 'z' is given twice"),
        ({"columns": " m 'MARKER' 'INT'\n"}, "line 8: 'INT' is no marker"),
        ({"rows": " E r\n"}, "line 5: the row 'r' is declared twice"),
        ({"rows": " X q\n"}, "line 5: expected a type"),
        ({"rhs": " R r 1 r 2\n"}, "line 9: this right-hand side is given twice"),
        ({"rhs": " R\n"}, "line 9: expected a set, then a row"),
        ({"bounds": " SC B x 1\n"}, "line 10: a bound of type SC"),
        ({"bounds": " AB B x 1\n"}, "line 10: a bound of type 'AB'"),
        ({"bounds": " UP B z 1\n"}, "line 10: there is no column 'z'"),
        ({"bounds": " UP x\n"}, "line 10: expected a set, a column and a number"),
        ({"bounds": " FR z\n"}, "line 10: expected the name of a column"),
        ({"tail": "QUADOBJ\n x y 1\n y x 1\n"}, "line 12: the product of 'y' and 'x' comes twice"),
        ({"tail": "QUADOBJ\n x 1\n"}, "line 11: expected two columns"),
        ({"tail": "QMATRIX\n x y 1\n"}, "QMATRIX is not symmetric: 'x', 'y' has 1"),
        ({"tail": "QCMATRIX r\n"}, "line 10: the section QCMATRIX states quadratic constraints"),
        ({"tail": "SOS\n"}, "line 10: .*special ordered sets"),
        ({"tail": "COLUMN\n"}, "line 10: 'COLUMN' is no section"),
        ({"tail": "OBJSENSE SIDEWAYS\n"}, "line 10: 'SIDEWAYS' is no sense"),
    ],
)
def test_errors_name_the_line(changes, message, tmp_path):
    with pytest.raises(d2.ProblemError, match=rf"m\.mps, .*{message}"):
        read_mps(write(tmp_path, small(**changes)), format="free")


def test_files_that_are_no_models(tmp_path):
    with pytest.raises(d2.ProblemError, match="ends without ENDATA"):
        read_mps(write(tmp_path, small().replace("ENDATA\n", "")))
    with pytest.raises(d2.ProblemError, match="line 1: an entry outside any section"):
        read_mps(write(tmp_path, " x y\n"))
    with pytest.raises(d2.ProblemError, match="There is no file"):
        read_model(tmp_path / "none.mps")
    with pytest.raises(d2.ProblemError, match="cannot be read"):
        read_model(write(tmp_path, "no gzip", "m.mps.gz"))
    with pytest.raises(d2.ProblemError, match=r"none of the endings \.mps"):
        read_model(write(tmp_path, "", "m.txt"))


def test_an_infeasible_file(tmp_path):
    """x + 2y ≤ 2 and y + 2z ≥ 5 with z = -1; linprog agrees."""
    text = small(rows=" G low\n", columns=" y low 1\n z low 2\n", bounds=" UP x 9\n FX z -1\n")
    text = text.replace("RHS\n", "RHS\n R r 2 low 5\n")
    model = read_mps(write(tmp_path, text))
    A, b = model.A.toarray(), np.array([model.row_upper[0], -model.row_lower[1]])
    bounds = np.column_stack([model.lower, model.upper])
    found = scipy.optimize.linprog(model.c, np.array([A[0], -A[1]]), b, bounds=bounds)
    assert found.status == 2
    problem, owned = model.to_problem(agents=2, private_rows=False)
    answer = owned.answer(d2.solve(problem, owned.network()))
    assert answer.status == "INFEASIBLE" and set(answer.conflict) == {"r", "low"}


@pytest.mark.parametrize("method", ["auto", "interior-point", "L-BFGS"])
def test_an_infeasible_file_with_free_columns(method, tmp_path):
    """x ≤ -1 and 2x + w ≥ 5 exclude each other, with w ≤ -1; y has one bound, z none."""
    model = read_mps(write(tmp_path, FULL.replace(" MI BND  Y\n", "")))
    problem, owned = model.to_problem(agents=2, private_rows=False)
    answer = owned.answer(d2.solve(problem, owned.network(), method=method))
    assert answer.status == "INFEASIBLE" and "LIMIT" in answer.conflict
