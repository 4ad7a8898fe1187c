"""Solves between parties in one process: the same bits, liars, and the page that shows them."""

import json
import urllib.error
import urllib.request
from types import SimpleNamespace

import numpy as np
import pytest

import dual2 as d2
from chromium import needs_chromium
from dual2.errors import PeerError
from dual2.parties.status import Board
from dual2.parties.status_page import serve
from dual2.runtime import LocalProblem
from dual2.runtime.comm_mode import ExactRanges
from dual2.runtime.exact import ExactSums
from dual2.runtime.peers.frames import Kind
from dual2.runtime.peers.parties import Parties
from party_circle import Circle

EDGES = {3: [(0, 1), (1, 2)], 5: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]}


def lasso(n: int) -> d2.Problem:
    draw = np.random.default_rng(n)
    agents = [
        d2.Agent(draw.standard_normal((6, 2)), d2.SquaredNorm(1.0), d2.L1Norm(0.1))
        for _ in range(n)
    ]
    return d2.Problem(agents, d2.SquaredLoss(draw.standard_normal(6)))


def solve_between(circle: Circle, problem: d2.Problem, **options) -> list[d2.Result]:
    def program(party):
        share = LocalProblem({party.rank: problem.agents[party.rank]}, problem.h, problem.n)
        return d2.solve(share, circle.network, runtime=party, record=False, **options)

    return circle.run(program)


def linear_program(n: int) -> d2.Problem:
    """Costs without curvature, for the interior-point method."""
    draw = np.random.default_rng(n)
    box = d2.IndicatorBox(0.0, 2.0)
    agents = [
        d2.Agent(draw.standard_normal((3, 3)), d2.Zero().tilt(draw.uniform(0.1, 1.0, 3)), box)
        for _ in range(n)
    ]
    return d2.Problem(agents, d2.IndicatorPoint(sum(a.A.sum(axis=1) for a in agents)))


@pytest.mark.parametrize("n", [3, 5])
def test_parties_with_masks_answer_with_the_bits_of_one_process(tmp_path, n):
    problem, circle = lasso(n), Circle(tmp_path, EDGES[n])
    found = solve_between(circle, problem, method="Newton")
    here = d2.solve(problem, circle.network, method="Newton", sums="exact", record=False)
    for i, one in enumerate(found):
        assert (one.status, one.counts, one.objective) == (here.status, here.counts, here.objective)
        assert one.counts.latency == here.counts.latency
        assert (one.x[0] == here.x[i]).all() and (one.dual == here.dual).all()
        assert one.certificate == here.certificate


@pytest.mark.parametrize("n", [3, 5])
def test_interior_points_of_parties_with_masks_are_those_of_one_process(tmp_path, n):
    """All parties have the same bits.

    One process sends one step length where parties send several. The ranges that the next sums are
    rounded in follow from what is sent, so that its last bits are others.
    """
    problem, circle = linear_program(n), Circle(tmp_path, EDGES[n])
    found = solve_between(circle, problem, method="interior-point")
    here = d2.solve(problem, circle.network, method="interior-point", sums="exact", record=False)
    first = found[0]
    assert here.status == "CONVERGED" and here.counts.latency == first.counts.latency
    for i, one in enumerate(found):
        assert (one.status, one.counts, one.objective) == (
            here.status,
            first.counts,
            first.objective,
        )
        assert (one.dual == first.dual).all() and one.certificate == first.certificate
        assert one.x[0] == pytest.approx(here.x[i], rel=1e-10, abs=1e-10)
    assert first.objective == pytest.approx(here.objective, rel=1e-12)


