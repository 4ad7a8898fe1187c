"""Files of a learning study: what they may say, and what is said of wrong ones."""

import numpy as np
import pandas as pd
import pytest

from dual2.errors import Dual2Error, Refusal
from dual2.learn.vertical.ids import read_ids
from dual2.learn.vertical.party_file import read_learn_party
from dual2.learn.vertical.preparation import learn_preparation, read_preparation
from dual2.learn.vertical.prepared_columns import CATEGORY, FREQUENT, MEAN, NUMBER, OWN, Column
from dual2.learn.vertical.session import demand_consent, is_over, summary
from dual2.learn.vertical.tables import as_table, read_file, read_sql
from learning_offices import Offices, make_world

SEARCH = '[search]\nparameter = "C"\nvalues = [1.0]\n'
STUDY = {
    "model": ('model = "LogisticRegression"', 'model = "Logistic"', "Unknown model 'Logistic'"),
    "option": ("options = {}", "options = { alpha = 1.0 }", "Unknown option 'alpha'"),
    "value": ("options = {}", "options = { C = -1.0 }", "C = -1.0 found"),
    "holder": ('holder = "hospital"', 'holder = "clinic"', "Unknown party 'clinic'"),
    "policy": ('policy = "psi"', 'policy = "join"', "Unknown policy 'join'"),
    "type": ('id = "patient"', 'id = "patient"\ntype = "date"', "Unknown type 'date'"),
    "network": ("options = {}", 'network = "path"', "insurer has none"),
    "pairs": ("options = {}", 'network = ["hospital"]', "expected pairs of names"),
    "method": ("options = {}", 'method = "iD2A"', "needs a quadratic in every coefficient"),
    "matrices": ("options = {}", 'method = "Newton"', "sums p × p matrices"),
    "tol": ("options = {}", "tol = 0.0", "tol is 0"),
    "epsilon": ("accept_leakage = true", "epsilon = 0.0", "epsilon is 0"),
    "search": (SEARCH, SEARCH + "folds = 1\n", "folds of at least 2"),
    "weights": ("options = {}", 'options = { class_weight = "x" }', 'expected "balanced"'),
    "values": (SEARCH, SEARCH.replace("1.0", '"1"'), "expected numbers"),
    "no number": ("options = {}", "options = { C = nan }", "C = nan found"),
    "run": ('run = "trial"', 'run = "../trial"', "expected letters"),
    "party": ('name = "lab"', 'name = "../lab"', "expected letters"),
    "receiver": (SEARCH, '[predictions]\nto = ["clinic"]\n', "Unknown party 'clinic'"),
}
PARTY = {
    "type": ('"category"', '"word"', "Unknown type 'word'"),
    "missing": ('"median"', '"modal"', "Unknown policy 'modal'"),
    "source": ('file = "table.csv"', 'sql = "SELECT 1"', "lacks table.url"),
    "two sources": ('file = "table.csv"', 'file = "a.csv"\nsql = "x"', "either file or sql"),
    "feature": ("[table.columns]", '[table.columns]\npatient = "number"', "a feature as well"),
    "variable": (
        'file = "table.csv"',
        'sql = "x"\nurl = "$DUAL2_NO_SUCH"',
        "the environment does not have",
    ),
}


@pytest.fixture(scope="module")
def offices(tmp_path_factory) -> Offices:
    return Offices(
        tmp_path_factory.mktemp("files") / "all", make_world(), policy="psi", more=SEARCH
    )


def change(offices: Offices, file: str, *changes: tuple[str, str]) -> str:
    """What is said of a changed file of the lab."""
    path = offices.folder / "lab" / file
    text = path.read_text()
    try:
        for old, new in changes:
            offices.change("lab", file, old, new)
        with pytest.raises(Dual2Error) as found:
            demand_consent(read_learn_party(offices.file("lab")))
            _ = read_learn_party(offices.file("lab")).table
    finally:
        path.write_text(text)
    return str(found.value)


