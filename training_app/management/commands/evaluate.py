"""Measure a model on labeled queries, or route a file of queries."""

import contextlib
import json
from argparse import ArgumentTypeError
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app import pools
from agents_app.management.console import at_file, refusing
from agents_app.models import Pool
from datasets_app.files import imports, tables
from datasets_app.labels import snapshots
from datasets_app.management.console import bar, existing_file, pool_of
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent, Row, RowError
from training_app.engine.data.metrics import by_size
from training_app.engine.judging.standard import Judged, Standard, priced, standard_of
from training_app.engine.measures import COMPARED, MEASURES, PRIMARY, SHARES
from training_app.engine.routing import holding
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import Route
from training_app.management import junit
from training_app.management.junit import Outcome
from training_app.models import RouterModel
from training_app.versions import cases, registry, scorecards

BATCH = 500
#: Shares, and what is compared besides.
SHOWN = {*SHARES, *COMPARED}


class Command(BaseCommand):
    help = (
        "Measure a model on the pool's labeled test queries, or on a file of labeled ones; with --output, write its answers, or "
        "its figures. With --fail-under and --cases its exit code says whether the model is good enough. "
        "Example: python manage.py evaluate --pool support --input tickets.jsonl --output routed.jsonl"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--model", metavar="NAME", help="the model's name (default: the active one)")
        parser.add_argument("--input", metavar="FILE", help="JSONL, CSV or TXT (default: the pool's test split)")
        parser.add_argument(
            "--output",
            metavar="FILE",
            help="where to write the answers, as JSON lines; the figures, where it ends in .json",
        )
        parser.add_argument(
            "--fail-under",
            type=_share,
            metavar="SHARE",
            help="exit with 1 where fewer than this share of the queries is exactly right, for example 0.9",
        )
        parser.add_argument(
            "--cases", action="store_true", help="run the pool's must-pass cases too; exit with 1 where one is broken"
        )
        parser.add_argument("--junit", metavar="FILE", help="write what passed and what did not as a JUnit report")

    @refusing(registry.RegistryError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        model = registry.chosen(pool, options.get("model"))
        router = registry.load_model(model)
        rows = self._file_rows(pool, options["input"]) if options.get("input") else _test_rows(pool)
        tally = Tally(router.training, pools.roster(pool, retired=True))
        with at_file(options["output"]), contextlib.ExitStack() as stack:
            named = options.get("output")
            output = stack.enter_context(open(named, "w", encoding="utf-8")) if named else None
            figures = named is not None and named.lower().endswith(".json")
            progress = stack.enter_context(contextlib.closing(bar(0, " queries")))
            for batch in _batches(rows):
                routes = holding.routes(router, [row.text for row in batch])
                for row, route in zip(batch, routes, strict=True):
                    tally.add(row, route, router)
                    if output and not figures:
                        _write(output, row, route, router)
                progress.update(len(batch))
            if output and figures:
                output.write(json.dumps(tally.figures(model.name), indent=1) + "\n")
        outcomes = self._cases(model) if options.get("cases") else []
        if tally.routed or not options.get("cases"):
            self._tell(model.name, tally, options.get("output"))
        if options.get("fail_under") is not None:
            outcomes.append(_reached(tally, options["fail_under"]))
        self._conclude(outcomes, options.get("junit"))

    def _cases(self, model: RouterModel) -> list[Outcome]:
        """What the model makes of the must-pass cases; the broken ones are written."""
        checked = cases.check(model)
        self.stdout.write(cases.summary(checked) or f"{model.pool.slug} has no must-pass case.")
        return [
            Outcome(
                "must-pass cases",
                checked_case.case.text,
                ""
                if checked_case.holds
                else f"{checked_case.sentence()} Why: {checked_case.case.reason} ({checked_case.case.owner_name})",
            )
            for checked_case in checked
        ]

    def _conclude(self, outcomes: list[Outcome], named: str | None) -> None:
        """Write the report, and end with 1 where anything failed."""
        if named:
            with at_file(named):
                Path(named).write_bytes(junit.report(outcomes))
        failed = [outcome.failure for outcome in outcomes if outcome.failure]
        if failed:
            raise CommandError(" ".join(failed))

    def _file_rows(self, pool: Pool, name: str) -> Iterator[Row]:
        path = existing_file(name)
        with path.open("rb") as stream:
            head = stream.read(4096)
            stream.seek(0)
            for row in tables.own_rows(stream, imports.guess_format(path.name, head), pools.roster(pool, retired=True)):
                if isinstance(row, RowError):
                    self.stderr.write(f"{path}: {row}")
                else:
                    yield row

    def _tell(self, name: str, tally: "Tally", output: str | None) -> None:
        if not tally.routed:
            raise CommandError("there is no query to route")
        self.stdout.write(f"{name} routed {tally.routed:,} queries" + (f" to {output}." if output else "."))
        if not tally.required:
            self.stdout.write("None of them is labeled for all agents of the model, so there is nothing to measure.")
            return
        left_out = tally.routed - len(tally.required)
        self.stdout.write(
            f"Measured on {len(tally.required):,} labeled ones" + (f"; {left_out:,} left out." if left_out else ".")
        )
        if len(tally.required) < scorecards.LEAST_CHECKED:
            self.stdout.write(scorecards.too_few(len(tally.required)))
            return
        figures, standard = tally.summary(), tally.standard
        self.stdout.write(f"Its goal is {standard.goal}.{_limit(standard, figures)}")
        for measure in sorted(figures, key=lambda name: name != standard.measure):
            interval = figures[measure]
            if measure in {*SHOWN, standard.measure, standard.limited}:
                label = measure.replace("_", " ")
                self.stdout.write(
                    f"  {label:<13} {interval['mean']:.3f}  ({interval['low']:.3f} to {interval['high']:.3f})"
                )
        measure = standard.measure if standard.measure in MEASURES else PRIMARY
        self.stdout.write(f"{MEASURES[measure].label} by how many agents are needed:")
        for size, measured in tally.by_size().items():
            self.stdout.write(f"  {size:<13} {measured[measure]['mean']:.3f}  {measured['queries']:,} queries")


def _limit(standard: Standard, figures: dict[str, dict[str, float]]) -> str:
    """Whether the goal's limit is kept; "" of a goal without one, and where no query speaks of it."""
    if standard.limited not in figures:
        return ""
    mean, word = figures[standard.limited]["mean"], standard.limited.replace("_", " ")
    verdict = "is kept" if standard.keeps(mean) else "is missed"
    return f" Its limit, {word} {standard.limit:g}, {verdict}: {mean:.3f}."


def _share(text: str) -> float:
    """A share of queries, above 0 and at most 1."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ArgumentTypeError(f"{text} is no share: a number above 0 and at most 1, for example 0.9")
    return share


def _reached(tally: "Tally", least: float) -> Outcome:
    """Whether enough of the queries are exactly right. Of too few nothing can be said, which is a failure too."""
    queries, name = len(tally.required), f"at least {least:g} exactly right"
    if queries < scorecards.LEAST_CHECKED:
        return Outcome("quality", name, f"{queries} labeled queries cannot tell: {scorecards.LEAST_CHECKED} would.")
    right = tally.summary()["exact"]["mean"]
    failure = "" if right >= least else f"{right:.3f} of {queries:,} queries are exactly right, less than {least:g}."
    return Outcome("quality", name, failure)


class Tally:
    """What was selected and what is required, for the rows that every agent of the model was asked about. `training` are the
    settings of the run that made it, `roster` the pool's agents, whose costs count for goal value."""

    def __init__(self, training: Mapping[str, Any] | None = None, roster: Sequence[Agent] = ()) -> None:
        self.standard = standard_of(training or {})
        self._training, self._roster = training or {}, {agent.id: agent for agent in roster}
        self.routed = 0
        self.selected: list[frozenset[int]] = []
        self.required: list[frozenset[int]] = []

    def add(self, row: Row, route: Route, router: Router) -> None:
        """Count one answer."""
        self.routed += 1
        if row.required is None or (row.asked is not None and not {agent.id for agent in router.agents} <= row.asked):
            return
        self.selected.append(frozenset(route.agents))
        self.required.append(row.required)

    def summary(self) -> dict[str, dict[str, float]]:
        """Every measure with its interval, and what the goal adds. Agents that the model does not know count where a label requires
        them."""
        goal = priced(self._training, [self._roster.get(number) or Agent(number, "") for number in self._ids()])
        return Judged.of(*self._arrays(), goal).intervals()

    def by_size(self) -> dict[str, dict[str, Any]]:
        """The measures and the number of queries for each number of agents that is needed: 0, 1, 2–3, 4–6, 7+."""
        return by_size(*self._arrays())

    def figures(self, model: str) -> dict[str, Any]:
        """All that was measured, for a file."""
        figures: dict[str, Any] = {"model": model, "routed": self.routed, "queries": len(self.required)}
        figures["standard"] = self.standard.plain()
        return figures | ({"metrics": self.summary(), "by_size": self.by_size()} if self.required else {})

    def _ids(self) -> list[int]:
        return sorted(frozenset().union(*self.selected, *self.required))

    def _arrays(self) -> tuple[BoolArray, BoolArray]:
        ids = self._ids()
        selected, required = (
            np.array([[number in chosen for number in ids] for chosen in sets], np.bool_).reshape(len(sets), len(ids))
            for sets in (self.selected, self.required)
        )
        return selected, required


def _test_rows(pool: Pool) -> Iterator[Row]:
    with refusing(snapshots.SnapshotError):
        snapshot = snapshots.take(pool)
    for number, example in enumerate(snapshots.examples(snapshot)):
        if example.split == "test":
            yield Row(number, example.id, example.text, example.required, example.asked, "test")


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _write(output: IO[str], row: Row, route: Route, router: Router) -> None:
    names = {agent.id: agent.name for agent in router.agents}
    answer: dict[str, Any] = {
        "id": row.id,
        "text": row.text,
        "agents": list(route.agents),
        "agent_names": [names[number] for number in route.agents],
        "confidence": round(route.confidence, 4),
        "abstained": route.abstained,
        "stop_reason": route.stop_reason,
        "scores": {str(number): round(score, 4) for number, score in route.scores.items()},
    }
    if row.required is not None:
        answer["required_agents"] = sorted(row.required)
    output.write(json.dumps(answer, ensure_ascii=False) + "\n")
