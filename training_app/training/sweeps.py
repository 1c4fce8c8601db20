"""Sweeps: a small grid or a random search over settings and seeds, as ordinary runs on one snapshot.

Runs are compared by their validation Jaccard alone. Whoever chose among many by their test figures would make those flatter.
"""

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who, actor_of
from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Snapshot
from training_app.engine.config import Config, ConfigError
from training_app.models import SET_ROUTER, Run, Sweep
from training_app.training import runs
from training_app.versions.encoder_folders import router_config

#: A setting's values, or the ends of the range that a random search draws from.
Axis = Sequence[Any] | Mapping[str, float]
UNENDED = (Run.Status.QUEUED, Run.Status.RUNNING)
_FIELDS = {f.name: f for f in fields(Config)}


class SweepError(Exception):
    """A sweep that cannot be launched. `field` is "space", "runs", or a setting's name."""

    def __init__(self, field: str, reason: str) -> None:
        self.field = field
        super().__init__(reason)


# ---------------------------------------------------------------------------------------------------- the space


def read_space(text: str) -> dict[str, Axis]:
    """The space as people write it, a setting a line: `gamma: 0.9, 1.0`, `learning_rate: 0.0003..0.01`, `hidden_layers: 32x32, 64x64`.

    Raises SweepError with the line.
    """
    space: dict[str, Axis] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, separator, values = (part.strip() for part in line.replace("=", ":", 1).partition(":"))
        if not separator or not values:
            raise SweepError(
                "space", _("Line %(number)d must read like gamma: 0.9, 1.0") % {"number": number}
            )  # fmt: skip
        if name in space:
            raise SweepError("space", _("Line %(number)d names %(name)s again.") % {"number": number, "name": name})
        space[name] = read_axis(name, values)
    return space


def read_axis(name: str, text: str) -> Axis:
    """One setting's values `a, b, c` or range `low..high`. Raises SweepError."""
    low, dots, high = text.partition("..")
    if dots:
        try:
            return {"low": float(low), "high": float(high)}
        except ValueError:
            raise SweepError(
                "space", _("%(name)s: %(text)s is no range of numbers.") % {"name": name, "text": text}
            ) from None
    values = [value.strip() for value in text.split(",") if value.strip()]
    # A list stands as 32x32, as the comma parts the values.
    return [value.replace("x", ", ") for value in values] if name == "hidden_layers" else values


def written(space: Mapping[str, Axis]) -> str:
    """The inverse of `read_space`."""
    return "\n".join(f"{name}: {_axis_text(axis)}" for name, axis in space.items())


def _axis_text(axis: Axis) -> str:
    if isinstance(axis, Mapping):
        return f"{axis['low']:g}..{axis['high']:g}"
    return ", ".join(
        "x".join(map(str, v)) if isinstance(v, list) else str(v).lower() if isinstance(v, bool) else str(v)
        for v in axis
    )


def plan(
    base: Mapping[str, Any], space: Mapping[str, Axis], method: str, *, count: int = 0, seeds: int = 1
) -> list[dict[str, Any]]:
    """The settings of each run: `base` with every combination of the space, or with `count` points drawn at random, each with as many
    seeds. All are checked here. Raises SweepError.
    """
    if not space and seeds < 2:
        raise SweepError("space", _("Name at least one setting that varies, or more than one seed."))
    for name, axis in space.items():
        _check_axis(name, axis, method, seeds)
    if method == Sweep.Method.GRID:
        size = math.prod(len(axis) for axis in space.values()) * seeds
        _check_size(size)
        points = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    else:
        if count < 1:
            raise SweepError("runs", _("Say how many points to draw."))
        _check_size(count * seeds)
        points = _drawn(space, count)
    first = _config(base).seed
    configs = []
    for point in points:
        for seed in range(seeds):
            more = {"seed": first + seed} if seeds > 1 else {}
            configs.append(_config({**base, **point, **more}).changed())
    return configs


def _check_axis(name: str, axis: Axis, method: str, seeds: int) -> None:
    if name not in _FIELDS:
        near = get_close_matches(name, _FIELDS, 1)
        text = _("%(name)s is no setting; did you mean %(near)s?") if near else _("%(name)s is no setting.")
        raise SweepError("space", text % {"name": name, "near": near[0] if near else ""})
    if name == "seed" and seeds > 1:
        raise SweepError("space", _("Seeds are given twice: as a setting and as a number of seeds."))
    if not axis:
        raise SweepError("space", _("%(name)s has no value.") % {"name": name})
    if isinstance(axis, Mapping):
        default = _FIELDS[name].default
        if method == Sweep.Method.GRID or isinstance(default, bool) or not isinstance(default, int | float):
            raise SweepError(
                "space", _("%(name)s needs values: a range is for numbers, drawn at random.") % {"name": name}
            )
        ends = [axis.get("low"), axis.get("high")]
        if not all(isinstance(end, int | float) and math.isfinite(end) for end in ends) or not ends[0] < ends[1]:  # type: ignore[operator]
            raise SweepError("space", _("%(name)s: a range goes from a number to a larger one.") % {"name": name})


def _check_size(size: int) -> None:
    if size > settings.SWEEP_RUNS:
        raise SweepError(
            "runs",
            _("That would be %(size)d runs; at most %(most)d are launched at once (SWEEP_RUNS).")
            % {"size": size, "most": settings.SWEEP_RUNS},
        )


