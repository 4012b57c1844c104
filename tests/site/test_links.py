"""Links, anchors, launch buttons and the weight of the built pages, read from the files."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup

from tools.paths import repository, toc_files

pytestmark = pytest.mark.site

PAGE_LIMIT = 1_500_000  # bytes of HTML and pictures; theme, fonts and MathJax are shared and cached


@cache
def soup(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(path: Path) -> frozenset[str]:
    found = {str(tag["id"]) for tag in soup(path).find_all(id=True)}
    return frozenset(
        found | {str(tag["name"]) for tag in soup(path).find_all("a", attrs={"name": True})}
    )


def dead_links(page: Path) -> list[str]:
    """Return the links inside the site that lead nowhere."""
    problems = []
    for tag in soup(page).find_all(["a", "link", "script", "img", "iframe"]):
        link = str(tag.get("href") or tag.get("src") or "")
        parts = urlsplit(link)
        if not link or parts.scheme or parts.netloc:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target = target / "index.html"
        if not target.exists():
            problems.append(f"{link}: no such file")
        elif target.suffix == ".html" and unquote(parts.fragment) not in {"", *anchors(target)}:
            problems.append(f"{link}: no such anchor")
    return problems


@pytest.mark.parametrize("name", toc_files())
def test_links_inside_the_site_lead_somewhere(name: str, site: Path) -> None:
    problems = dead_links(site / f"{name}.html")
    assert not problems, "\n".join(problems)


def test_a_dead_link_and_a_dead_anchor_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text('<a href="gone.html">x</a><a href="#gone">y</a><a href="#here" id="here">z</a>')
    assert dead_links(page) == ["gone.html: no such file", "#gone: no such anchor"]


@pytest.mark.parametrize("name", toc_files())
def test_a_page_is_light(name: str, site: Path) -> None:
    page = site / f"{name}.html"
    pictures = {
        (page.parent / unquote(urlsplit(str(tag["src"])).path)).resolve()
        for tag in soup(page).find_all("img", src=True)
        if not str(tag["src"]).startswith("data:")
    }
    weight = page.stat().st_size + sum(path.stat().st_size for path in pictures)
    assert weight < PAGE_LIMIT, f"{name}: {weight:,} bytes"


def test_no_page_names_a_foreign_script_style_or_picture(site: Path) -> None:
    problems = []
    for page in sorted(site.rglob("*.html")):
        for tag in soup(page).find_all(["script", "link", "img", "iframe"]):
            if tag.name == "link" and "canonical" in (tag.get("rel") or ()):
                continue
            link = str(tag.get("src") or tag.get("href") or "")
            if re.match(r"(https?:)?//", link):
                problems.append(f"{page.relative_to(site)}: {link}")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", [n for n in toc_files() if n.startswith("notebooks/")])
def test_the_rocket_opens_the_notebook_on_colab(name: str, site: Path) -> None:
    owner = urlsplit(repository()).path
    wanted = f"https://colab.research.google.com/github{owner}/blob/main/{name}.ipynb"
    links = [str(tag["href"]) for tag in soup(site / f"{name}.html").find_all("a", href=True)]
    assert wanted in links
