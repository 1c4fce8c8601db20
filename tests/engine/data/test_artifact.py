from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

from training_app.engine.data import artifact
from training_app.engine.data.artifact import Artifact, ArtifactError

PARTS = Artifact(
    {"agents": [{"id": 1}], "n": float("nan")},
    {"scorer": {"words": ["ä", "b"]}},
    {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "flag": np.array([True]), "zero": np.array(2.5, np.float32)},
    {"log": [1, 2]},
)


def repacked(change) -> bytes:
    """The archive with its files changed by `change(dict of name -> bytes)`; checksums are left as they were."""
    with zipfile.ZipFile(io.BytesIO(PARTS.to_bytes())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@pytest.mark.parametrize("place", ["bytes", "model.zip", "model"])
def test_what_was_written_is_read(tmp_path, place: str) -> None:
    source: object = PARTS.to_bytes()
    if place != "bytes":
        source = tmp_path / "deep" / place
        PARTS.write(source)
        PARTS.write(source)
        assert [entry.name for entry in source.parent.iterdir()] == [place]
    found = artifact.read(source)
    assert found.config == {"agents": [{"id": 1}], "n": None}
    assert found.vocabulary == PARTS.vocabulary
    assert found.metrics == PARTS.metrics
    for name, tensor in PARTS.tensors.items():
        assert np.array_equal(found.tensors[name], tensor)
        assert found.tensors[name].shape == tensor.shape


def test_the_same_parts_give_the_same_bytes() -> None:
    turned = Artifact(PARTS.config, PARTS.vocabulary, dict(reversed(PARTS.tensors.items())), PARTS.metrics)
    assert turned.to_bytes() == PARTS.to_bytes()


def test_no_pickle_is_written() -> None:
    with zipfile.ZipFile(io.BytesIO(PARTS.to_bytes())) as archive:
        assert sorted(archive.namelist()) == sorted(["manifest.json", *artifact.FILES])


def set_format(value):
    def change(files):
        manifest = json.loads(files["manifest.json"])
        manifest["format"] = value
        files["manifest.json"] = json.dumps(manifest).encode()

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda f: f.update({"config.json": b"{}"}), "config.json is corrupt"),
        (lambda f: f.update({"weights.safetensors": f["weights.safetensors"][:-1]}), "weights.safetensors is corrupt"),
        (lambda f: f.pop("metrics.json"), "metrics.json is missing"),
        (lambda f: f.pop("manifest.json"), "manifest.json is missing"),
        (lambda f: f.update({"manifest.json": b"["}), "manifest.json is not JSON"),
        (lambda f: f.update({"manifest.json": b"[]"}), "not a JSON object"),
        (lambda f: f.update({"manifest.json": b'{"format": 1}'}), "no checksums"),
        (set_format(2), "newer version"),
        (set_format("1"), "names no format"),
        (set_format(True), "names no format"),
        (lambda f: f.update({"../evil": b"x"}), "'../evil'"),
        (lambda f: f.update({"/etc/passwd": b"x"}), "passwd"),
        (lambda f: f.update({"model.pkl": b"x"}), "model.pkl"),
    ],
)
def test_bad_archives_are_refused_with_the_reason(change, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        artifact.read(repacked(change))


@pytest.mark.parametrize("keep", [0, 1, 100, -1, -30])
def test_truncated_bytes_are_refused(keep: int) -> None:
    with pytest.raises(ArtifactError):
        artifact.read(PARTS.to_bytes()[:keep])


def test_flipped_bits_are_refused() -> None:
    data = bytearray(PARTS.to_bytes())
    data[len(data) // 2] ^= 1
    with pytest.raises(ArtifactError):
        artifact.read(bytes(data))


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    data = repacked(lambda f: f.update({"config.json": b" " * 5_000_000}))
    assert len(data) < 50_000
    with pytest.raises(ArtifactError, match="more than 1,000,000 bytes"):
        artifact.read(data, limit=1_000_000)


def test_a_file_twice_is_refused() -> None:
    buffer = io.BytesIO(PARTS.to_bytes())
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("config.json", b"{}")
    with pytest.raises(ArtifactError, match="a file twice"):
        artifact.read(buffer.getvalue())


def test_numbers_that_are_not_finite_are_refused() -> None:
    bad = Artifact({}, {}, {"w": np.array([np.nan], np.float32)})
    with pytest.raises(ArtifactError, match="w holds numbers"):
        artifact.read(bad.to_bytes())


def test_weights_that_are_no_safetensors_are_refused() -> None:
    for data in (b"", b"\x80\x04junk", b"\xff" * 64):
        with pytest.raises(ArtifactError, match="cannot be read"):
            artifact.tensors_from(data)


def test_places_that_hold_something_else_are_left_alone(tmp_path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "diary.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="diary"):
        PARTS.write(tmp_path / "notes")
    assert (tmp_path / "notes" / "diary.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ArtifactError, match="is a file"):
        PARTS.write(tmp_path / "file")
    with pytest.raises(ArtifactError, match="does not exist"):
        artifact.read(tmp_path / "nowhere")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "notes"]