def _drawn(space: Mapping[str, Axis], count: int) -> list[dict[str, Any]]:
    """`count` different points; fewer where the space has not so many."""
    # Its own generator with a fixed seed: the same sweep draws the same points.
    rng = random.Random(0)  # noqa: S311
    drawn: dict[str, dict[str, Any]] = {}
    for _attempt in range(50 * count):
        point = {name: _draw(name, axis, rng) for name, axis in space.items()}
        drawn.setdefault(repr(point), point)
        if len(drawn) == count:
            break
    return list(drawn.values())


def _draw(name: str, axis: Axis, rng: random.Random) -> Any:
    if not isinstance(axis, Mapping):
        return rng.choice(axis)
    low, high = axis["low"], axis["high"]
    # What spans magnitudes is drawn evenly over them.
    value = (
        math.exp(rng.uniform(math.log(low), math.log(high))) if low > 0 and high >= 10 * low else rng.uniform(low, high)
    )
    return round(value) if isinstance(_FIELDS[name].default, int) else float(f"{value:.3g}")


def _config(values: Mapping[str, Any]) -> Config:
    try:
        return router_config(values)
    except ConfigError as error:
        raise SweepError(error.field, str(error)) from None


# ---------------------------------------------------------------------------------------------------- launching


def launch(
    pool: Pool,
    *,
    base: Mapping[str, Any],
    space: Mapping[str, Axis],
    method: str = Sweep.Method.GRID,
    count: int = 0,
    seeds: int = 1,
    snapshot: Snapshot | None = None,
    author: Who = None,
) -> Sweep:
    """Launch the runs of a sweep, all or none of them, on one snapshot: the given one, or the pool's gold as it is now.

    Raises SweepError for a bad space or setting and RunError where there is nothing to train on.
    """
    configs = plan(base, space, method, count=count, seeds=seeds)
    if snapshot is None:
        try:
            snapshot = snapshots.take(pool, author=actor_of(author).user, least=runs.least_rows(SET_ROUTER))
        except snapshots.SnapshotError as error:
            raise runs.RunError(str(error)) from error
    varied = dict(space) if seeds < 2 else {**space, "seed": sorted({config.get("seed", 0) for config in configs})}
    with transaction.atomic():
        sweep = Sweep.objects.create(
            pool=pool,
            snapshot=snapshot,
            method=method,
            base=_config(base).changed(),
            space=varied,
            author=actor_of(author).user,
        )
        for config in configs:
            runs.launch(pool, config=config, snapshot=snapshot, author=author, sweep=sweep)
        detail = {"runs": len(configs), "space": varied, "method": str(method)}
        audit.record("sweep.launched", actor=author, target=str(sweep), pool=pool, detail=detail)
    return sweep


def cancel(sweep: Sweep, *, actor: Who) -> int:
    """End every run of the sweep that is queued or running; how many that were."""
    ended = 0
    for run in sweep.runs.filter(status__in=UNENDED).select_related("pool"):
        try:
            runs.cancel(run, actor=actor)
            ended += 1
        except runs.RunError:
            continue  # it has ended meanwhile
    if ended:
        audit.record(
            "sweep.cancelled",
            actor=actor,
            target=str(sweep),
            pool=sweep.pool,
            detail={"runs": ended},
        )
    return ended


# ---------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, slots=True)
class Result:
    """One run of a sweep: `point` are its values of the settings that vary, `validation` its best validation Jaccard (None before
    there is one), `mean` that of all runs of its point over their seeds, `best` whether it is the best run that is done."""

    run: Run
    point: dict[str, Any]
    validation: float | None
    mean: float | None
    best: bool
    model: str = ""
    version: int = 0


def results(sweep: Sweep) -> list[Result]:
    """The sweep's runs in the order in which they were launched; one query."""
    runs_of = sweep.runs.select_related("pool").order_by("pk")
    scored = runs_of.annotate(validation=F("model__measured__validation"), version=F("model__version"))
    defaults = Config().to_mapping()
    rows = []
    for run in scored:
        point = {name: run.config.get(name, defaults.get(name)) for name in sweep.space}
        so_far = run.validation if run.validation is not None else run.metrics.get("val_jaccard")
        rows.append((run, point, so_far, run.version))
    by_point: dict[str, list[float]] = defaultdict(list)
    for _run, point, value, _version in rows:
        if value is not None:
            by_point[_key(point)].append(value)
    done = [value for run, _point, value, _version in rows if run.status == Run.Status.DONE and value is not None]
    top = max(done, default=None)
    marked = False
    out = []
    for run, point, value, version in rows:
        others = by_point.get(_key(point))
        is_best = not marked and top is not None and value == top and run.status == Run.Status.DONE
        marked = marked or is_best
        mean = sum(others) / len(others) if others else None
        out.append(
            Result(run, point, value, mean, is_best, f"{run.pool.slug}-{version}" if version else "", version or 0)
        )
    return out


def _key(point: Mapping[str, Any]) -> str:
    return repr({name: value for name, value in point.items() if name != "seed"})


def ranked(rows: Iterable[Result], column: str, down: bool) -> list[Result]:
    """The rows by validation, mean, run, or a setting's name; those without a value last."""

    def value(row: Result) -> Any:
        return {"validation": row.validation, "mean": row.mean, "run": row.run.pk}.get(column, row.point.get(column))

    measured = [row for row in rows if value(row) is not None]
    # Values of one setting are of one type; lists compare as lists.
    measured.sort(key=value, reverse=down)
    return measured + [row for row in rows if value(row) is None]
