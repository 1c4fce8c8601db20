"""Moving in from ddqn-router (0.2): what its folder holds, what of that goes into a pool, and what does not.

Its `config.yaml` names agents, settings of training, the labeler and the files; `tasks.jsonl` holds labeled queries, `train.jsonl`,
`val.jsonl` and `test.jsonl` the same in splits, a text file those that are not labeled, and the labeler's cache answers by hash. Its
artifacts are pickles and joblib files: they are named and never opened.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from django.db import transaction

from agents_app import pools
from agents_app.audit import Who
from agents_app.files import archives, limited, reader, rosters
from agents_app.files.formats import Reading, Unreadable
from agents_app.models import Pool
from datasets_app.files import imports, storing
from datasets_app.labels import labels
from datasets_app.models import Dataset, Import, Label, Query
from datasets_app.queries import adding, splits
from training_app.engine.data.examples import Agent, DataError, RowError
from training_app.engine.data.folders import agents_in

MAX_CONFIG = 1 << 20  # bytes of its configuration
MAX_CACHE = 256 << 20  # bytes of its cache of labels
SPLITS = ("train", "val", "test")
#: How a ZIP archive begins.
ZIP = b"PK\x03\x04"
#: Settings of its training that speak of its own recipe, and what is so here.
OTHER_MEANING = {
    "total_steps": ("counts steps of the published recipe; the network here needs some thousand"),
    "tfidf_max_features": ("bounds the features of the published recipe; max_features bounds those of the scorer here"),
    "confidence": ("is the spread of the last values there, and the probability that the whole set is right here"),
    "checkpoint_freq": ("has no counterpart: a run keeps what it needs to go on"),
}
#: Where the settings of its labeler are said here.
LABELER = {
    **dict.fromkeys(
        ("model", "base_url", "min_agents", "max_agents", "batch_size", "fallback_strategy"),
        "is said when you pre-label, on the page or with `manage.py label`",
    ),
    "api_key": "is not read: the key of an LLM stands in LLM_API_KEY",
    "prompt_template": "may be pasted under Settings, Pre-labeling; Jinja templates work as they are",
}
ARTIFACTS = {".pt": "PyTorch", ".pth": "PyTorch", ".joblib": "joblib", ".pkl": "pickle"}


class MoveError(Exception):
    """Why nothing of a folder can be taken; the message names the file."""


@dataclass(frozen=True)
class Project:
    """A folder of ddqn-router, read and checked. Paths are those that exist."""

    folder: Path
    agents: tuple[Agent, ...]
    training: Mapping[str, Any]
    labeler: Mapping[str, Any]
    ratios: tuple[float, float, float]
    tasks: Path | None = None
    splits: Mapping[str, Path] = field(default_factory=dict)
    raw: Path | None = None
    cache: Path | None = None
    artifacts: tuple[Path, ...] = ()
    top: Mapping[str, Any] = field(default_factory=dict)


def read(place: Path) -> Project:
    """The project in a folder, or the one that a configuration file describes. Raises MoveError and DataError."""
    config = place / "config.yaml" if place.is_dir() else place
    content = read_config(config)
    folder = config.parent
    data, labeler, training = (_section(content, name, config) for name in ("dataset", "labeler", "training"))
    agents = _agents_of(content, config.name)
    if not agents:
        raise MoveError(f"{config} names no agents. ddqn-router has them under `agents:`.")

    def at(name: object, otherwise: str) -> Path | None:
        path = folder / str(name or otherwise)
        return path if path.is_file() else None

    output = folder / str(data.get("output_dir") or "data")
    output_dir = folder / str(content.get("output_dir") or "artifacts")
    return Project(
        folder=folder,
        agents=agents,
        training=training,
        labeler=labeler,
        ratios=_ratios(data, config),
        tasks=at(data.get("input"), "data/tasks.jsonl") or at(labeler.get("output"), "data/tasks.jsonl"),
        splits={name: output / f"{name}.jsonl" for name in SPLITS if (output / f"{name}.jsonl").is_file()},
        raw=at(labeler.get("input"), "data/raw_texts.txt"),
        cache=at(labeler.get("cache"), "cache/label_cache.jsonl"),
        artifacts=tuple(sorted(p for p in output_dir.rglob("*") if p.suffix in ARTIFACTS))
        if output_dir.is_dir()
        else (),
        top={
            key: value
            for key, value in content.items()
            if key not in ("agents", "training", "labeler", "dataset", "output_dir")
        },
    )


def agents_in_archive(stream: BinaryIO) -> tuple[Agent, ...]:
    """The agents that the config.yaml of a packed folder names; () of any other file. Raises Unreadable."""
    stream.seek(0)
    packed = stream.read(4) == ZIP
    stream.seek(0)
    settings = list(limited.run(archives.configuration, stream, limits=limited.PAGE)) if packed else []
    stream.seek(0)
    try:
        return _agents_of(settings[0], "config.yaml") if settings and isinstance(settings[0], dict) else ()
    except DataError as error:
        raise Unreadable(str(error)) from None


def add_agents(pool: Pool, stream: BinaryIO, actor: Who) -> int:
    """Give a pool without agents those of a packed folder; how many. Raises Unreadable and PoolError."""
    agents = () if pool.agents.exists() else agents_in_archive(stream)
    return pools.load_agents(pool, agents, actor).created if agents else 0


def _agents_of(content: Mapping[str, Any], name: str) -> tuple[Agent, ...]:
    agents = content.get("agents")
    lines = [json.dumps(agent).encode() + b"\n" for agent in agents] if isinstance(agents, list) else []
    return agents_in(io.BytesIO(b"".join(lines)), name) if lines else ()


def read_config(path: Path) -> dict[str, Any]:
    """A YAML mapping of at most a megabyte. Raises MoveError."""
    try:
        if path.stat().st_size > MAX_CONFIG:
            raise MoveError(f"{path} is larger than a configuration: 1 MB at most.")
        with path.open("rb") as stream:
            (content,) = limited.run(rosters.yaml_value, stream, limits=limited.PAGE)
    except OSError as error:
        raise MoveError(f"{path}: {error.strerror}") from None
    except Unreadable as error:
        raise MoveError(f"{path} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise MoveError(f"{path} holds no settings, one `name: value` a line.")
    return content


def is_its_config(content: Mapping[str, Any]) -> bool:
    """Whether a configuration is one of ddqn-router's: it names agents, a labeler or files, which no run's settings do."""
    return any(name in content for name in ("agents", "labeler", "dataset", "output_dir"))


def its_recipe(content: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The run that its configuration describes: the published recipe with its numbers, as settings here; and what was left."""
    training = content.get("training")
    settings = (
        {key: value for key, value in training.items() if key != "checkpoint_freq"}
        if isinstance(training, dict)
        else {}
    )
    ignored = [name for name in content if name != "training"]
    ignored += ["training.checkpoint_freq"] if isinstance(training, dict) and "checkpoint_freq" in training else []
    return {"recipe": "tfidf", "encoder": "linear", **settings}, ignored


