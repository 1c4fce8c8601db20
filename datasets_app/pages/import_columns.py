"""The page between a file and its import: what we think it is, what its columns and its labels mean, and what would be kept."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, cast

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app import pools
from agents_app.access import Role, person, require_role, roles_of
from agents_app.files.formats import Reading, Unreadable
from agents_app.models import Pool
from agents_app.pools import PoolError
from datasets_app.files import checking, imports, label_columns, looking, meanings, shapes, uploads
from datasets_app.models import Import
from datasets_app.pages.transfer_forms import MEANINGS, ColumnsForm
from datasets_app.traces import exports as trace_exports
from routerweb.http import page, reads_file, wants_fragment
from training_app.engine.data.examples import Agent

#: Values that no agent is called by which the page asks about at once, those of most rows first.
MOST_VALUES = 40
#: What the page calls a further column of labels, and how it is read then.
FURTHER = {"more_labels": label_columns.NAMES_AGENTS, "mark": label_columns.MARK}
NONE, LEAVE, NEW = "none", "leave", "new"


def get_upload(slug: str, import_id: int) -> Import:
    """The import of that pool, or 404."""
    uploads = Import.objects.select_related("dataset__pool", "author").defer("dataset__pool__guidelines")
    return get_object_or_404(uploads, pk=import_id, dataset__pool__slug=slug)


def reading_of(pool: Pool, file: UploadedFile) -> Reading | None:
    """How a file is to be read; None for one of our own form of which all is understood, so that nothing needs to be asked. Raises
    Unreadable."""
    agents = pools.roster(pool, retired=True)
    looked = looking.look(cast(BinaryIO, file), file.name or "", agents)
    reading = replace(looked.reading, values=meanings.remembered(pool))
    file.seek(0)
    if looked.plain and not reading.values:
        checked = checking.check(cast(BinaryIO, file), reading, agents)
        file.seek(0)
        if not checked.lost and not checked.pattern:
            return None
    return reading


@dataclass(frozen=True, slots=True)
class LabelValue:
    """One value of the labels beside what it may mean: `chosen` is an agent's id, NONE, LEAVE, NEW or "" for not said yet."""

    value: str
    count: int
    text: str
    chosen: str
    guess: Agent | None


@reads_file
@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def import_columns(request: HttpRequest, slug: str, import_id: int) -> HttpResponse:
    """The first rows of a file, what its columns and labels are, and how many labels would be kept; a POST reads it in. An HTMX
    request shows them by other settings."""
    upload = get_upload(slug, import_id)
    pool = upload.dataset.pool
    if upload.status != Import.Status.CHOOSING:
        return redirect("import_detail", slug, import_id)
    sent = request.POST if request.method == "POST" else request.GET
    agents = pools.roster(pool, retired=True)
    reading, problem, looked, checked = Reading.of(upload.reading), "", None, None
    form = ColumnsForm(sent or None, initial={**upload.reading, "split": upload.split})
    try:
        looked = _looked(upload, reading, form, sent, agents)
        reading = replace(looked.reading, values={**reading.values, **_chosen(sent)})
        looked = looking.with_unread(looked, agents)
        if reading.shape or {"text", "messages"} & set(reading.columns):
            checked = checking.check(uploads.content(upload), reading, agents)
        else:
            problem = _("Choose the column that holds the query's text.")
    except Unreadable as error:
        problem = str(error)
    values, more_values = _values_shown(checked, sent) if checked else ([], 0)
    if request.method == "POST" and checked is not None:
        problem = _undecided(values, sent)
        if not problem:
            try:
                return _begin(request, upload, reading, values, form)
            except PoolError as error:
                problem = str(error)
    built = {name: getattr(reading, name) for name in ("encoding", "delimiter", "header")}
    context = {
        "pool": pool,
        "upload": upload,
        "form": ColumnsForm(initial={**reading.as_json(), "split": sent.get("split", upload.split)}),
        "problem": problem if sent or not looked else "",
        "looked": looked,
        "checked": checked,
        "lost": checked.lost if checked else 0,
        "values": values,
        "guessed": any(value.chosen for value in values),
        "open_values": sum(not value.chosen for value in values),
        "more_values": more_values,
        "agents": agents,
        "may_make_agents": Role.OPS in roles_of(request.user, pool.pk),
        "tool": shapes.NAMES.get(reading.shape, ""),
        "meanings": MEANINGS,
        "columns": _with_meanings(looked) if looked else [],
        "built": json.dumps(built, sort_keys=True),
        **_build(reading),
        "labels_from": _labels_from(looked) if looked else "",
    }
    if wants_fragment(request):
        return render(request, "datasets_app/_import_columns.html", context)
    crumbs = [(pool.name, reverse("home")), (_("Import"), reverse("import", args=[slug]))]
    status = 422 if problem and request.method == "POST" else 200
    return page(
        request, "datasets_app/import_columns.html", context, title=upload.file_name, crumbs=crumbs, status=status
    )


def _build(reading: Reading) -> dict[str, bool]:
    """What kind of file the page speaks of."""
    are_traces, is_chat = reading.shape in trace_exports.NAMES, "speaker" in reading.columns
    return {
        "are_traces": are_traces,
        "is_chat": is_chat,
        "are_turns": are_traces or is_chat,
        "is_table": reading.kind in ("table", "xlsx"),
        "is_text": reading.kind not in ("xlsx", "zip"),
    }


