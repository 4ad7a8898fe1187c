"""What must hold of the built site: links lead somewhere, and a browser needs no network for it.

    python docs/check_site.py docs/_build/html [FOLDER OF SCREENSHOTS]

Links and anchors within the site are followed, and nothing may be loaded from elsewhere. With
Chromium and its driver, some pages are opened offline at the width of a desk and of a phone: no
error in the console, mathematics drawn, no page wider than the screen, light and dark, and below
each result of the search the text around the words found.
"""

import json
import shutil
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

PAGES = (
    "index.html",
    "gallery/index.html",
    "gallery/bus_prices.html",
    "tutorials/index.html",
    "tutorials/paper.html",
    "api/generated/dual2.SquaredLoss.html",
    "api/functions.html",
    "methods/id2a.html",
    "choosing.html",
    "theory.html",
    "search.html?q=certificate",
)
WIDTHS = {"desk": 1280, "phone": 390}
LOADING = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements that make a browser fetch something, and the attribute that says what."""

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-sync "
    "--disable-component-update --no-first-run --disable-dev-shm-usage --disable-quic"
).split()
RAW = r"return /\\\(|\\\[|\\frac|\\sum|\$\$/.test(document.querySelector('article').innerText)"
"""Whether LaTeX can be read on the page."""
BARE = (
    "const items = [...document.querySelectorAll('ul.search > li')];"
    "const text = (item, part) => item.querySelector(part)?.textContent;"
    "const bare = items.filter((item) => !text(item, '.context')).map((item) => item.innerText);"
    "const found = items.some((item) => text(item, '.context mark'));"
    "return document.querySelector('#search-results') && !found ? ['any of the results'] : bare"
)
"""Results of the search without a text; some must have the word that was found in it."""


class Page(HTMLParser):
    """Anchors, links and what is fetched of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADING and LOADING[tag] in found:
            unfetched = tag == "link" and found.get("rel") in ("canonical", "next", "prev", "index")
            self.links.append(found[LOADING[tag]])
            self.fetched += [] if unfetched else [found[LOADING[tag]]]


def broken(root: Path) -> list[str]:
    """Links within the site that lead nowhere, and what is fetched from elsewhere.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = '<a href="#here"></a><a href="b.html"></a><img src="https://a.org/b.png">'
    ...     _ = (Path(folder) / "a.html").write_text(text)
    ...     broken(Path(folder))
    ['a.html: no anchor here in a.html', 'a.html: no file b.html', 'a.html: fetches https://...']
    """
    root = root.resolve()
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in root.rglob("*.html")}
    faults = []
    for file, page in sorted(pages.items()):
        here = file.relative_to(root)
        for link in dict.fromkeys(page.links):
            address, anchor = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists():
                faults.append(f"{here}: no file {address}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
                faults.append(f"{here}: no anchor {anchor} in {target.relative_to(root)}")
        elsewhere = [url for url in page.fetched if urlsplit(url).netloc]
        faults += [f"{here}: fetches {url}" for url in elsewhere]
    return faults


def look(root: Path, screens: Path | None) -> list[str]:
    """Open pages in Chromium without a network, and tell what is wrong with them."""
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        browser = webdriver.Chrome(options=options, service=service)
        try:
            faults = []
            for name in PAGES:
                for kind, width in WIDTHS.items():
                    faults += _look_at(browser, WebDriverWait, root, name, (kind, width), screens)
            return faults
        finally:
            browser.quit()


def _look_at(browser, waiting, root, name, size, screens) -> list[str]:
    kind, width = size
    scheme = "dark" if kind == "phone" else "light"
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    screen = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": kind == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    file, mark, question = name.partition("?")
    browser.get((root.resolve() / file).as_uri() + mark + question)
    ready = (
        "return document.readyState === 'complete' && [...document.querySelectorAll('.math')]"
        ".every((formula) => formula.querySelector('mjx-container')) && "
        "(!document.querySelector('#search-results') || "
        "(!!window.searchTexts && !!document.querySelector('.search-summary')?.innerText))"
    )
    waiting(browser, 60, 0.05).until(lambda page: page.execute_script(ready))
    where, faults = f"{name} ({kind})", []
    logs = browser.get_log("browser")
    faults += [f"{where}: {entry['message']}" for entry in logs if entry["level"] == "SEVERE"]
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e["params"]["request"]["url"] for e in events if e["method"].endswith("WillBeSent")]
    faults += [f"{where}: asks for {url}" for url in asked if url.startswith("http")]
    if browser.execute_script(RAW):
        faults.append(f"{where}: raw LaTeX")
    faults += [f"{where}: no text below {item!r}" for item in browser.execute_script(BARE)]
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    faults += [f"{where}: {wide} pixels wide"] if wide > width else []
    if screens:
        screens.mkdir(parents=True, exist_ok=True)
        browser.save_screenshot(str(screens / f"{kind}-{file.replace('/', '-')}.png"))
    return faults


def main(root: Path, screens: Path | None = None) -> int:
    """Tell what is wrong; 0 if nothing is."""
    faults = broken(root)
    if shutil.which("chromium") and shutil.which("chromedriver"):
        faults += look(root, screens)
    else:
        print("No Chromium: links were checked, no page was opened.")
    print("\n".join(faults) or f"{root}: links and {len(PAGES)} pages are as they should be.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
