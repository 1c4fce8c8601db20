"""The folder of a sentence encoder, as sentence-transformers writes it, read with suspicion. Standard library only.

config.json          the architecture, one that transformers knows: no code from the folder is ever run
tokenizer.json       the tokenizer
model.safetensors    the weights; a pickle is never opened
modules.json, 1_Pooling/config.json, sentence_bert_config.json, config_sentence_transformers.json   where they stand: how the
                     tokens' vectors become one, how many tokens are read, and what stands before each text
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training_app.engine.reading.teaching.packaged import PACKAGED
from training_app.engine.settings import ConfigError

WEIGHTS = "model.safetensors"
PICKLES = ("pytorch_model.bin", "model.pt", "model.pth", "model.ckpt")
MOST_TOKENS = 256
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
#: What is fetched by name: nothing that could be code or a pickle.
_FETCHED = ("*.safetensors", "*.json", "1_Pooling/*.json", "README.md")


@dataclass(frozen=True, slots=True)
class TeacherFolder:
    """A checked folder. `pooling` is mean, cls or max; `sha256` that of the weights; `licence` what its README says, or ""."""

    path: Path
    name: str
    pooling: str
    tokens: int
    prefix: str
    sha256: str
    licence: str

    def about(self) -> dict[str, str]:
        """What a model remembers of its teacher."""
        return {"name": self.name, "sha256": self.sha256, "licence": self.licence}


def is_hub_name(teacher: str) -> bool:
    """Whether it is maker/encoder, which is never looked for on the disk; a folder's path there begins with / or a dot."""
    return _NAME.fullmatch(teacher) is not None


def teacher_folder(teacher: str) -> TeacherFolder:
    """`teacher` is a short name of `PACKAGED`, the path of a folder, or a name of the hub such as `intfloat/multilingual-e5-small`,
    fetched where there is internet and `huggingface_hub` is installed. Raises ConfigError, which names the setting, the file and what
    to do."""
    packaged = PACKAGED.get(teacher)
    if packaged:
        return replace(_read(packaged.checked(), packaged.name), licence=packaged.licence)
    if is_hub_name(teacher):
        return _read(_fetched(teacher), teacher)
    path = Path(teacher).expanduser()
    if not path.is_dir():
        raise _wrong(
            f"{teacher} is not a folder, nor a name of the hub such as intfloat/multilingual-e5-small, nor one of a package "
            f"({', '.join(PACKAGED)})"
        )
    return _read(path, path.resolve().name)


def _read(path: Path, name: str) -> TeacherFolder:
    """The encoder in the folder `path`, called `name`. Raises ConfigError."""
    if not (path / WEIGHTS).is_file():
        pickle = next((name for name in PICKLES if (path / name).exists()), None)
        if pickle:
            raise _wrong(
                f"{path} holds its weights as {pickle}, a pickle, which can run code and is never opened: save the model anew with "
                "save_pretrained(DIR, safe_serialization=True)"
            )
        raise _wrong(f"{path} holds no {WEIGHTS}: it must be the folder of one encoder, its weights in one file")
    config = _json(path / "config.json")
    if not isinstance(config.get("model_type"), str):
        raise _wrong(f"{path / 'config.json'} names no model_type")
    if config.get("auto_map"):
        raise _wrong(
            f"{path} brings code of its own (auto_map in config.json), which is never run: choose another model"
        )
    if not (path / "tokenizer.json").is_file():
        raise _wrong(
            f"{path} holds no tokenizer.json: write it with transformers, AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
        )
    longest = config.get("max_position_embeddings", MOST_TOKENS)
    own = _json(path / "sentence_bert_config.json", {}).get("max_seq_length")
    tokens = min(n for n in (longest, own, MOST_TOKENS) if isinstance(n, int) and n > 0)
    prompts = _json(path / "config_sentence_transformers.json", {})
    prefix = (prompts.get("prompts") or {}).get(prompts.get("default_prompt_name") or "", "")
    with (path / WEIGHTS).open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return TeacherFolder(path, name, _pooling(path), tokens, str(prefix), sha256, _licence(path))


def _pooling(path: Path) -> str:
    """mean where the folder does not say; modules that are more than transformer, pooling and normalising are refused."""
    modules = _json(path / "modules.json", [])
    kinds = [str(m.get("type", "")).rsplit(".", 1)[-1] for m in modules if isinstance(m, dict)]
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise _wrong(
            f"{path / 'modules.json'} has the module {unknown[0]}: only Transformer, Pooling and Normalize are read"
        )
    places = [m.get("path", "") for m, kind in zip(modules, kinds, strict=True) if kind == "Pooling"]
    place = path / str(places[0]) / "config.json" if places else path / "1_Pooling" / "config.json"
    if not place.resolve().is_relative_to(path.resolve()):
        raise _wrong(f"{path / 'modules.json'} names a path outside the folder")
    pooling_config = _json(place, {})
    ways = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}
    chosen = [way for way, key in ways.items() if pooling_config.get(key)]
    if pooling_config.get("pooling_mode") in ways:
        chosen = [pooling_config["pooling_mode"]]
    if (pooling_config and not chosen) or len(chosen) > 1:
        raise _wrong(f"{place} pools in a way that is not read: one of {', '.join(ways)} is")
    return chosen[0] if chosen else "mean"


def _licence(path: Path) -> str:
    """The `license:` of the README's front matter."""
    try:
        head = (path / "README.md").read_text("utf-8", "replace")[:5_000]
    except OSError:
        return ""
    match = re.search(r"^licen[sc]e:[ \t]*([\w. +-]{1,60})$", head, re.MULTILINE)
    return match[1].strip() if match else ""


def _json(path: Path, missing: Any = None) -> Any:
    """The JSON of a file; `missing`, unless None, where there is none."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise _wrong(
            f"{path.parent} holds no {path.name}: it must be a folder in the format of sentence-transformers"
        ) from None
    except (OSError, ValueError) as error:
        raise _wrong(f"{path} cannot be read: {error}") from None


def _fetched(name: str) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise _wrong(
            f"{name} is no folder, and to fetch it needs transformers: install requirements-teacher.txt"
        ) from error
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise _wrong(f"{name} is no folder, and HF_HUB_OFFLINE forbids to fetch it: give the path of a folder")
    try:
        return Path(snapshot_download(name, allow_patterns=list(_FETCHED)))
    except (
        Exception
    ) as error:  # network, proxy, no such name, no licence accepted: the library's and the transport's own
        raise _wrong(f"{name} could not be fetched ({type(error).__name__}): give the path of a folder") from error


def _wrong(message: str) -> ConfigError:
    return ConfigError("teacher", message)