def _looked(
    upload: Import, stored: Reading, form: ColumnsForm, sent: Mapping[str, str], agents: tuple[Agent, ...]
) -> looking.Look:
    """The first rows by what has been chosen; where that changes how the file is built, its columns are guessed anew. Raises
    Unreadable."""
    if not sent or not form.is_valid():
        return looking.again(uploads.content(upload), stored, agents)
    reading = _corrected(stored, form.cleaned_data)
    built = {name: getattr(reading, name) for name in ("encoding", "delimiter", "header")}
    drawn = sent.get("built") or json.dumps({name: getattr(stored, name) for name in built}, sort_keys=True)
    rebuilt = json.dumps(built, sort_keys=True) != drawn
    # In another encoding names may be known that could not be read before.
    recoded = f'"encoding": "{reading.encoding}"' not in drawn
    looked = looking.again(uploads.content(upload), reading, agents, columns=rebuilt, header=recoded)
    if not rebuilt and not reading.shape:
        chosen = [(looked.columns[i].key, meaning) for i, meaning in _meanings(sent, len(looked.columns))]
        named = {meaning: key for key, meaning in chosen if meaning not in FURTHER}
        further = {key: FURTHER[meaning] for key, meaning in chosen if meaning in FURTHER}
        looked = replace(looked, reading=replace(looked.reading, columns=named, further=further))
    return looked


def _corrected(stored: Reading, corrections: Mapping[str, Any]) -> Reading:
    """A reading by what somebody has corrected of how the file is built."""
    changed = replace(
        stored,
        encoding=corrections["encoding"] or stored.encoding,
        keep=corrections["keep"],
        empty=corrections["empty"] or stored.empty,
    )
    if stored.kind in ("table", "xlsx"):
        changed = replace(changed, header=corrections["header"])
    if stored.kind == "table":
        changed = replace(changed, delimiter=corrections["delimiter"] or stored.delimiter)
    return changed


def _meanings(sent: Mapping[str, str], count: int) -> Iterator[tuple[int, str]]:
    """(column's place, what it is said to be) of each column that is one of ours; of two of a kind the first, but of further labels
    all."""
    choices, used = dict(MEANINGS), set()
    for place in range(count):
        meaning = sent.get(f"as-{place}", "")
        if meaning in choices and (meaning not in used or meaning in FURTHER):
            used.add(meaning)
            yield place, meaning


def _with_meanings(looked: looking.Look) -> list[tuple[looking.Column, str]]:
    ours = {how: meaning for meaning, how in FURTHER.items()}
    by_key = {key: ours[how] for key, how in looked.reading.further.items()}
    by_key |= {key: meaning for meaning, key in looked.reading.columns.items()}
    return [(column, by_key.get(column.key, "")) for column in looked.columns]


def _labels_from(looked: looking.Look) -> str:
    """The names of the columns that hold the labels, "" for none."""
    keys = [looked.reading.columns.get("required_agents"), *looked.reading.further]
    return "”, “".join(column.name for column in looked.columns if column.key in keys)


# ---------------------------------------------------------------------------------------------------- what labels mean


def _choices(sent: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(value as it stands in the file, what was chosen for it) of each that the page asked about."""
    place = 0
    while f"value-{place}" in sent:
        yield sent[f"value-{place}"], sent.get(f"means-{place}", "")
        place += 1


def _chosen(sent: Mapping[str, str]) -> dict[str, list[int] | None]:
    """Normalised value → agents, of those that have been decided; a new agent is made only when the file is read in."""
    decided: dict[str, list[int] | None] = {}
    for value, chosen in _choices(sent):
        if chosen == NONE:
            decided[meanings.key_of(value)] = []
        elif chosen in (LEAVE, NEW):
            decided[meanings.key_of(value)] = None
        elif chosen.isdecimal():
            decided[meanings.key_of(value)] = [int(chosen)]
    return decided


def _values_shown(checked: checking.Check, sent: Mapping[str, str]) -> tuple[list[LabelValue], int]:
    """The values to be asked about, and how many more there are: those that are not understood, each with a guess chosen, then those
    that have been decided."""
    strange = [
        LabelValue(one.value, one.count, one.text, str(one.guess.id) if one.guess else "", one.guess)
        for one in checked.strange
    ]
    decided = [LabelValue(value, 0, "", chosen, None) for value, chosen in _choices(sent) if chosen]
    return [*strange[:MOST_VALUES], *decided], max(len(strange) - MOST_VALUES, 0)


def _undecided(values: list[LabelValue], sent: Mapping[str, str]) -> str:
    """The question to whoever imports a file with labels whose meaning they have not seen; "" where there is none."""
    decided = dict(_choices(sent))
    if sent.get("others") == LEAVE:
        return ""
    open_ones = [value.value for value in values if not decided.get(value.value)]
    if not open_ones:
        return ""
    shown = ", ".join(f"“{value}”" for value in open_ones[:3])
    return _("Choose what %(values)s means, or leave queries with such labels unlabeled.") % {"values": shown}


def _begin(
    request: HttpRequest, upload: Import, reading: Reading, values: list[LabelValue], form: ColumnsForm
) -> HttpResponse:
    """Read the file in as it was said. Raises PoolError for an agent that cannot be made."""
    actor, choices = person(request), dict(_choices(request.POST))
    decided = _chosen(request.POST)
    for value, chosen in choices.items():
        if chosen == NEW and Role.OPS in roles_of(request.user, upload.dataset.pool_id):
            decided[meanings.key_of(value)] = [meanings.make_agent(upload, value, actor)]
    meanings.remember(upload, decided)
    undecided = {meanings.key_of(value.value): None for value in values if not choices.get(value.value)}
    reading = replace(reading, values={**reading.values, **undecided, **decided})
    imports.begin(upload, reading, form.cleaned_data.get("split", "") if form.is_valid() else "")
    return redirect("import_detail", upload.dataset.pool.slug, upload.pk)