def _section(content: Mapping[str, Any], name: str, config: Path) -> Mapping[str, Any]:
    section = content.get(name) or {}
    if not isinstance(section, dict):
        raise MoveError(f"{config}: {name} must hold settings, one `name: value` a line.")
    return section


def _ratios(data: Mapping[str, Any], config: Path) -> tuple[float, float, float]:
    ratios = [data.get(f"{name}_ratio", share) for name, share in zip(SPLITS, (0.7, 0.15, 0.15), strict=True)]
    if (
        not all(isinstance(ratio, int | float) and not isinstance(ratio, bool) and ratio >= 0 for ratio in ratios)
        or not sum(ratios) > 0
    ):
        raise MoveError(f"{config}: the ratios of dataset must be numbers from 0.")
    return ratios[0], ratios[1], ratios[2]


# ------------------------------------------------------------------------------------------------------- taking it in


@dataclass
class ImportedProject:
    """What went in: `uploads` with their problems, how many labels its cache knew, how groups were split."""

    agents: pools.Loaded
    uploads: list[Import]
    cached: int = 0
    split: Mapping[str, int] = field(default_factory=dict)


def take(
    pool: Pool,
    project: Project,
    *,
    progress: storing.Progress | None = None,
    actor: Who = None,
) -> ImportedProject:
    """Agents, queries, labels and splits of a project into a pool. A second time it adds what is new. Raises DataError, PoolError."""
    result = ImportedProject(pools.load_agents(pool, project.agents, actor), [])
    target = adding.dataset_of(pool)
    # First the splits, which then hold for the same texts of the file that has all; last what has no label.
    files = [(path, split) for split, path in project.splits.items()]
    files += [(path, "") for path in (project.tasks, project.raw) if path is not None]
    for path, split in files:
        with path.open("rb") as stream:
            kind = imports.guess_format(path.name, stream.read(4096))
            stream.seek(0)
            result.uploads.append(imports.read_file(target, stream, kind, split=split, author=actor, progress=progress))
    if project.cache is not None:
        result.cached = _record_cache(target, project)
    if project.tasks is not None and not project.splits:
        result.split = splits.assign(pool, project.ratios)
    return result