@pytest.mark.parametrize("name", STUDY)
def test_what_is_wrong_in_a_study_is_named(offices, name):
    old, new, words = STUDY[name]
    assert words in change(offices, "study.toml", (old, new))


@pytest.mark.parametrize("name", PARTY)
def test_what_is_wrong_in_a_party_is_named(offices, name):
    old, new, words = PARTY[name]
    assert words in change(offices, "party.toml", (old, new))


def test_a_study_says_what_it_shows_and_wants_consent(offices):
    lab = read_learn_party(offices.file("lab"))
    said = summary(lab)
    for words in ("hospital, lab, insurer", "Prefer labels.private = true", "masked", "C from 1"):
        assert words in said
    demand_consent(lab)
    silent = change(offices, "study.toml", ("accept_leakage = true", ""))
    assert "decides nothing about labels" in silent and "Set labels.private = true" in silent


def test_numbers_cannot_be_randomised(offices):
    ridge = ('model = "LogisticRegression"', 'model = "Ridge"')
    noise = ("accept_leakage = true", "epsilon = 1.0")
    assert "real targets" in change(offices, "study.toml", ridge, noise)


def test_a_new_attempt_forgets_the_old_one_if_forced(offices):
    lab = read_learn_party(offices.file("lab"))
    state, model = lab.at("fit").state, lab.party.state / "model.json"
    state.mkdir(parents=True)
    for name in ("journal", "mask.key", "audit.jsonl"):
        (state / name).touch()
    assert not is_over(lab, "fit", model, resume=True, force=True) and (state / "journal").exists()
    assert not is_over(lab, "fit", model, resume=False, force=True)
    assert [file.name for file in state.iterdir()] == ["audit.jsonl"]
    model.touch()
    assert is_over(lab, "fit", model, resume=True, force=False)
    with pytest.raises(Dual2Error, match="would be replaced"):
        is_over(lab, "fit", model, resume=False, force=False)


def test_tables_of_every_kind_are_the_same(tmp_path):
    table = {"id": ["a", "b", "c"], "x": [1.5, None, -2.0], "k": ["u", "v", None]}
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    url = f"sqlite:///{tmp_path}/t.db"
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    frame.to_sql("t", engine, index=False)
    engine.dispose()
    columns = [Column("x", NUMBER, MEAN), Column("k", CATEGORY, OWN)]
    expected = [[1.5, 0, 1, 0], [-0.25, 0, 0, 1], [-2.0, 1, 0, 0]]
    for found in (
        as_table(frame),
        as_table(table),
        read_file(tmp_path / "t.csv"),
        read_file(tmp_path / "t.parquet"),
        read_sql(url, "SELECT * FROM t"),
    ):
        made = learn_preparation(columns, found, [0, 1, 2], standardize=False)
        assert made.outputs == ["x", "k=missing", "k=u", "k=v"]
        assert made.apply(found, [0, 1, 2]).tolist() == expected
        assert read_preparation(made.as_list()) == made


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("a,b\n1\n", "1 line (the first is 2) with other than 2 values"),
        ("a,a\n1,2\n", "two columns are called 'a'"),
        ("a\n\xff", "no CSV in UTF-8"),
    ],
)
def test_files_that_are_no_tables(tmp_path, text, words):
    file = tmp_path / "t.csv"
    file.write_bytes(text.encode("latin1"))
    with pytest.raises(Refusal) as found:
        read_file(file)
    assert words in str(found.value) and found.value.public_message == "its table cannot be read."
    with pytest.raises(Refusal, match=r"expected one of \.csv"):
        read_file(tmp_path / "t.xls")
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    with pytest.raises(Refusal, match="is no Parquet file"):
        read_file(tmp_path / "t.parquet")
    with pytest.raises(Refusal, match="The query of the table failed"):
        read_sql("sqlite://", "SELECT nothing FROM nowhere")


