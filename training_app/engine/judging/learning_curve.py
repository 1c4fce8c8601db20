"""How good a router is with so many labels: the figures of random subsets of a folder's training rows.

Of N labels a fifth, at least LEAST_VAL, are validation, the rest train; the test split stays whole. The subsets of one draw lie
within each other, so that a curve shows what more labels bring and not what another draw does. Beyond the
standard library only a quantile of scipy's.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from training_app.engine.measures import HEADLINE, PRIMARY

LEAST_VAL = 10  # validation rows of the smallest subset
_COLOURS = ("#1f5fbf", "#c2410c", "#15803d", "#7c3aed", "#a16207", "#be185d", "#0e7490", "#4b5563")


def write_subset(folder: Path, out: Path, labels: int, draw: int, *, unlabeled: bool = False) -> None:
    """Into the folder `out`, what `folder` would be with `labels` labels, the draw with number `draw`.

    With `unlabeled` the other training rows stay, without their labels; else they are left out. Rows that came without a
    label stay as they are. Raises ValueError where the training split has fewer labels.
    """
    rows = [json.loads(line) for line in (folder / "train.jsonl").read_text("utf-8").splitlines() if line.strip()]
    labeled = [i for i, row in enumerate(rows) if row.get("required_agents") is not None]
    if labels > len(labeled):
        raise ValueError(f"{labels} labels were asked for, and the folder has {len(labeled)} labeled training rows")
    if labels < 2 * LEAST_VAL:
        raise ValueError(f"{labels} labels are too few: at least {2 * LEAST_VAL}")
    drawn = random.Random(draw).sample(labeled, len(labeled))[:labels]  # noqa: S311 - no secret
    # Every fifth of the draw, so that a row stays what it is as the subset grows; of a small one as many more as it takes.
    by_turn = sorted(range(labels), key=lambda position: (position % 5, position))
    val = {drawn[position] for position in by_turn[: max(LEAST_VAL, -(-labels // 5))]}
    train = set(drawn) - val
    row_numbers = [i for i in range(len(rows)) if i in train or rows[i].get("required_agents") is None]
    if unlabeled:
        hidden = set(labeled) - set(drawn)
        rows = [{**row, "required_agents": None} if i in hidden else row for i, row in enumerate(rows)]
        row_numbers = [i for i in range(len(rows)) if i not in val]
    out.mkdir(parents=True, exist_ok=True)
    for name, numbers in (("train.jsonl", row_numbers), ("val.jsonl", sorted(val))):
        lines = (json.dumps(rows[i], ensure_ascii=False) for i in numbers)
        (out / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    for name in ("agents.jsonl", "test.jsonl"):
        (out / name).write_bytes((folder / name).read_bytes())


def learning_curve(
    path: str | Path,
    sizes: Sequence[int],
    subsets: int,
    measure: Callable[[Path], Mapping[str, Any]],
    *,
    unlabeled: bool = False,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """{"sizes": […], "subsets": n, "routers": {name: {size: {measure: [a figure per subset]}}}}.

    `measure` takes a folder and gives what `benchmark` gives: {"routers": {name: {measure: {"mean": …}}}}. Raises
    ValueError for sizes that the folder cannot give.
    """
    measured: dict[str, dict[str, dict[str, list[float]]]] = {}
    for size in sizes:
        for draw in range(subsets):
            report(f"{size} labels, subset {draw + 1} of {subsets}")
            with TemporaryDirectory() as place:
                write_subset(Path(path), Path(place), size, draw, unlabeled=unlabeled)
                for name, figures in measure(Path(place))["routers"].items():
                    point = measured.setdefault(name, {}).setdefault(str(size), {m: [] for m in HEADLINE})
                    for m in HEADLINE:
                        point[m].append(float(figures[m]["mean"]))
    return {"sizes": list(sizes), "subsets": subsets, "unlabeled": unlabeled, "routers": measured}


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean over subsets, and the ends of its 95% interval by their spread (Student's t); of one subset both are the mean."""
    from scipy.special import stdtrit  # most of a second, which `benchmark --help` has no use for

    mean, n = statistics.fmean(values), len(values)
    wide = float(stdtrit(n - 1, 0.975)) * statistics.stdev(values) / n**0.5 if n > 1 else 0.0
    return mean, mean - wide, mean + wide


def table(curve: Mapping[str, Any], measure: str = PRIMARY) -> Iterator[str]:
    """The mean at each size, a line a router, the best at the last size first."""
    sizes = [str(size) for size in curve["sizes"]]
    several = curve["subsets"] > 1
    of = f"of {curve['subsets']} subsets (± half of the 95% interval)" if several else "of one subset"
    yield f"mean test {measure} {of} by labels in all"
    yield " ".join(["router".ljust(14), *(size.rjust(15) for size in sizes)])
    routers = curve["routers"]
    for name in sorted(routers, key=lambda n: -statistics.fmean(routers[n][sizes[-1]][measure])):
        cells = []
        for size in sizes:
            mean, low, _ = interval(routers[name][size][PRIMARY])
            cells.append((f"{mean:.3f} ± {mean - low:.3f}" if several else f"{mean:.3f}").rjust(15))
        yield " ".join([name.ljust(14), *cells])


def svg(curve: Mapping[str, Any]) -> str:
    """The curves as a picture: labels along, by their order, the mean up, with its interval."""
    sizes = [str(size) for size in curve["sizes"]]
    margin, top, width, height = 44, 14, 520, 300
    across = [margin + width * (i + 0.5) / len(sizes) for i in range(len(sizes))]

    def up(value: float) -> float:
        return top + height * (1 - min(1.0, max(0.0, value)))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {margin + width + 130} {top + height + 40}" role="img" '
        f'aria-label="Mean test {PRIMARY} by labels" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for step in range(0, 11, 2):
        y = up(step / 10)
        parts.append(f'<line x1="{margin}" y1="{y:.1f}" x2="{margin + width}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{margin - 6}" y="{y + 4:.1f}" text-anchor="end">{step / 10:.1f}</text>')
    for x, size in zip(across, sizes, strict=True):
        parts.append(f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{size}</text>')
    parts.append(
        f'<text x="{margin + width / 2:.0f}" y="{top + height + 34}" text-anchor="middle">labels in all</text>'
    )
    for n, (name, by_size) in enumerate(curve["routers"].items()):
        colour = _COLOURS[n % len(_COLOURS)]
        points = [interval(by_size[size][PRIMARY]) for size in sizes]
        line = " ".join(f"{x:.1f},{up(mean):.1f}" for x, (mean, _, _) in zip(across, points, strict=True))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for x, (mean, low, high) in zip(across, points, strict=True):
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{up(low):.1f}" y2="{up(high):.1f}" stroke="{colour}"/>'
                f'<circle cx="{x:.1f}" cy="{up(mean):.1f}" r="3" fill="{colour}"/>'
            )
        y = top + 14 * (n + 1)
        parts.append(f'<rect x="{margin + width + 12}" y="{y - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{margin + width + 28}" y="{y + 1}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"