def _record_cache(dataset: Dataset, project: Project) -> int:
    """What its labeler said of texts that have no label, as labels of an LLM, which a person accepts or not; returns how many."""
    assert project.cache is not None
    model = str(project.labeler.get("model") or "gpt-4o-mini")
    version = str(project.labeler.get("prompt_version") or "v1")
    ids = {agent.id for agent in project.agents}
    answers = dict(_answers(project.cache, ids))
    waiting = Query.objects.filter(dataset=dataset, deleted_at__isnull=True, labels__isnull=True)
    statements = [
        labels.NewLabel(
            query_id=key, source=Label.Source.LLM, required=answers[named], asked=ids,
            provenance={"model": model, "prompt_version": version, "from": "ddqn-router"},
        )
        for key, text in waiting.values_list("pk", "text").iterator()
        if (named := cache_key(text, model, version)) in answers
    ]  # fmt: skip
    with transaction.atomic():
        labels.record_many(statements)
    return len(statements)


def cache_key(text: str, model: str, version: str) -> str:
    """How its cache names an answer: SHA-256 of `text|model|version`, in hexadecimal."""
    return hashlib.sha256(f"{text}|{model}|{version}".encode()).hexdigest()


def _answers(cache: Path, agent_ids: set[int]) -> Iterator[tuple[str, list[int]]]:
    """The cache's answers that name agents of the project; other lines are passed over, as ddqn-router does."""
    if cache.stat().st_size > MAX_CACHE:
        raise MoveError(f"{cache} is larger than 256 MB.")
    with cache.open("rb") as stream:
        for record in reader.records(stream, Reading("objects")):
            entry = {} if isinstance(record, RowError) or isinstance(record[1], list) else record[1]
            named = entry.get("required_agents")
            if isinstance(named, list) and all(type(number) is int and number in agent_ids for number in named):
                yield str(entry.get("cache_key")), named


# ---------------------------------------------------------------------------------------------- saying it line by line


def report(project: Project, imported: ImportedProject) -> Iterator[str]:
    """A line for each thing beside the files' rows: taken, of another meaning here, or left."""
    loaded = imported.agents
    yield f"taken    agents: {loaded.created} added, {loaded.updated} changed, {loaded.unchanged} unchanged"
    if imported.split:
        counts = ", ".join(f"{count} {name}" for name, count in imported.split.items())
        yield f"taken    dataset: its ratios; groups of like texts: {counts}"
    if project.cache is not None:
        yield f"taken    {project.cache.name}: answers for {imported.cached} unlabeled texts, as an LLM's, to accept or correct"
    for name in sorted(project.training):
        if name == "seed":
            yield "taken    training.seed, where --train starts a run"
        elif name in OTHER_MEANING:
            yield f"differs  training.{name} {OTHER_MEANING[name]}"
        else:
            yield f"differs  training.{name} is of the published recipe, which `train --config config.yaml` trains"
    for name in sorted(set(project.labeler) - {"input", "output", "cache", "prompt_version"}):
        yield f"left     labeler.{name} {LABELER.get(name, 'has no counterpart')}"
    for name in sorted(project.top):
        yield f"left     {name} has no counterpart"
    for path in project.artifacts:
        kind = ARTIFACTS[path.suffix]
        yield f"left     {path.name} is a {kind} file of another program, which is never opened: train a model again"
