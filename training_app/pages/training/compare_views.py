"""Runs side by side: the settings in which they differ, their curves over each other, and their scorecards with paired intervals."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents_app.access import Role, get_pool, require_role
from agents_app.models import Pool
from routerweb.http import page
from routerweb.pages import parameters
from training_app.engine.config import Config
from training_app.engine.measures import COMPARED
from training_app.models import Card, RouterModel, Run
from training_app.pages.training import curves
from training_app.versions import comparisons, gate, registry, scorecards, verdict

MOST = 4


@require_GET
@require_role(Role.OPS)
def run_compare(request: HttpRequest, slug: str) -> HttpResponse:
    """Two to four runs, `?run=1&run=2`; differences are from the first."""
    pool = get_pool(request, slug)
    runs = chosen(pool, request.GET.getlist("run"))
    if not 2 <= len(runs) <= MOST:
        messages.error(request, _("Choose two to four runs to compare."))
        return redirect("runs", slug)
    models = {
        model.run_id: model
        for model in RouterModel.objects.filter(run__in=runs).select_related("pool", "run__snapshot")
    }
    columns = [{"run": run, "model": models.get(run.pk), **measured(models.get(run.pk))} for run in runs]
    context = {
        "pool": pool,
        "columns": columns,
        "settings": differing(runs),
        "measures": [
            (name, scorecards.LABELS[name], [column["figures"].get(name) for column in columns]) for name in COMPARED
        ],
        "one_snapshot": len({run.snapshot_id for run in runs}) == 1,
        "compared": paired(columns),
        "charts": curves.overlay(runs),
    }
    crumbs = [(pool.name, reverse("home")), (_("Runs"), reverse("runs", args=[slug]))]
    return page(request, "training_app/compare.html", context, title=_("Compare runs"), crumbs=crumbs)


def chosen(pool: Pool, values: Sequence[str]) -> list[Run]:
    """The pool's runs of these ids, in the order asked for, each once; ids that are none are left out."""
    keys = list(dict.fromkeys(parameters.keys(values)))
    runs = Run.objects.filter(pool=pool, pk__in=keys).select_related("pool", "snapshot__pool", "author").in_bulk()
    return [runs[key] for key in keys if key in runs]


def differing(runs: Sequence[Run]) -> list[tuple[str, list[Any]]]:
    """(setting, its value in each run) of the settings that are not the same in all; one that a run did not know is its default."""
    defaults = Config().to_mapping()
    names = dict.fromkeys(name for run in runs for name in run.config)
    rows = [(name, [run.config.get(name, defaults.get(name)) for run in runs]) for name in sorted(names)]
    return [(name, values) for name, values in rows if any(value != values[0] for value in values)]


def measured(model: RouterModel | None) -> dict[str, Any]:
    """A model's figures as the table takes them: its verdict; by measure an interval, on how many queries; and validation. None of too
    few queries, but `few` says so."""
    card = model.card if model else Card()
    enough = scorecards.enough(card)
    return {
        "verdict": verdict.of(model) if model else None,
        "figures": card.figures if enough else {},
        "queries": card.checked if card.figures else None,
        "folds": card.folded.folds if card.folded else 0,
        "few": "" if enough or not card.figures else scorecards.too_few_in_a_cell(card.checked),
        "validation": card.validation if enough else None,
    }


def paired(columns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each run but the first, its differences from the first on the same test queries: {"run", "figures" or "why" not,
    "sentence"}."""
    first = columns[0]["model"]
    rows = []
    for column in columns[1:]:
        model, figures, why, sentence = column["model"], None, "", ""
        if first is None or model is None:
            why = _("One of the two has made no model.")
        else:
            try:
                compared = comparisons.between(model, first, max_queries=gate.PAGE_QUERIES)
                why = "" if compared else _("There is no test query, or there are too many to measure on a page.")
                if compared and compared.queries < scorecards.LEAST_CHECKED:
                    why = scorecards.too_few(compared.queries)
                elif compared:
                    figures = compared.figures
                    sentence = verdict.Beside.of(first.name, compared).sentence() if "exact" in figures else ""
            except registry.RegistryError as error:
                why = str(error)
        rows.append({"run": column["run"], "model": model, "figures": figures, "why": why, "sentence": sentence})
    return rows