def test_values_that_cannot_be_used():
    table = as_table({"x": ["1", "two", "inf"], "k": ["a", None, "b"], "c": [5, 5, 5]})
    with pytest.raises(Refusal, match=r"2 values that are no finite number \(the first in row 2\)"):
        learn_preparation([Column("x")], table, range(3), True)
    with pytest.raises(Refusal, match="lacks 1 value"):
        learn_preparation([Column("k", CATEGORY)], table, range(3), True)
    with pytest.raises(Refusal, match="has no column 'z'"):
        learn_preparation([Column("z")], table, range(3), True)
    made = learn_preparation([Column("c"), Column("k", CATEGORY, FREQUENT)], table, range(3), True)
    assert made.apply(table, range(3)).tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    new = as_table({"c": [6], "k": ["z"]})
    assert made.apply(new, [0]).tolist() == [[1, 0, 0]] and made.unknown(new, [0]) == {"k": 1}


def test_numbers_that_only_python_reads():
    """... are refused, as are those whose spread is no double; whole numbers are one word."""
    for odd in ("1_000", "١٢", "0x10", "=1+1", "1,5", 10**400, "1\0"):
        table = as_table({"x": ["1", odd]})
        with pytest.raises(Refusal, match=r"1 value that is no finite number \(the first in row 2"):
            learn_preparation([Column("x")], table, [0, 1], True)
    with pytest.raises(Refusal, match="its spread is no double"):
        learn_preparation([Column("x")], as_table({"x": [1e200, -1e200]}), [0, 1], True)
    made = learn_preparation([Column("k", CATEGORY)], as_table({"k": ["1", 2.0]}), [0, 1], True)
    assert made.outputs == ["k=1", "k=2"]


def test_frames_as_notebooks_have_them():
    """Nullable types, dates and repeated names of pandas."""
    frame = pd.DataFrame(
        {"id": pd.array(["a", pd.NA], "string"), "n": pd.array([1, None], "Int64")}
    )
    assert as_table(frame).columns == {"id": ["a", None], "n": [1, None]}
    assert as_table(pd.DataFrame({"d": [pd.NaT]})).column("d") == [None]
    frame.columns = ["id", "id"]
    with pytest.raises(Refusal, match="two columns are called 'id'"):
        as_table(frame)


def test_files_from_elsewhere(tmp_path):
    """A mark of byte order is no part of a name; huge cells and NUL are no surprise."""
    file = tmp_path / "t.csv"
    file.write_bytes("\ufeffid,x\r\na\0b,1\r\n".encode())
    table = read_file(file)
    assert list(table.columns) == ["id", "x"] and read_ids(table, "id", "text") == ["a\0b"]
    file.write_bytes(b"id,x\na," + b"9" * 200_000 + b"\n")
    with pytest.raises(Refusal, match="is no CSV in UTF-8"):
        read_file(file)


def test_ids_are_counted_and_never_shown():
    for values, kind, words in (
        (["x9", "x9", "x8"], "text", "1 of 3 values in the column 'id' is there before"),
        (["x9", 7, 8], "text", r"2 of 3 values in the column 'id' are of another type \(int\)"),
        (["9" * 5000, "x9"], "integer", "2 of 2 .* of another type"),
        (["x9", "\ud800"], "text", "1 of 2 .* of another type"),
        (["7", "x9", 8.0], "integer", r"2 of 3 .* of another type \(float, str\)"),
    ):
        with pytest.raises(Refusal, match=words) as found:
            read_ids(as_table({"id": values}), "id", kind)
        assert "x9" not in str(found.value) and "x9" not in found.value.public_message
    assert read_ids(as_table({"id": [7, "008"]}), "id", "integer") == ["7", "8"]
    assert read_ids(as_table({"id": ["ａ1 "]}), "id", "text") == ["a1"]
    assert np.isfinite(len(read_ids(as_table({"id": []}), "id", "text")))
