"""Chromium for tests of pages: opened once for a module, with nothing to say to any network."""

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(
    not (CHROMIUM and DRIVER),
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--window-size=1280,900",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def show(browser, address):
    """Open the page of the module afresh at a width, in the light or in the dark."""

    def open_page(width=1280, scheme="light"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 850, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(address)
        loaded(browser)
        return browser

    yield open_page
    severe = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert severe == []


def loaded(browser):
    """Wait for the page's script to have run: `get` may return while the page still loads."""
    from selenium.webdriver.support.ui import WebDriverWait

    complete = "return document.readyState === 'complete'"
    WebDriverWait(browser, 60, 0.02).until(lambda page: page.execute_script(complete))


def find(browser, selector):
    return browser.find_elements("css selector", selector)


def press(browser, selector):
    """Click by script: whether a thing is scrolled into view is not what is tested."""
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)
