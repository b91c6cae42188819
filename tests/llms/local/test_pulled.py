"""The records of pulled models, and the models in Ollama's store."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from support.ollama_store import store_model
from toolcast.errors import NotFound, ToolcastError
from toolcast.llms.local import pulled
from toolcast.llms.local.pulled import (
    PulledModel,
    check_name,
    find_ollama_file,
    find_pulled,
    ollama_folders,
    pulled_models,
    pulled_path,
    remove_pulled,
    save_pulled,
)
from toolcast.llms.model_registry import choose_llm, split_provider

TINY = PulledModel("tiny", "/m/tiny.gguf", "/m/tiny.gguf", "0" * 64, 123, "llama", 10, 2048, True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_record(cache: Path) -> None:
    assert find_pulled("tiny") is None
    assert pulled_models() == []
    save_pulled(TINY)
    assert find_pulled("tiny") == TINY
    assert pulled_path("tiny") == Path("/m/tiny.gguf")
    assert pulled_path("other") is None
    assert pulled_models() == [TINY]
    remove_pulled(TINY)
    assert find_pulled("tiny") is None


def test_a_download_is_removed_with_its_record_and_other_files_stay(cache: Path, tmp_path: Path) -> None:
    for place in (cache / "models" / "tiny.gguf", tmp_path / "mine.gguf"):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
        model = PulledModel("tiny", str(place), "x", "0" * 64, 0)
        save_pulled(model)
        remove_pulled(model)
        assert place.exists() == (place.parent == tmp_path)


def test_a_damaged_record(cache: Path) -> None:
    save_pulled(TINY)
    for text in ("", "[]", "{", '{"name": "tiny"}', "3"):
        (cache / "models" / "tiny.json").write_text(text)
        with pytest.raises(ToolcastError, match=r"tiny\.json is damaged: pull the model again"):
            find_pulled("tiny")
        assert pulled_models() == []


@pytest.mark.parametrize("name", ["", "A", "a/b", "..", "a:b", ".a", "a.", "x" * 65, "smollm2", "local"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(ValueError, match="name of a"):
        check_name(name)
    assert find_pulled(name) is None


def test_a_short_name_chooses_the_model() -> None:
    save_pulled(TINY)
    assert split_provider("tiny") == ("local", "tiny")
    assert split_provider("local:tiny") == ("local", "tiny")
    assert split_provider("tiny:latest") == ("ollama", "tiny:latest")
    assert split_provider("other") == ("ollama", "other")
    assert choose_llm("tiny").metadata.provider == "llama.cpp"


def test_where_ollama_keeps_its_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ollama_folders({})[0] == tmp_path / ".ollama" / "models"
    assert ollama_folders({"OLLAMA_MODELS": "~/m"}) == [tmp_path / "m"]


@pytest.mark.parametrize(
    ("name", "manifest"),
    [
        ("qwen3", "registry.ollama.ai/library/qwen3/latest"),
        ("qwen3:8b", "registry.ollama.ai/library/qwen3/8b"),
        ("ada/qwen3:8b", "registry.ollama.ai/ada/qwen3/8b"),
        ("hf.co/ada/Qwen3-GGUF:Q4_K_M", "hf.co/ada/Qwen3-GGUF/Q4_K_M"),
    ],
)
def test_a_model_of_ollama(name: str, manifest: str, tmp_path: Path) -> None:
    blob = store_model(tmp_path, manifest, b"GGUF...")
    found = find_ollama_file(name, {"OLLAMA_MODELS": str(tmp_path)})
    assert found == (blob, sha256(b"GGUF...").hexdigest())


@pytest.mark.parametrize("name", ["", "../x", "a/../b", "a:..", "a:b/c", "a/b/c/d", "a b", "/etc/passwd", "a:"])
def test_names_that_ollama_has_not(name: str, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="is no name of a model of Ollama"):
        find_ollama_file(name, {"OLLAMA_MODELS": str(tmp_path)})


def test_a_model_that_ollama_has_not(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"Ollama has no model 'qwen3' in .*: `ollama pull qwen3` fetches it"):
        find_ollama_file("qwen3", {"OLLAMA_MODELS": str(tmp_path)})


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        ("", "names no model file"),
        ("[]", "names no model file"),
        ('{"layers": []}', "names no model file"),
        ('{"layers": [{"mediaType": "TYPE", "digest": "sha256:../../x", "size": 1}]}', "has no sha256"),
        ('{"layers": [{"mediaType": "TYPE", "digest": "sha256:HASH", "size": 1}]}', "is missing or incomplete"),
        ('{"layers": [{"mediaType": "TYPE", "digest": "sha256:HASH", "size": "x"}]}', "names no model file"),
    ],
)
def test_a_damaged_store(manifest: str, why: str, tmp_path: Path) -> None:
    place = tmp_path / "manifests" / "registry.ollama.ai" / "library" / "m" / "latest"
    place.parent.mkdir(parents=True)
    place.write_text(manifest.replace("TYPE", pulled.OLLAMA_MODEL_TYPE).replace("HASH", "a" * 64))
    with pytest.raises(NotFound, match=why):
        find_ollama_file("m", {"OLLAMA_MODELS": str(tmp_path)})
