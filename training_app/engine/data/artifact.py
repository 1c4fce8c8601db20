"""A trained router as one directory, one zip or one bytes object. No pickle, ever. numpy only.

    manifest.json        format version, and the SHA-256 of every other file
    config.json          agents, settings of the run, what scorer, policy and calibration are
    vocabulary.json      n-grams of the scorers, by scorer
    weights.safetensors  every array
    metrics.json         the scorecard and the step-by-step log

The same model gives the same bytes: files have a fixed order and date. An archive is read with suspicion: only the
names above, bounded sizes, checksums before anything is parsed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from training_app.engine.data.examples import Agent

FORMAT = 1
FILES = ("config.json", "vocabulary.json", "weights.safetensors", "metrics.json")
MANIFEST = "manifest.json"
MAX_BYTES = 2 << 30  # all files together, unpacked


class ArtifactError(ValueError):
    """Bytes or files that are not a usable artifact; the message says why."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The parts of a trained router. `tensors` maps names to arrays; the rest are JSON-able."""

    config: dict[str, Any]
    vocabulary: dict[str, Any]
    tensors: dict[str, NDArray[Any]]
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents that it knows. Raises KeyError, TypeError or ValueError where `config` has none that can be read."""
        return tuple(
            Agent(
                int(entry["id"]),
                str(entry["name"]),
                str(entry.get("description", "")),
                code=str(entry.get("code", "")),
                cost=float(entry.get("cost", 0.0)),
                key=str(entry.get("key", "")),
            )
            for entry in self.config["agents"]
        )

    def under(self, name: str) -> dict[str, NDArray[Any]]:
        """The arrays of one part, without its name before theirs."""
        start = f"{name}."
        return {key.removeprefix(start): array for key, array in self.tensors.items() if key.startswith(start)}

    def to_bytes(self) -> bytes:
        """One zip; the same parts give the same bytes."""
        return pack(
            {
                "config.json": json_bytes(self.config),
                "vocabulary.json": json_bytes(self.vocabulary),
                "weights.safetensors": tensor_bytes(self.tensors),
                "metrics.json": json_bytes(self.metrics),
            }
        )

    def write(self, path: str | Path) -> None:
        """To a file if `path` ends in .zip, else to a directory; what stands there is replaced in one step."""
        write(self.to_bytes(), path)


def json_bytes(value: Any) -> bytes:
    """JSON with sorted keys, in UTF-8; numbers that are not finite become null, which JSON can say."""
    return json.dumps(_finite(value), ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        # Vocabularies are long lists of texts: they pass without a look at each.
        return list(value) if value and isinstance(value[0], str) else [_finite(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value


def tensor_bytes(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Arrays in the safetensors format."""
    saved: bytes = save_tensors({name: np.asarray(tensors[name], order="C") for name in sorted(tensors)})
    return saved


def tensors_from(data: bytes) -> dict[str, NDArray[Any]]:
    """The inverse of `tensor_bytes`. Raises ArtifactError."""
    try:
        arrays: dict[str, NDArray[Any]] = load_tensors(data)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise ArtifactError(f"weights.safetensors cannot be read: {error}") from None
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArtifactError(f"the tensor {name} holds numbers that are not finite")
    return arrays


def pack(files: Mapping[str, bytes]) -> bytes:
    """Files and their manifest as one zip with fixed order and dates."""
    manifest = {
        "format": FORMAT,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())},
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in [(MANIFEST, json_bytes(manifest)), *sorted(files.items())]:
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            # Weights do not shrink; texts do.
            info.compress_type = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            archive.writestr(info, data)
    return buffer.getvalue()


def unpack(data: bytes, names: tuple[str, ...] = FILES, limit: int = MAX_BYTES) -> dict[str, bytes]:
    """The inverse of `pack`: the files `names`, checked against the manifest. Raises ArtifactError."""
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        infos = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError) as error:
        raise ArtifactError(f"not a readable archive, perhaps cut off: {error}") from None
    with archive:
        allowed = {MANIFEST, *names}
        for info in infos:
            if info.filename not in allowed:
                raise ArtifactError(f"the archive holds {info.filename[:80]!r}, which no artifact has")
        if len({info.filename for info in infos}) != len(infos):
            raise ArtifactError("the archive holds a file twice")
        if sum(info.file_size for info in infos) > limit:
            raise ArtifactError(f"the archive unpacks to more than {limit:,} bytes")
        files: dict[str, bytes] = {}
        for info in infos:
            try:
                with archive.open(info) as stream:
                    # The header's size may lie: never read past what it promised.
                    content = stream.read(info.file_size + 1)
            except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
                raise ArtifactError(f"{info.filename} cannot be read: {error}") from None
            except Exception as error:  # zlib.error has no public base of its own
                raise ArtifactError(f"{info.filename} cannot be unpacked: {error}") from None
            if len(content) != info.file_size:
                raise ArtifactError(f"{info.filename} is not as long as the archive says")
            files[info.filename] = content
    return _checked(files, names)


