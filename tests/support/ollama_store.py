"""The folder in which Ollama keeps its models, for tests."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path


def store_model(folder: Path, manifest: str, data: bytes) -> Path:
    """Store a model file as `ollama pull` does, under the path of its manifest, and return the path of the file."""
    digest = sha256(data).hexdigest()
    blob = folder / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(data)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": f"sha256:{'1' * 64}", "size": 3},
        {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}", "size": len(data)},
    ]
    place = folder / "manifests" / manifest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"schemaVersion": 2, "layers": layers}), encoding="utf-8")
    return blob
