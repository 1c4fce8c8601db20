"""A pool's decisions as files that other tools read: Parquet, JSON lines, or a dataset folder of Hugging Face.

    data/decisions-00000.parquet      rows, the oldest first, at most `PART` in a file
    README.md                         the dataset's card: what the rows are, and which file belongs to which split

A row holds what `COLUMNS` lists. Texts are those that are kept, which the pool's rules have redacted. Without `words`, every column is
left out that `Decision.holds` and `Outcome.holds` declare to hold words. pyarrow is imported where Parquet is written; `CHUNK` rows
are in memory at a time.
"""

import json
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from django.db.models import Field, QuerySet

from agents_app.models import Pool
from routerweb.holds import WORDS, content
from training_app.decision_archive import reading
from training_app.decision_archive.reading import Search
from training_app.models import Decision, Outcome

CHUNK, PART = 1_000, 100_000
#: Each with the type of a download.
FORMATS = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "huggingface": "application/zip",
}


class ExportError(Exception):
    """Decisions that cannot be written; the message says why."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an export: its name and type there, and the model's field that it comes from."""

    name: str
    kind: str
    of: type[Decision | Outcome]
    field: str

    @property
    def has_words(self) -> bool:
        """Whether the model declares that the field may hold words that somebody wrote."""
        return bool(content(cast("Field[Any, Any]", self.of._meta.get_field(self.field))) & WORDS)


COLUMNS = (
    Column("id", "text", Decision, "id"),
    Column("at", "text", Decision, "at"),
    Column("text", "text", Decision, "text"),
    Column("messages", "messages", Decision, "messages"),
    Column("agents", "ids", Decision, "agents"),
    Column("agent_keys", "texts", Decision, "agents"),
    Column("scores", "scores", Decision, "scores"),
    Column("confidence", "number", Decision, "confidence"),
    Column("abstained", "truth", Decision, "abstained"),
    Column("stop_reason", "text", Decision, "stop_reason"),
    Column("model", "text", Decision, "model"),
    Column("propensity", "number", Decision, "propensity"),
    Column("detail", "text", Decision, "detail"),
    Column("success", "truth", Outcome, "success"),
    Column("rating", "number", Outcome, "rating"),
    Column("comment", "text", Outcome, "comment"),
)


def columns(words: bool) -> list[Column]:
    """Those of an export; without `words` those that hold none."""
    return [column for column in COLUMNS if words or not column.has_words]


def kept(pool: Pool, since: datetime | None = None, until: datetime | None = None) -> QuerySet[Decision]:
    """The pool's decisions from `since` to before `until`."""
    decisions: QuerySet[Decision] = Decision.objects.filter(pool=pool)
    if since is not None:
        decisions = decisions.filter(at__gte=since)
    return decisions if until is None else decisions.filter(at__lt=until)


def rows(
    pool: Pool, decisions: QuerySet[Decision], words: bool = True, archived: Search | None = None
) -> Iterator[dict[str, Any]]:
    """These decisions of the pool, the oldest first, behind the archived ones that a search wants, as `columns` names them; success,
    rating and comment are None where no outcome was reported. Raises ArchiveError."""
    keys = dict(pool.agents.values_list("number", "key"))
    names = [column.name for column in columns(words)]
    old = reading.period(pool, archived, CHUNK) if archived is not None else iter(())
    while some := list(islice(old, CHUNK)):
        # A day that has just been written may not be deleted yet.
        twice = set(decisions.filter(pk__in=[one.decision.pk for one in some]).values_list("pk", flat=True))
        for kept in some:
            if kept.decision.pk not in twice:
                whole = row_of(kept.decision, kept.outcome, keys)
                yield {name: whole[name] for name in names}
    stored = decisions.order_by("at", "pk").select_related("model__pool").iterator(chunk_size=CHUNK)
    while part := list(islice(stored, CHUNK)):
        outcomes = {
            outcome.decision_id: outcome
            for outcome in Outcome.objects.filter(decision_id__in=[decision.pk for decision in part])
        }
        for one in part:
            whole = row_of(one, outcomes.get(one.pk), keys)
            yield {name: whole[name] for name in names}


def row_of(decision: Decision, outcome: Outcome | None, keys: Mapping[int, str]) -> dict[str, Any]:
    """A decision by the names of `COLUMNS`; `keys` are its pool's agents, by number."""
    return {
        "id": str(decision.pk),
        "at": decision.at.isoformat(),
        "text": decision.text,
        "messages": [
            {"role": message["role"], "content": str(message["content"])} for message in decision.messages or []
        ],
        "agents": list(decision.agents),
        "agent_keys": [keys.get(agent, str(agent)) for agent in decision.agents],
        "scores": [{"agent": int(agent), "score": float(score)} for agent, score in decision.scores.items()],
        "confidence": decision.confidence,
        "abstained": decision.abstained,
        "stop_reason": decision.stop_reason,
        "model": decision.answered_by,
        "propensity": decision.propensity,
        "detail": None if decision.detail is None else json.dumps(decision.detail, ensure_ascii=False),
        "success": outcome.success if outcome else None,
        "rating": outcome.rating if outcome else None,
        "comment": outcome.comment if outcome else None,
    }


