"""What ``sab data`` prints: what there is, and whether what is here is whole."""

from __future__ import annotations

from sab.data import fetch, sources


def listing() -> list[str]:
    """Two lines a data set: whether it is here, what it is; its terms and its page."""
    lines = []
    for item in sources.DATASETS.values():
        where = "here" if fetch.held(item.name) else "not here"
        if where == "not here" and not any(file.urls for file in item.files):
            where = "not here, and published nowhere"
        lines.append(f"{item.name:15} {where:9} {item.title}")
        lines.append(f"{'':15} {'':9} {item.terms}; {item.page}")
    return lines


def checks() -> tuple[list[str], bool]:
    """A line a file, and whether any is damaged."""
    states = [(item, *pair) for item in sources.DATASETS for pair in fetch.states(item).items()]
    lines = [f"{item:15} {name:27} {state}" for item, name, state in states]
    return lines, any(state.startswith("damaged") for *_, state in states)