@pytest.mark.parametrize("when", ["iterations", "always"])
def test_a_party_that_lies_in_sums_never_makes_a_false_answer(tmp_path, monkeypatch, when):
    """Noise on its part of the sums: no CONVERGED unless the true residual agrees."""
    problem, circle, right = lasso(3), Circle(tmp_path, EDGES[3]), ExactSums.sum
    draw = np.random.default_rng(0)

    def lie(self, rows, network, mode):
        party = self.adder
        if (
            getattr(party, "rank", 0) == 2
            and party.size == 3
            and (when == "always" or mode.exact_ranges is ExactRanges.REUSE)
        ):
            rows = rows * (1.0 + 0.1 * draw.standard_normal(rows.shape))
        return right(self, rows, network, mode)

    monkeypatch.setattr(ExactSums, "sum", lie)
    found = solve_between(circle, problem, method="Newton", max_sums=60)
    monkeypatch.undo()
    assert len({one.status for one in found}) == 1
    true = problem.kkt([one.x[0] for one in found], found[0].dual).kkt
    assert found[0].status != d2.Status.CONVERGED or true <= 1e-8
    assert found[0].advice


@pytest.mark.parametrize("what", ["NaN", "another shape"])
def test_rows_that_are_none_end_the_run_with_the_name_of_the_sender(tmp_path, monkeypatch, what):
    """A gossip method, one of whose parties sends what is no row to its neighbours."""
    problem, circle, right = lasso(3), Circle(tmp_path, EDGES[3], masked=False), Parties._send_all

    def spoil(self, peers, kind, values, tag):
        if self.rank == 2 and kind == Kind.ROWS and tag == 5:
            values = np.full_like(values, np.nan) if what == "NaN" else values[:, :-1]
        return right(self, peers, kind, values, tag)

    monkeypatch.setattr(Parties, "_send_all", spoil)
    found = solve_between(circle, problem, method="iD2A", max_rounds=50)
    assert all(isinstance(one, PeerError) for one in found)
    words = (
        "agent 2"
        if what == "NaN"
        else "party2 sent doubles of shape (1, 5); doubles of shape (1, 6) expected"
    )
    assert words in str(found[1])


# -- the status page -------------------------------------------------------------------------------
@pytest.fixture
def board(tmp_path) -> Board:
    options = SimpleNamespace(options={"tol": 1e-8})
    study = SimpleNamespace(name="stroke", public=options)
    party = SimpleNamespace(name="<lab>", study=study)
    board = Board(tmp_path / "status.json", party)  # type: ignore[arg-type]
    link = {"peer": "bank", "up": True, "received": 7, "kept": 1, "down_for": 0.0}
    down = {"peer": "insurer", "up": False, "received": 3, "kept": 2, "down_for": 12.0}
    board.now |= {"state": "running", "sums": 41, "kkt": 3.2e-5, "target": 1e-8, "time_left": 9.0}
    board.now |= {"waiting": "insurer", "waited": 12.0, "links": [link, down]}
    return board


def fetch(port: int, path: str = "/", host: str = "127.0.0.1") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_the_page_tells_and_takes_nothing(board):
    with serve(("127.0.0.1", 0), board) as port:
        code, text = fetch(port)
        assert code == 200 and "&lt;lab&gt;" in text and "insurer (12 s)" in text
        assert json.loads(fetch(port, "/status.json")[1])["sums"] == 41
        assert fetch(port, "/secret")[0] == 404
        assert fetch(port, host="evil.example")[0] == 403
        request = urllib.request.Request(f"http://127.0.0.1:{port}/", data=b"x", method="POST")
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(request, timeout=20)


@needs_chromium
def test_the_page_refreshes_itself_in_a_browser(board, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    shown = "return document.body.innerText.includes('4242')"
    with serve(("127.0.0.1", 0), board) as port:
        browser.get(f"http://127.0.0.1:{port}/")
        assert "41" in browser.find_element(By.ID, "facts").text
        assert "down for 12.0 s" in browser.find_element(By.ID, "links").text
        board.now["sums"] = 4242
        WebDriverWait(browser, 60, 0.1).until(lambda page: page.execute_script(shown))
