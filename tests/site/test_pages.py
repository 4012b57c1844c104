"""Every page of the website in a real browser, on a desktop and a phone, by day and by night."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tools.paths import toc_files

pytestmark = pytest.mark.site

WIDTHS = {"desktop": 1280, "phone": 390}
# Jupyter Book 1.x writes an empty address for Thebe, which the book does not use.
KNOWN_CONSOLE = "THEBE_JS_URL"

WAIT = """async () => {
  document.querySelectorAll('img').forEach(img => { img.loading = 'eager'; });
  document.querySelectorAll('details').forEach(d => { d.open = true; });
  if (window.MathJax && MathJax.startup) { await MathJax.startup.promise; }
  await Promise.all([...document.images].map(img => img.complete ? null :
    new Promise(done => { img.onload = img.onerror = done; })));
  await document.fonts.ready;
}"""

LOOK = r"""() => {
  const article = document.querySelector('article') || document.body;
  const problems = [];
  const math = [...article.querySelectorAll('.math')];
  const bare = math.filter(m => !m.querySelector('mjx-container'));
  if (bare.length) problems.push('math not rendered: ' + bare[0].textContent.slice(0, 80));
  const wrong = document.querySelector('mjx-merror, [data-mjx-error]');
  if (wrong) problems.push('math error: ' + wrong.outerHTML.slice(0, 200));
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const raw = /\\[a-zA-Z]{2,}|\\[()\[\]]|\$[^$\s][^$]*\$|:::|\{(glue|cite|ref|eq|doc)[:}]/;
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (parent.closest('pre, code, script, style, mjx-container')) continue;
    const found = node.textContent.match(raw);
    if (found) problems.push('raw markup: ' + node.textContent.trim().slice(0, 120));
  }
  for (const img of article.querySelectorAll('img')) {
    const name = (img.getAttribute('src') || '').slice(0, 80);
    if (!(img.getAttribute('alt') || '').trim()) problems.push('no alt text: ' + name);
    if (!img.naturalWidth) problems.push('not loaded: ' + name);
  }
  for (const frame of article.querySelectorAll('iframe')) {
    if (!frame.title) problems.push('iframe without a title: ' + frame.src);
  }
  return problems;
}"""

OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const problems = [];
  const scroll = document.documentElement.scrollWidth;
  if (scroll > wide + 1) problems.push(`the page is ${scroll} px wide on a screen of ${wide}`);
  const article = document.querySelector('article');
  for (const el of article ? article.querySelectorAll('*') : []) {
    const box = el.getBoundingClientRect();
    if (!box.width || box.right <= wide + 1) continue;
    let up = el.parentElement, held = false;
    while (up && up !== document.body && !held) {
      const style = getComputedStyle(up);
      held = ['auto', 'scroll', 'hidden'].includes(style.overflowX) &&
        up.getBoundingClientRect().right <= wide + 1;
      up = up.parentElement;
    }
    if (!held) { problems.push('sticks out: ' + el.outerHTML.slice(0, 120)); break; }
  }
  return problems;
}"""

# WCAG's contrast of text and ground, for the kinds of text the book's own style sheet touches.
CONTRAST = r"""() => {
  const parse = c => (c.match(/[\d.]+/g) || []).map(Number);
  const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const ground = el => {
    for (; el; el = el.parentElement) {
      const c = parse(getComputedStyle(el).backgroundColor);
      if (c.length && (c.length < 4 || c[3] > 0.5)) return c;
    }
    return [255, 255, 255];
  };
  const problems = [];
  const kinds = 'article p, article li, article td, article th, article figcaption, ' +
    'article .sab-source, article h1, article h2, article pre';
  for (const el of document.querySelectorAll(kinds)) {
    if (!el.textContent.trim() || !el.getClientRects().length) continue;
    const a = light(parse(getComputedStyle(el).color)), b = light(ground(el));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) {
      problems.push(`contrast ${ratio.toFixed(1)}: ${el.tagName} ${el.textContent.slice(0, 60)}`);
      break;
    }
  }
  return problems;
}"""


@pytest.fixture(scope="module")
def contexts(browser: Browser) -> Iterator[dict[str, BrowserContext]]:
    made = {
        name: browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="light", has_touch=width < 600
        )
        for name, width in WIDTHS.items()
    }
    for context in made.values():
        context.set_default_timeout(90_000)  # a busy machine is slow, not wrong
    yield made
    for context in made.values():
        context.close()


def listen(page: Page, problems: list[str]) -> None:
    """Note console errors and requests that leave this machine."""

    def console(message: ConsoleMessage) -> None:
        if message.type == "error" and KNOWN_CONSOLE not in message.text:
            problems.append(f"console: {message.text[:200]}")

    def script(error: Exception) -> None:
        if KNOWN_CONSOLE not in str(error):
            problems.append(f"script: {error}")

    page.on("console", console)
    page.on("pageerror", script)
    page.on(
        "request",
        lambda request: (
            None
            if urlsplit(request.url).hostname == "127.0.0.1"
            or urlsplit(request.url).scheme in ("data", "blob")
            else problems.append(f"request off the site: {request.url[:120]}")
        ),
    )
    page.on(
        "response",
        lambda response: (
            problems.append(f"{response.status}: {response.url}")
            if response.status >= 400
            else None
        ),
    )


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*toc_files(), "genindex", "search"])
def test_page(name: str, width: str, contexts: dict[str, BrowserContext], address: str) -> None:
    page = contexts[width].new_page()
    problems: list[str] = []
    listen(page, problems)
    try:
        page.goto(f"{address}/{name}.html", wait_until="load")
        page.evaluate(WAIT)
        problems += page.evaluate(LOOK)
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            page.wait_for_function(
                "theme => document.documentElement.dataset.theme === theme", arg=theme
            )
            for found in page.evaluate(OVERFLOW) + page.evaluate(CONTRAST):
                problems.append(f"{theme}: {found}")
    finally:
        page.close()
    assert not problems, "\n".join(dict.fromkeys(problems))


def test_the_front_door_leads_to_the_first_page(
    contexts: dict[str, BrowserContext], address: str
) -> None:
    page = contexts["desktop"].new_page()
    page.goto(f"{address}/index.html")
    page.wait_for_url(f"**/{toc_files()[0]}.html")
    page.close()


def test_the_checks_see_what_they_look_for(browser: Browser) -> None:
    """Each check must object to a page made to offend it."""
    page = browser.new_page(viewport={"width": 390, "height": 900})
    try:
        page.set_content(
            "<article><p style='color:#999;background:#aaa'>a $x_i$ b</p><p>\\alpha</p>"
            "<span class='math'>\\(x\\)</span><img src='data:,'><p>{glue:text}`x`</p>"
            "<div style='width:900px'>wide</div></article>"
        )
        found = "\n".join(page.evaluate(LOOK) + page.evaluate(OVERFLOW) + page.evaluate(CONTRAST))
    finally:
        page.close()
    for word in (
        "math not rendered",
        "raw markup: a $x_i$ b",
        "raw markup: \\alpha",
        "raw markup: {glue",
        "no alt text",
        "not loaded",
        "sticks out",
        "px wide on a screen of 390",
        "contrast",
    ):
        assert word in found, f"{word!r} was not found in:\n{found}"
