"""Configurations as values: what is taken, what is refused, and in which words."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import ToolcastError
from toolcast.experiments.config_errors import ConfigError, MissingField, UnknownKey, WrongType, WrongValue
from toolcast.experiments.experiment_config import (
    OLLAMA_OPTIONS,
    REQUIRED,
    ExperimentConfig,
    ModelOptions,
    OllamaClientConfig,
    config_of,
)
from toolcast.llms.named_llms import providers

USUAL: dict[str, Any] = {
    "run_id": "first-run",
    "model_name": "llama3.2",
    "cycle_count": 10,
    "ollama_client_config": {"host": "http://localhost:11434"},
    "model_options": {
        "seed": 42,
        "temperature": 0.7,
        "top_p": 0.9,
        "num_predict": -1,
        "repeat_last_n": 64,
        "repeat_penalty": 1.1,
        "num_ctx": 8192,
    },
}


def changed(key: str, value: Any) -> dict[str, Any]:
    """The usual configuration with another value at a dotted key."""
    mapping = json.loads(json.dumps(USUAL))
    *around, last = key.split(".")
    inside = mapping
    for part in around:
        inside = inside.setdefault(part, {})
    inside[last] = value
    return dict(mapping)


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in USUAL.items() if key not in keys}


def test_a_configuration_of_contreact() -> None:
    config = config_of(USUAL)
    assert (config.run_id, config.model_name, config.cycle_count) == ("first-run", "llama3.2", 10)
    assert config.ollama_client_config == OllamaClientConfig(host="http://localhost:11434")
    assert config.model_options.model_dump(exclude_none=True) == USUAL["model_options"]
    assert (config.history, config.operator, config.telegram_enabled) == ("reset", "terminal", False)
    assert (config.log_path, config.memory_path) == (Path("logs/first-run.jsonl"), Path("data/memory.db"))


def test_the_default_host_is_this_machine() -> None:
    assert config_of(changed("ollama_client_config", {})).ollama_client_config.host == "http://localhost:11434"


def test_a_configuration_is_frozen_and_survives_json() -> None:
    config = config_of(USUAL)
    with pytest.raises(ValueError, match="frozen"):
        config.run_id = "other"  # type: ignore[misc]  # what must fail
    assert config_of(json.loads(config.model_dump_json())) == config


@pytest.mark.parametrize("field", REQUIRED)
def test_x1_a_missing_field_is_a_key_error_in_plain_words(field: str) -> None:
    with pytest.raises(KeyError) as raised:
        config_of(without(field))
    assert isinstance(raised.value, MissingField)
    assert isinstance(raised.value, ToolcastError)
    assert str(raised.value).startswith(
        f"Missing required field in configuration: {field}. Add it, for example: {field}: "
    )
    assert [fault.key for fault in raised.value.faults] == [field]


def test_x1_only_a_model_of_ollama_needs_to_know_where_ollama_is() -> None:
    bare = without("ollama_client_config", "model_options") | {"model_options": {}}
    for name in ("local", "local:smollm2", "openai:gpt-4.1", "mistral:mistral-large-latest"):
        assert not config_of(bare | {"model_name": name}).asks_ollama
    for name in ("llama3.2", "gemma3:4b", "ollama:gemma3:4b", "hf.co/some/model:Q4_0", "mistral", "openai"):
        with pytest.raises(MissingField, match="ollama_client_config"):
            config_of(bare | {"model_name": name})
        assert config_of({**USUAL, "model_name": name}).asks_ollama


@pytest.mark.parametrize("left_out", [(), ("ollama_client_config",)])
def test_a_provider_that_is_unknown(left_out: tuple[str, ...]) -> None:
    with pytest.raises(WrongValue) as raised:
        config_of(without(*left_out) | {"model_name": "opanai:gpt-4.1"})
    assert "model_name 'opanai:gpt-4.1' names no LLM" in str(raised.value)
    assert "did you mean 'openai:gpt-4.1'?" in str(raised.value)
    assert len(raised.value.faults) == 1


def test_a_tag_of_ollama_that_is_called_like_a_service() -> None:
    assert config_of({**USUAL, "model_name": "mistral:7b"}).asks_ollama
    assert not config_of({**USUAL, "model_name": "openai:gpt-4.1"}).asks_ollama
    assert {"mistral", "qwen"} <= set(providers())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cycle_count", True, "cycle_count must be a whole number, not true. Write for example: cycle_count: 10"),
        ("cycle_count", "10", 'must be a whole number, not "10". Write it as a plain number: cycle_count: 10'),
        ("cycle_count", 10.0, "must be a whole number, not 10.0. Write it as a plain number: cycle_count: 10"),
        ("cycle_count", "ten", 'must be a whole number, not "ten". Write for example: cycle_count: 10'),
        ("cycle_count", None, "must be a whole number, not null (nothing is written there)"),
        ("run_id", 7, "run_id must be text, not 7. Put it in quotes"),
        ("model_name", ["a"], "model_name must be text, not a list. Write for example: model_name: llama3.2"),
        ("model_options", [1], "must be a mapping, with keys and values of its own, not a list"),
        ("ollama_client_config", "localhost", 'not "localhost". Write for example: ollama_client_config: {"host":'),
        ("model_options.temperature", "1e-3", 'not "1e-3". Write it as a plain number: temperature: 0.001'),
        ("model_options.temperature", True, "model_options.temperature must be a number, not true"),
        ("model_options.seed", 1.5, "Write it as a plain number: seed: 1.5"),
        ("limits", 3, 'Write for example: limits: {"max_steps": 20}'),
        ("log_folder", 3, "log_folder must be a path, not 3. Write for example: log_folder: logs"),
        ("telegram_enabled", "yes", "telegram_enabled must be true or false"),
        ("grid", {"model_options.seed": 1}, "grid.model_options.seed must be a list, not 1"),
        ("limits", {"max_steps": {}}, "must be a whole number, not a mapping"),
    ],
)
def test_x1_a_wrong_type_is_a_type_error(key: str, value: Any, words: str) -> None:
    with pytest.raises(TypeError) as raised:
        config_of(changed(key, value))
    assert type(raised.value) is WrongType
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("cycle_count", 0, "cycle_count must be greater than 0, not 0. Write for example: cycle_count: 10"),
        ("cycle_count", -3, "must be greater than 0, not -3"),
        ("model_name", " ", 'must name a model, as provider:model or as Ollama calls it, not " "'),
        ("model_name", "ollama:", "must name a model"),
        ("model_options.temperature", -1, "must be greater than or equal to 0"),
        ("model_options.temperature", float("nan"), "must be a finite number, not NaN"),
        ("model_options.num_predict", 0, "must be a number of tokens, or -1 for no limit, not 0"),
        ("ollama_client_config.host", "ftp://box", "must be the address of an Ollama"),
        ("ollama_client_config.host", "localhost:99999", "host: http://localhost:11434"),
        ("history", "all", "must be 'reset' or 'full', not \"all\". Write for example: history: reset"),
        ("operator", False, "must be 'terminal' or 'none', not false"),
        (
            "similarity.moderate",
            0.9,
            "similarity.moderate must be no more than 0.8, which is what counts as high. Write",
        ),
        ("telegram_enabled", True, "telegram_authorized_users must name who may answer where telegram_enabled is true"),
        ("telegram_authorized_users", [1.5], "telegram_authorized_users.0 must be the number or the name of a user"),
        ("telegram_authorized_users", [True], "not true. Write for example: telegram_authorized_users: [123456789]"),
        ("similarity.embedder", "", "similarity.embedder must be default, wordllama, words, none,"),
        (
            "similarity.embedder",
            "wordlama",
            'PROVIDER:MODEL of a service, not "wordlama". Write for example: embedder: default',
        ),
    ],
)
def test_x1_a_wrong_value_is_a_value_error(key: str, value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as raised:
        config_of(changed(key, value))
    assert type(raised.value) is WrongValue


@pytest.mark.parametrize(
    "run_id", ["../evil", "a/b", "a\\b", ".hidden", "", " ", "a b", "a\n", "-rf", "é", "a" * 129, "C:x", "\x1b[2J"]
)
def test_x14_a_run_id_that_is_no_file_name_is_refused(run_id: str) -> None:
    with pytest.raises(WrongValue, match="run_id must be fit for a file's name") as raised:
        config_of({**USUAL, "run_id": run_id})
    assert "\x1b" not in str(raised.value)


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", fullmatch=True))
def test_any_file_name_is_a_run_id_and_stays_in_its_folder(run_id: str) -> None:
    config = config_of({**USUAL, "run_id": run_id})
    assert config.log_path.parent == Path("logs")
    assert config.log_path.name == f"{run_id}.jsonl"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("cycles_count", "cycles_count is no key of a configuration. Did you mean cycle_count?"),
        ("temperature", "Did you mean model_options.temperature?"),
        ("max_steps", "Did you mean limits.max_steps?"),
        ("limits.max_step", "limits.max_step is no key of a configuration. Did you mean max_steps?"),
        ("ollama_client_config.api_key", "Take it out; there are: host"),
        ("colour", "Take it out; there are: preset, run_id, model_name, cycle_count"),
        ("model_options.temprature", "model_options.temprature is no option that is known. Did you mean temperature?"),
    ],
)
def test_x1_a_key_that_no_one_knows_is_refused(key: str, words: str) -> None:
    with pytest.raises(UnknownKey) as raised:
        config_of(changed(key, 1))
    assert words in str(raised.value)
    assert isinstance(raised.value, TypeError)


def test_x1_keys_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnknownKey, match="3 is no key of a configuration"):
        config_of({**USUAL, 3: 4})  # type: ignore[dict-item]  # what must fail
    with pytest.raises(WrongType, match=r"grid\.3 must be text, not 3"):
        config_of({**USUAL, "grid": {3: [4]}})


def test_who_may_answer_is_named_by_number_or_name() -> None:
    config = config_of({**USUAL, "telegram_enabled": True, "telegram_authorized_users": [123, "someone"]})
    assert config.telegram_authorized_users == (123, "someone")


def test_options_that_only_ollama_knows_are_kept() -> None:
    config = config_of(changed("model_options.min_p", 0.1))
    assert config.model_options.model_extra == {"min_p": 0.1}
    assert set(ModelOptions.model_fields) < OLLAMA_OPTIONS


def test_x1_what_is_no_mapping_is_a_type_error() -> None:
    with pytest.raises(WrongType, match="model_options must be a mapping"):
        config_of({**USUAL, "model_options": "temperature"})


def test_x1_all_faults_are_reported_and_the_first_decides() -> None:
    wrong = without("cycle_count", "ollama_client_config") | {"history": "all", "cycle_cuont": 3, "run_id": 7}
    with pytest.raises(ConfigError) as raised:
        config_of(wrong)
    assert isinstance(raised.value, MissingField)
    lines = str(raised.value).splitlines()
    assert [line.split(".")[0] for line in lines[:2]] == [
        "Missing required field in configuration: cycle_count",
        "Missing required field in configuration: ollama_client_config",
    ]
    assert len(lines) == len(raised.value.faults) == 5
    assert {fault.key for fault in raised.value.faults} >= {"run_id", "history", "cycle_cuont"}


KEYS = st.sampled_from([*ExperimentConfig.model_fields, "colour", "model_options"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_anything_is_a_configuration_or_a_config_error(changes: dict[str, Any]) -> None:
    try:
        config = config_of({**USUAL, **changes})
    except ConfigError as error:
        assert error.faults
        assert all(fault.text in str(error) for fault in error.faults)
    else:
        assert config_of(json.loads(config.model_dump_json(exclude_unset=True))).run_id == config.run_id


DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "experiments.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ExperimentConfig.model_fields)
def test_the_page_shows_every_key(name: str) -> None:
    part = ExperimentConfig.model_fields[name].default
    inner = type(part).model_fields if hasattr(type(part), "model_fields") else {}
    inner = ModelOptions.model_fields if name == "model_options" else inner
    wanted = [f"`{name}.{key}`" for key in inner] or [f"`{name}`"]
    assert [key for key in wanted if key not in DOCS] == []