def _checked(files: dict[str, bytes], names: tuple[str, ...]) -> dict[str, bytes]:
    if MANIFEST not in files:
        raise ArtifactError(f"{MANIFEST} is missing")
    manifest = json_from(files[MANIFEST], MANIFEST)
    version = manifest.get("format")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ArtifactError(f"{MANIFEST} names no format")
    if version > FORMAT:
        raise ArtifactError(f"made by a newer version (format {version}, this one reads {FORMAT}): upgrade to load it")
    sums = manifest.get("sha256")
    if not isinstance(sums, dict):
        raise ArtifactError(f"{MANIFEST} holds no checksums")
    for name in names:
        if name not in files:
            raise ArtifactError(f"{name} is missing")
        if hashlib.sha256(files[name]).hexdigest() != sums.get(name):
            raise ArtifactError(f"{name} is corrupt: its checksum differs from the manifest's")
    return {name: files[name] for name in names}


def json_from(data: bytes, name: str) -> dict[str, Any]:
    """A JSON object. Raises ArtifactError."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{name} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ArtifactError(f"{name} is not a JSON object")
    return content


def read_bytes(source: str | Path | bytes, limit: int = MAX_BYTES) -> dict[str, bytes]:
    """The checked files of an artifact: bytes of a zip, the path of a zip, or a directory."""
    if isinstance(source, bytes):
        return unpack(source, limit=limit)
    path = Path(source)
    if path.is_dir():
        files = {}
        for name in (MANIFEST, *FILES):
            if (path / name).is_file():
                if (path / name).stat().st_size > limit:
                    raise ArtifactError(f"{path / name} is larger than {limit:,} bytes")
                files[name] = (path / name).read_bytes()
        return _checked(files, FILES)
    return unpack(packed(path, limit), limit=limit)


def packed(source: str | Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of an artifact as one zip, which is not opened; those of a directory are packed. Raises ArtifactError."""
    path = Path(source)
    if path.is_dir():
        return pack(read_bytes(path, limit))
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist")
    if path.stat().st_size > limit:
        raise ArtifactError(f"{path} is larger than {limit:,} bytes")
    return path.read_bytes()


def read(source: str | Path | bytes, limit: int = MAX_BYTES) -> Artifact:
    """An artifact from bytes, a zip or a directory. Raises ArtifactError with the reason."""
    files = read_bytes(source, limit)
    return Artifact(
        json_from(files["config.json"], "config.json"),
        json_from(files["vocabulary.json"], "vocabulary.json"),
        tensors_from(files["weights.safetensors"]),
        json_from(files["metrics.json"], "metrics.json"),
    )


def write(data: bytes, path: str | Path) -> None:
    """Write artifact bytes to `path`: a zip if it ends in .zip, else a directory of the files. Nobody ever sees half
    of it: it is made beside its place and renamed. Raises ArtifactError where a directory holds anything else."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        return
    files = unpack(data)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files[MANIFEST] = archive.read(MANIFEST)
    if path.exists():
        if not path.is_dir():
            raise ArtifactError(f"{path} is a file: name a directory, or a file that ends in .zip")
        stray = sorted({entry.name for entry in path.iterdir()} - set(files))
        if stray:
            raise ArtifactError(f"{path} holds {stray[0]!r}, which is not part of an artifact: name another directory")
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}-"))
    old = temporary.with_name(temporary.name + ".old")
    try:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        temporary.chmod(0o755)
        if path.exists():
            path.rename(old)
        temporary.rename(path)
    except BaseException:
        if old.exists() and not path.exists():
            old.rename(path)
        _remove(temporary)
        raise
    _remove(old)


def _remove(folder: Path) -> None:
    if folder.is_dir():
        for entry in folder.iterdir():
            entry.unlink()
        folder.rmdir()
