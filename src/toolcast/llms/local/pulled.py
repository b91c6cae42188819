"""Models that `toolcast pull` has made known under a short name: files of the user, of Ollama, or from a URL.

Each is a small JSON file in the folder `models` of the cache, with the path of the model file. A file from a URL lies
beside it; others stay where they are.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, cast

from ...errors import NotFound, ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from .weights import WEIGHTS, cache_dir

_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
_LARGEST: Final = 1 << 16
OLLAMA_MODEL_TYPE: Final = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class PulledModel:
    """A model under a short name.

    Attributes:
        name: The short name.
        path: The absolute path of the GGUF file.
        source: The URL, the path or `ollama:NAME` that it was pulled from.
        sha256: The hash of the file in hexadecimal digits.
        size: The bytes of the file.
        architecture: The architecture in its header.
        parameters: The number of its parameters.
        context: The context in tokens that it was trained for; None if the header does not tell.
        grammar: True if it called a tool whose arguments a grammar forced; None if that was not tried.
    """

    name: str
    path: str
    source: str
    sha256: str
    size: int
    architecture: str = ""
    parameters: int = 0
    context: int | None = None
    grammar: bool | None = None


def models_dir() -> Path:
    """Return the folder of pulled models."""
    return cache_dir() / "models"


def check_name(name: str) -> str:
    """Return `name`; raise `ValueError` if a model cannot have it."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no name of a model: use 1 to 64 of a-z, 0-9, '.', '_' and '-'")
    if name in WEIGHTS or name == "local":
        raise ValueError(f"{name!r} is the name of an embedded model: choose another with --name")
    return name


def save_pulled(model: PulledModel) -> None:
    """Store the record of a model, in place of an earlier one of that name."""
    folder = models_dir()
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, written = tempfile.mkstemp(dir=folder, prefix=f".{model.name}-", suffix=".json")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(model), file, indent=2)
    Path(written).replace(folder / f"{check_name(model.name)}.json")


def find_pulled(name: str) -> PulledModel | None:
    """Return the model of that short name; None if there is none.

    Raises:
        ToolcastError: Its record is damaged.
    """
    if not _NAME.fullmatch(name):
        return None
    path = models_dir() / f"{name}.json"
    try:
        with path.open("rb") as file:
            data: Any = json.loads(file.read(_LARGEST))
        return _model(cast("Mapping[str, Any]", data))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise ToolcastError(f"{path} is damaged: pull the model again, or delete that file") from error


def remove_pulled(model: PulledModel) -> None:
    """Remove the record of a model, and its file if that was downloaded."""
    (models_dir() / f"{model.name}.json").unlink(missing_ok=True)
    if (path := Path(model.path)).parent == models_dir():
        path.unlink(missing_ok=True)


def pulled_models() -> list[PulledModel]:
    """Return all pulled models whose record can be read, by name."""
    found = [_find_or_none(path.stem) for path in sorted(models_dir().glob("[a-z0-9]*.json"))]
    return [model for model in found if model is not None]


def is_pulled(name: str) -> bool:
    """Return whether a model has that short name."""
    return bool(_NAME.fullmatch(name)) and (models_dir() / f"{name}.json").is_file()


def pulled_path(name: str) -> Path | None:
    """Return the path of the model file of a short name; None if no model has it."""
    found = find_pulled(name)
    return None if found is None else Path(found.path)


def _find_or_none(name: str) -> PulledModel | None:
    try:
        return find_pulled(name)
    except ToolcastError:
        return None


def _model(data: Mapping[str, Any]) -> PulledModel:
    values: dict[str, Any] = {field.name: data.get(field.name) for field in fields(PulledModel)}
    if not all(isinstance(values[name], str) for name in ("name", "path", "source", "sha256", "architecture")):
        raise TypeError("expected texts")
    return PulledModel(**values)


_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DIGEST: Final = re.compile(r"sha256[:-]([0-9a-f]{64})")


def ollama_folders(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders that Ollama may keep its models in: `OLLAMA_MODELS`, or else those of a user and a service."""
    if own := environ.get("OLLAMA_MODELS"):
        return [Path(os.path.expanduser(own))]
    return [
        Path.home() / ".ollama" / "models",
        Path("/usr/share/ollama/.ollama/models"),
        Path("/var/lib/ollama/models"),
        Path("/var/lib/ollama/.ollama/models"),
    ]


def find_ollama_file(name: str, environ: Mapping[str, str] = os.environ) -> tuple[Path, str]:
    """Return the model file of a model that Ollama has pulled, and the expected hash of the file.

    Raises:
        NotFound: Ollama has no such model on this machine, or its store is damaged.
    """
    parts = _manifest_parts(name)
    folders = ollama_folders(environ)
    for folder in folders:
        manifest = folder.joinpath("manifests", *parts)
        if manifest.is_file():
            return _blob(manifest, folder)
    where = ", ".join(map(str, folders[:2]))
    raise NotFound(
        f"Ollama has no model {name!r} in {where}: `ollama pull {name}` fetches it, `ollama list` lists those that are "
        "there, and OLLAMA_MODELS names another folder"
    )


def _manifest_parts(name: str) -> list[str]:
    """Return the path of a manifest in the folder `manifests`: host, namespace, model and tag."""
    path, colon, tag = name.partition(":")
    parts = path.split("/")
    if len(parts) == 1:
        parts.insert(0, "library")
    if len(parts) == 2:
        parts.insert(0, "registry.ollama.ai")
    parts.append(tag if colon else "latest")
    if len(parts) != 4 or not all(_PART.fullmatch(part) for part in parts):
        raise NotFound(f"{name[:200]!r} is no name of a model of Ollama: write NAME, NAME:TAG or hf.co/USER/NAME:TAG")
    return parts


def _blob(manifest: Path, folder: Path) -> tuple[Path, str]:
    """Return the model file that a manifest names, and its hash."""
    try:
        with manifest.open("rb") as file:
            layers: Any = json.loads(file.read(1 << 20))["layers"]
        layer = next(layer for layer in layers if layer["mediaType"] == OLLAMA_MODEL_TYPE)
        digest = _DIGEST.fullmatch(layer["digest"])
        size = int(layer["size"])
    except (ValueError, TypeError, LookupError, StopIteration) as error:
        raise NotFound(f"{manifest} names no model file: `ollama pull` writes it again") from error
    if digest is None:
        raise NotFound(f"{manifest} has no sha256 of the model file: `ollama pull` writes it again")
    blob = folder / "blobs" / f"sha256-{digest[1]}"
    if not blob.is_file() or blob.stat().st_size != size:
        raise NotFound(f"{blob} is missing or incomplete: `ollama pull` fetches it again")
    return blob, digest[1]
