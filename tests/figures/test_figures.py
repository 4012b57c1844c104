"""Every figure shows its data, tells it in its alt text, and can be read at 700 pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from sab import figures
from sab.analysis.credit import chain_graph, credit_paths
from sab.figures.style import COLOURS, alt_of
from sab.ops.sab_scan import ScanOptions
from sab.ops.sparse_weights import sparse_weights


def history(seed: int = 0, end: int = 300) -> list[dict[str, Any]]:
    noise = np.random.default_rng(seed)
    return [
        {"update": u, "accuracy": min(1.0, 0.125 + u / 400), "grad_norm": float(noise.lognormal())}
        for u in range(0, end + 1, 50)
    ]


RECORDS = {
    "sab (5,5)": [{"history": history(0)}, {"history": history(1, 200)}],
    "lstm": [{"history": history(2)}],
}
GRAPH = chain_graph(ScanOptions(k_trunc=3), 12)
OURS = {"sab": [(100, 1.0), (200, 0.99), (5000, 0.9)], "lstm": [(100, 0.99), (200, 0.3)]}
PAPER: dict[str, list[tuple[float, float | None]]] = {
    "sab": [(100, 0.99), (5000, 0.41)],
    "attentive_lstm": [(100, 1.0), (2000, 0.12), (5000, None)],
}
EYE = np.eye(10, 15)

FIGURES: dict[str, Callable[[], Figure]] = {
    "forward": figures.forward_diagram,
    "forward long": lambda: figures.forward_diagram(5, 3, 4, 24),
    "forward one": lambda: figures.forward_diagram(1, 2, 1, 4),
    "backward": figures.backward_diagram,
    "backward full": lambda: figures.backward_diagram(k_trunc=None, steps=24),
    "backward panels": lambda: figures.backward_panels(
        {"one": {"block_offset": 1}, "": {"truncation": "sliding", "replay": "none"}}, 16
    ),
    "matrix": lambda: figures.credit_matrix(GRAPH, memory_steps=[2, 4], output_steps=(10, 12)),
    "matrices": lambda: figures.credit_matrix({"a": GRAPH, "b": GRAPH, "c": GRAPH, "d": GRAPH}),
    "two sizes": lambda: figures.credit_matrix({"a": GRAPH, "b": GRAPH[:6, :6]}),
    "norms": lambda: figures.credit_matrix({"a": GRAPH * 0.1, "b": GRAPH * 3.0}),
    "attention": lambda: figures.attention_map(
        {"start": EYE, "end": EYE}, relevant=(1, 10), output_steps=range(31, 41)
    ),
    "attention one": lambda: figures.attention_map(EYE),
    "learning": lambda: figures.learning_curve(RECORDS, chance=0.125, goal=0.99),
    "norm": lambda: figures.learning_curve(history(), metric="grad_norm"),
    "distance": lambda: figures.gradient_by_distance(
        {"bptt": ([0, 1, 2], [1.0, 0.1, 1e-8]), "tbptt": ([0, 1, 2], [1.0, 0.0, 0.0])}
    ),
    "transfer": lambda: figures.transfer_curve(OURS, chance=0.125, paper=PAPER, trained_at=100),
    "scaling": lambda: figures.scaling({"sab": [(10, 1.0), (100, 9.0)]}, slopes={"sab": 0.95}),
    "read": lambda: figures.read_weights([4, 3, 1, 0], [0.6, 0.4, 0, 0], 1),
}


@pytest.mark.parametrize("name", FIGURES)
def test_readable_at_page_width(name: str) -> None:
    fig = FIGURES[name]()
    assert len(alt_of(fig)) >= 40 and not alt_of(fig).endswith("..")
    assert fig.get_figwidth() <= 7.01
    fig.draw_without_rendering()
    renderer = fig.canvas.get_renderer()  # type: ignore[attr-defined]
    width, height = fig.bbox.width, fig.bbox.height
    ticks = {
        id(label)
        for ax in fig.axes
        for axis in (ax.xaxis, ax.yaxis)
        for tick in (*axis.majorTicks, *axis.minorTicks)
        for label in (tick.label1, tick.label2)
    }
    shown = 0
    for text in fig.findobj(Text):
        if not text.get_text().strip() or not text.get_visible():
            continue
        box = text.get_window_extent(renderer)
        ax = text.axes
        if ax is not None and not ax.get_visible():
            continue
        if id(text) in ticks:
            continue  # matplotlib keeps ticks outside the limits and does not draw them
        shown += 1
        label = f"{name}: {text.get_text()!r}"
        assert float(text.get_fontsize()) * 100 / 72 >= 10.9, f"{label} is too small"
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{label} leaves the figure: {box.extents} in {width} x {height}"
    assert shown


def lines(fig: Figure, axes: int = 0) -> list[Any]:
    return [line for line in fig.axes[axes].lines if line.get_gid() != "chance"]


def is_blank(image: Any) -> np.ndarray:
    """Which entries of a drawn matrix are left blank."""
    return np.ma.getmaskarray(image.get_array())


def test_forward_weights_are_the_rule_s() -> None:
    fig = figures.forward_diagram(k_top=2, k_att=2, steps=9, scores=[4, 3, 1, 0])
    texts = [text.get_text() for text in fig.axes[0].texts]
    assert "0.60" in texts and "0.40" in texts and r"1.0 = $\tau$" in texts
    weights = sparse_weights(torch.tensor([[4.0, 3.0, 1.0, 0.0]]), 2).dense(4)[0].tolist()
    assert [f"{weight:.2f}" for weight in weights[:2]] == ["0.60", "0.40"]
    assert "h2 with weight 0.60, h4 with weight 0.40" in alt_of(fig)
    scored = [
        patch for patch in fig.axes[0].patches
        if isinstance(patch, FancyArrowPatch)
        and patch.get_edgecolor()[:3] == to_rgb(COLOURS["scored"])
    ]  # fmt: skip
    assert len(scored) == 4, "every memory is scored"


@pytest.mark.parametrize("truncation", ["block", "sliding"])
@pytest.mark.parametrize("replay", ["full", "write_step", "none"])
@pytest.mark.parametrize("block_offset", [0, 1])
def test_backward_draws_exactly_the_paths(truncation: str, replay: str, block_offset: int) -> None:
    setting: dict[str, Any] = {
        "k_att": 2, "k_trunc": 3, "truncation": truncation, "replay": replay,
        "block_offset": block_offset,
    }  # fmt: skip
    reads = {12: [2, 8], 8: [4]}
    fig = figures.backward_panels({"": {**setting, "reads": reads}}, 12)
    paths = credit_paths(reads, ScanOptions(k_top=2, **setting), 12)
    ax = fig.axes[0]
    blue = [
        patch for patch in ax.patches
        if isinstance(patch, FancyArrowPatch)
        and patch.get_edgecolor()[:3] == to_rgb(COLOURS["gradient"])
    ]  # fmt: skip
    assert len(blue) == len(paths.carries) + len(paths.skips) + 1  # and the loss's own arrow
    crosses = sorted(line.get_xdata()[0] for line in lines(fig) if line.get_marker() == "X")
    expected = [t - 0.5 for t in paths.cuts] + [u + 0.04 for _, u in paths.closed]
    assert crosses == pytest.approx(sorted(expected))
    assert ("by no skip" in alt_of(fig)) == (replay == "none")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"steps": 1}, "steps"),
        ({"steps": 25}, "steps"),
        ({"k_trunc": 0}, "k_trunc"),
        ({"truncation": "soft"}, "truncation"),
        ({"reads": {12: [5]}}, "reads"),
        ({"k_top": 1, "reads": {12: [2, 4]}}, "k_top"),
    ],
)
def test_backward_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        figures.backward_diagram(**arguments)


def test_backward_refuses_an_unknown_setting() -> None:
    with pytest.raises(ValueError, match="k_atn"):
        figures.backward_panels({"a": {"k_atn": 2}})


def test_forward_refuses() -> None:
    with pytest.raises(ValueError, match="scores"):
        figures.forward_diagram(scores=[1.0])
    with pytest.raises(ValueError, match="k_att"):
        figures.forward_diagram(k_att=10, steps=10)


def test_credit_matrix_shows_every_entry() -> None:
    fig = figures.credit_matrix(GRAPH)
    assert (~is_blank(fig.axes[0].images[1]) == GRAPH.numpy()).all()
    assert f"{int(GRAPH.sum())} of 78" in alt_of(fig)


def test_credit_matrix_shares_its_scale_and_blanks_zeros() -> None:
    norms = GRAPH.double()
    fig = figures.credit_matrix({"a": norms * 0.1, "b": norms * 7})
    images = [ax.images[1] for ax in fig.axes[:2]]
    assert [image.norm.vmin for image in images] == pytest.approx([0.1, 0.1])
    assert [image.norm.vmax for image in images] == pytest.approx([7.0, 7.0])
    assert (is_blank(images[0]) == (GRAPH.numpy() == 0)).all()


@pytest.mark.parametrize(
    "matrix",
    [
        np.ones((2, 3)), np.ones(3), {}, {"a": GRAPH, "b": GRAPH * 1.0}, -np.eye(3),
        np.full((2, 2), np.nan), np.zeros((3, 3)),
    ],
)  # fmt: skip
def test_credit_matrix_refuses(matrix: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        figures.credit_matrix(matrix)


def test_learning_curve_draws_mean_and_band() -> None:
    low = [{"update": 0, "accuracy": 0.1}, {"update": 10, "accuracy": 0.5}]
    high = [{"update": 0, "accuracy": 0.3}, {"update": 10, "accuracy": 0.9}]
    fig = figures.learning_curve([{"history": low}, {"history": high}], chance=0.125)
    mean = lines(fig)[0]
    assert list(mean.get_ydata()) == pytest.approx([20, 70])
    (band,) = fig.axes[0].collections
    corners = np.asarray(band.get_paths()[0].vertices)
    assert corners[:, 1].min() == pytest.approx(10) and corners[:, 1].max() == pytest.approx(90)
    chance = next(line for line in fig.axes[0].lines if line.get_gid() == "chance")
    assert np.asarray(chance.get_ydata())[0] == pytest.approx(12.5)


def test_a_solved_run_keeps_its_last_value() -> None:
    early = [{"update": 0, "accuracy": 0.0}, {"update": 10, "accuracy": 1.0}]
    late = [{"update": 0, "accuracy": 0.0}, {"update": 20, "accuracy": 0.5}]
    fig = figures.learning_curve([{"history": early}, {"history": late}], chance=0.125)
    assert list(lines(fig)[0].get_ydata()) == pytest.approx([0, 62.5, 75])


def test_learning_curve_refuses() -> None:
    with pytest.raises(ValueError, match="chance"):
        figures.learning_curve(history())
    with pytest.raises(ValueError, match="'ce10'"):
        figures.learning_curve(history(), metric="ce10")
    with pytest.raises(ValueError, match="records"):
        figures.learning_curve([1, 2], chance=0.1)


def test_zeros_are_on_the_rail_and_not_on_the_curve() -> None:
    fig = figures.gradient_by_distance({"tbptt": ([0, 1, 2, 3], [1.0, 1e-3, 0.0, float("nan")])})
    curve, rail = lines(fig)[:2]
    assert list(curve.get_xdata()) == [0, 1, 2]
    assert np.isnan(curve.get_ydata()[2])
    assert list(rail.get_xdata()) == [2] and rail.get_ydata()[0] < 1e-3
    assert "1 of 3 distances exactly 0" in alt_of(fig)
    for bad in ({}, {"a": ([0], [-1.0])}, {"a": ([0], [0.0])}, {"a": ([0, 1], [1.0])}):
        with pytest.raises(ValueError, match="must"):
            figures.gradient_by_distance(bad)


def test_out_of_memory_is_no_accuracy() -> None:
    fig = figures.transfer_curve({}, chance=0.125, paper=PAPER)
    attentive = next(line for line in lines(fig) if "self-attention" in str(line.get_label()))
    assert list(attentive.get_xdata()) == [100, 2000]
    texts: list[Any] = list(fig.axes[0].texts)
    (told,) = [text for text in texts if text.get_text() == "out of memory at 5000"]
    assert told.get_color() == attentive.get_color()
    assert told.xy[0] == 5000 and told.xy[1] < 12.5, "below chance it lies on nobody's curve"
    assert "5000: out of memory" in alt_of(fig)
    for bad in ({}, {"sab": [(100, 99.0)]}, {"sab": [(0, 0.5)]}):
        with pytest.raises(ValueError, match="must"):
            figures.transfer_curve(bad, chance=0.125)


def test_attention_map_tells_where_it_reads() -> None:
    fig = figures.attention_map(np.eye(10, 20), relevant=(1, 10))
    assert "from 1.0 at output step 1 to 10.0 at step 10, 100 %" in alt_of(fig)
    for bad in (np.full((2, 2), 1.5), np.full((2, 2), -0.1), np.ones(3), {"a": EYE, "b": EYE.T}):
        with pytest.raises(ValueError, match="must"):
            figures.attention_map(bad)
    with pytest.raises(ValueError, match="output_steps"):
        figures.attention_map(EYE, output_steps=[1])


def test_scaling_names_the_exponent() -> None:
    fig = figures.scaling({"sab": [(100, 10.0), (10, 1.0)]}, slopes={"sab": 1.0})
    (line,) = lines(fig)
    assert list(line.get_xdata()) == [10, 100]
    assert "T^{1.00}" in str(line.get_label()) and "exponent 1.00" in alt_of(fig)
    (line,) = lines(figures.scaling({"a": [(1, 1.0), (2, 2.0)]}, slopes={"a": 1.0}, symbol="N"))
    assert "N^{1.00}" in str(line.get_label())
    for bad in ([], [(0, 1.0)]):
        with pytest.raises(ValueError, match="must"):
            figures.scaling({"a": bad})
    with pytest.raises(ValueError, match="must"):
        figures.scaling({})


def test_read_weights_needs_equal_lengths() -> None:
    with pytest.raises(ValueError, match="3 entries"):
        figures.read_weights([1, 2], [0.5, 0.5, 0.0])
