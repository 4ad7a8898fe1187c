"""The report in a real browser: drawn, switched, toggled, in the dark and on a phone."""

import json

import pytest

from chromium import find, needs_chromium, press
from dual2.paper.report import page
from stored_runs import ABOUT, CLAIMS, fill

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    store = fill(tmp_path_factory.mktemp("store"))
    file = store.folder / "report.html"
    file.write_text(page(store, ABOUT, CLAIMS), encoding="utf-8")
    return file.as_uri()


def axis(browser):
    return browser.execute_script(
        "const { xaxis } = document.querySelector('#exp1 .canvas')._fullLayout;"
        "return { title: xaxis.title.text, type: xaxis.type, range: xaxis.range };"
    )


def test_every_plot_is_drawn(show):
    browser = show()
    assert [
        len(find(browser, f"#{name} .scatterlayer .trace")) for name in ("exp1", "mine-a-b")
    ] == [5, 2]
    assert len(find(browser, "#claims .verdict")) == 3
    assert len(find(browser, "#exp1 .network circle")) == 4
    assert find(browser, ".js-plotly-plot .modebar-btn[data-title='Zoom']")
    assert "cut at 3 M rounds" in find(browser, "#exp1 .legend")[0].text


def test_buttons_work_once_the_page_has_loaded(show):
    browser = show()
    assert find(browser, "button") and not find(browser, "button:disabled")
    assert not find(browser, ".canvas > p")


def test_a_curve_is_hidden_and_shown(show):
    browser = show()
    button = "#exp1 [data-curve='1']"
    press(browser, button)
    assert len(find(browser, "#exp1 .scatterlayer .trace")) == 4
    assert find(browser, button)[0].get_attribute("aria-pressed") == "false"
    press(browser, "#exp1 .all")
    assert len(find(browser, "#exp1 .scatterlayer .trace")) == 5
    assert find(browser, button)[0].get_attribute("aria-pressed") == "true"


def test_the_axis_is_switched(show):
    browser = show()
    assert axis(browser)["title"] == "communication rounds"
    assert axis(browser)["type"] == "log"
    costs = [cell.text for cell in find(browser, "#exp1 .cost")]
    press(browser, "#exp1 [data-axis='seconds']")
    seconds = axis(browser)
    assert seconds["title"] == "seconds"
    assert seconds["range"][1] == pytest.approx(1.5, abs=0.4)
    assert [cell.text for cell in find(browser, "#exp1 .cost")] != costs
    assert find(browser, "#exp1 .axis-name")[0].text == "seconds"
    press(browser, "#exp1 [data-scale='linear']")
    assert axis(browser)["type"] == "linear"
    assert axis(browser)["range"][1] == pytest.approx(30, rel=0.1)


def test_a_zoom_outlasts_the_hiding_of_a_curve(show):
    browser = show()
    before = axis(browser)["range"]
    press(browser, "#exp1 .modebar-btn[data-title='Zoom in']")
    zoomed = axis(browser)["range"]
    assert before[0] < zoomed[0] < zoomed[1] < before[1]
    press(browser, "#exp1 [data-curve='1']")
    assert axis(browser)["range"] == zoomed
    press(browser, "#exp1 [data-axis='local']")
    assert axis(browser)["range"] != zoomed


@pytest.mark.parametrize("touch", [False, True])
def test_a_mouse_zooms_and_a_finger_scrolls(show, browser, touch):
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": touch})
    mode = "return document.querySelector('#exp1 .canvas')._fullLayout.dragmode"
    assert show(390 if touch else 1280).execute_script(mode) == (False if touch else "zoom")
    browser.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": False})


def test_hovering_tells_values(show):
    browser = show()
    browser.execute_script(
        "const canvas = document.querySelector('#exp1 .canvas');"
        "Plotly.Fx.hover(canvas, [{ curveNumber: 1, pointNumber: 200 }]);"
    )
    told = find(browser, "#exp1 .hoverlayer")[0].text
    assert "iD2A, ρ = ρ*" in told
    assert "rounds" in told
    assert "NaN" not in told


def test_nothing_is_fetched(show):
    browser = show()
    press(browser, "#theme")
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    requests = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    own = {"chrome", "chrome-untrusted"}  # the browser's empty first page
    assert {url.split(":")[0] for url in requests} - own <= {"file", "data", "blob"}
    assert any(url.startswith("file:") for url in requests)


def brightness(browser, selector, what):
    colour = browser.execute_script(
        "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]",
        selector,
        what,
    )
    return sum(int(part) for part in colour.strip("rgba()").split(",")[:3]) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(show, scheme):
    browser = show(scheme=scheme)
    for night in (scheme == "dark", scheme != "dark"):
        assert (brightness(browser, "body", "backgroundColor") < 128) == night
        assert (brightness(browser, "body", "color") > 128) == night
        assert (brightness(browser, "#exp1 .xtick text", "fill") > 128) == night
        press(browser, "#theme")


@pytest.mark.parametrize("width", [360, 390, 1280])
def test_no_width_scrolls_the_page_sideways(show, width):
    browser = show(width)
    browser.execute_script(
        "document.querySelectorAll('details').forEach((d) => { d.open = true; })"
    )
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width
    plot, legend = (find(browser, f"#exp1 {part}")[0].rect for part in (".canvas", ".legend"))
    assert legend["y"] >= plot["y"] + plot["height"]