def can_write(kind: str) -> bool:
    """Whether files of that kind can be written here."""
    return kind != "parquet" or find_spec("pyarrow") is not None


def check(kind: str) -> None:
    """Raises ExportError where files of that kind cannot be written here."""
    if not can_write(kind):
        raise ExportError(
            "Parquet needs pyarrow, which is not installed: pip install -r requirements-parquet.txt, or choose jsonl."
        )


def write(
    pool: Pool,
    folder: Path,
    kind: str,
    decisions: QuerySet[Decision],
    *,
    words: bool = True,
    limit: int | None = None,
    archived: Search | None = None,
) -> int:
    """Write an export of one of `FORMATS` into a folder that is not there yet, `limit` rows in a file, else `PART`; how many rows.
    Without pyarrow a dataset folder holds JSON lines, which `datasets` reads as well. Raises ExportError and OSError."""
    check(kind)
    if folder.exists():
        raise ExportError(f"{folder} is there already.")
    data = folder / "data" if kind == "huggingface" else folder
    data.mkdir(parents=True)
    suffix = "jsonl" if kind == "jsonl" or find_spec("pyarrow") is None else "parquet"
    count = number = 0
    exported = rows(pool, decisions, words, archived)
    while (part := list(islice(exported, CHUNK))) or not number:
        path = data / f"decisions-{number:05}.{suffix}"
        written = (_parquet if suffix == "parquet" else _lines)(
            path, part, islice(exported, (limit or PART) - CHUNK), words
        )
        count, number = count + written, number + 1
    if kind == "huggingface":
        (folder / "README.md").write_text(card(pool, suffix, count, words), "utf-8")
    return count


def download(
    pool: Pool, kind: str, decisions: QuerySet[Decision], words: bool = True, archived: Search | None = None
) -> Iterator[bytes]:
    """An export as the bytes of one file: Parquet, JSON lines, or a zip of the dataset folder. It is written to the disk first, in
    memory that does not grow. Raises ExportError before the first piece."""
    check(kind)
    return _pieces(pool, kind, decisions, words, archived)


def _pieces(
    pool: Pool, kind: str, decisions: QuerySet[Decision], words: bool, archived: Search | None
) -> Iterator[bytes]:
    with TemporaryDirectory() as scratch:
        folder = Path(scratch) / pool.slug
        limit = None if kind == "huggingface" else sys.maxsize
        write(pool, folder, kind, decisions, words=words, limit=limit, archived=archived)
        paths = sorted(path for path in folder.rglob("*") if path.is_file())
        file = paths[0]
        if kind == "huggingface":
            file = Path(scratch) / "folder.zip"
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
                for path in paths:
                    packed.write(path, path.relative_to(scratch))
        with file.open("rb") as stream:
            while piece := stream.read(2**16):
                yield piece


def file_name(pool: Pool, kind: str) -> str:
    """What a download is called."""
    return f"{pool.slug}-decisions.{'zip' if kind == 'huggingface' else kind}"


def _lines(path: Path, first: Sequence[dict[str, Any]], more: Iterator[dict[str, Any]], _words: bool) -> int:
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for part in (first, more):
            for row in part:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
    return count


def _parquet(path: Path, first: Sequence[dict[str, Any]], more: Iterator[dict[str, Any]], words: bool) -> int:
    import pyarrow
    from pyarrow import parquet

    text, number = pyarrow.string(), pyarrow.float64()
    kinds = {
        "text": text,
        "number": number,
        "truth": pyarrow.bool_(),
        "ids": pyarrow.list_(pyarrow.int32()),
        "texts": pyarrow.list_(text),
        "messages": pyarrow.list_(pyarrow.struct([("role", text), ("content", text)])),
        "scores": pyarrow.list_(pyarrow.struct([("agent", pyarrow.int32()), ("score", number)])),
    }
    schema = pyarrow.schema([(column.name, kinds[column.kind]) for column in columns(words)])
    count = 0
    with parquet.ParquetWriter(path, schema) as writer:
        part = list(first)
        while part:
            writer.write_table(pyarrow.Table.from_pylist(part, schema))
            count += len(part)
            part = list(islice(more, CHUNK))
    return count


def card(pool: Pool, suffix: str, count: int, words: bool) -> str:
    """The dataset's card: YAML that `datasets` reads, then what people read. `datasets.load_dataset(FOLDER)` needs nothing else."""
    listed = "\n".join(f"- `{column.name}`" for column in columns(words))
    about_texts = (
        "Texts are as they were kept: redacted by the pool's rules."
        if words
        else "Columns that hold words are left out."
    )
    return f"""---
pretty_name: {json.dumps(f"Decisions of {pool.name}", ensure_ascii=False)}
task_categories:
- text-classification
configs:
- config_name: default
  data_files:
  - split: train
    path: data/*.{suffix}
---

# Decisions of {pool.name}

{count:,} answers of a Routerweb router: which agents it chose for a query, and what an application reported of it. {about_texts}

{listed}
"""
