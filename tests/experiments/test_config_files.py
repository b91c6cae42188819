"""Configurations as files: YAML and JSON, and every way in which a file can be wrong."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from experiments.test_experiment_config import USUAL
from support.process import Process
from toolcast.experiments.config_errors import ConfigError, ConfigFileNotFound, MissingField, WrongType, WrongValue
from toolcast.experiments.config_files import _json_lines, load_config, read_mapping
from toolcast.experiments.experiment_config import config_of
from toolcast.experiments.yaml_files import BadYAML

YAML = """\
# An experiment.
run_id: first-run
model_name: llama3.2
cycle_count: 10
ollama_client_config:
  host: http://localhost:11434
model_options:
  seed: 42
  temperature: 0.7
"""


def written(folder: Path, text: str | bytes, name: str = "config.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_yaml_and_json_are_the_same(tmp_path: Path) -> None:
    from_yaml = load_config(written(tmp_path, YAML))
    assert from_yaml.model_options.temperature == 0.7
    data = json.dumps(yaml.safe_load(YAML), indent=2)
    assert load_config(str(written(tmp_path, data, "config.JSON"))) == from_yaml
    assert load_config(written(tmp_path, b"\xef\xbb\xbf" + YAML.encode())) == from_yaml
    assert load_config(written(tmp_path, YAML.replace("\n", "\r\n"))) == from_yaml


def test_folders_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, f"{YAML}log_folder: elsewhere/logs\n"))
    assert config.log_path == Path("elsewhere/logs/first-run.jsonl")


def test_x1_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        load_config(tmp_path / "none.yaml")
    error = raised.value
    assert isinstance(error, ConfigFileNotFound)
    assert (error.errno, error.filename) == (errno.ENOENT, str(tmp_path / "none.yaml"))
    assert str(error).startswith(f"There is no configuration {tmp_path / 'none.yaml'}. Look at the path")


def test_a_file_that_cannot_be_read_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"directory|denied"):
        load_config(tmp_path)


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty. Write at least run_id"),
        (" \n ", "is empty"),
        ("null", "is empty"),
        ("[1, 2]", "is a list, not keys with values. Write lines like: run_id: first-run"),
        ('"text"', "is one single value, not keys with values"),
        ("3", "is one single value"),
    ],
)
def test_x1_a_file_without_keys_is_a_type_error(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError) as raised:
        load_config(written(tmp_path, text, name))
    assert isinstance(raised.value, WrongType)
    assert words in str(raised.value)
    assert name in str(raised.value)


def test_x1_bad_yaml_is_a_yaml_error_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(yaml.YAMLError) as raised:
        load_config(written(tmp_path, YAML + "history: [reset\n"))
    assert isinstance(raised.value, BadYAML)
    assert "config.yaml, line 11, column 1: this is no YAML" in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "kind", "words"),
    [
        ("cycle_count: 10", "cycle_count: true", TypeError, "line 4: cycle_count must be a whole number, not true"),
        ("cycle_count: 10", "cycle_count: 0", ValueError, "line 4: cycle_count must be greater than 0"),
        (
            "  seed: 42",
            "  sed: 42",
            TypeError,
            "line 8: model_options.sed is no option that is known. Did you mean seed?",
        ),
        ("  seed: 42", "  seed: 4.2", TypeError, "line 8: model_options.seed must be a whole number"),
        ("first-run", "../evil", ValueError, "line 2: run_id must be fit for a file's name"),
        ("first-run", "2026-01-01", TypeError, "run_id must be text, not 2026-01-01. Put it in quotes"),
        ("first-run", "", TypeError, "run_id must be text, not null (nothing is written there)"),
        ("http://localhost:11434", "ftp://box", ValueError, "line 6: ollama_client_config.host must be the address"),
        ("# An", "colour: red\n# An", TypeError, "line 1: colour is no key of a configuration"),
        ("model_name: llama3.2\n", "", KeyError, "Missing required field in configuration: model_name. Add it to "),
    ],
)
def test_x1_a_fault_is_reported_with_its_line(
    old: str, new: str, kind: type[Exception], words: str, tmp_path: Path
) -> None:
    with pytest.raises(kind) as raised:
        load_config(written(tmp_path, YAML.replace(old, new, 1)))
    assert isinstance(raised.value, ConfigError)
    assert words in str(raised.value)


def test_x1_a_fault_in_json_has_its_line_too(tmp_path: Path) -> None:
    data = json.dumps({**USUAL, "cycle_count": True, "grid": {"a": [1, {"b": "},{["}]}}, indent=1)
    line = 1 + next(number for number, text in enumerate(data.splitlines()) if "cycle_count" in text)
    with pytest.raises(WrongType, match=rf"config\.json, line {line}: cycle_count must be a whole number"):
        load_config(written(tmp_path, data, "config.json"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,}', "config.json, line 1, column"),
        ('{"a": 1\n"b": 2}', "config.json, line 2, column 1: this is no JSON: Expecting ',' delimiter"),
        ('{"a": NaN}', "NaN is no number of JSON. Write a number, or null"),
        ('{"a": -Infinity}', "-Infinity is no number of JSON"),
        (
            '{"a": 1,\n "b": {"c": 1,\n "c": 2}, "a": 3}',
            "config.json, line 3: b.c is there twice. Take one of them out\n",
        ),
        ("[" * 100_000, "nested too deep"),
        ('{"a": 1' + "0" * 5000 + "}", "config.json: Exceeds the limit"),
    ],
)
def test_x1_bad_json_is_a_value_error(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(WrongValue) as raised:
        load_config(written(tmp_path, text, "config.json"))
    assert words in str(raised.value)


def test_yaml_that_is_nested_too_deep(tmp_path: Path) -> None:
    with pytest.raises(WrongValue, match="nested too deep"):
        load_config(written(tmp_path, "[" * 10_000))


def test_a_file_that_is_no_utf_8(tmp_path: Path) -> None:
    with pytest.raises(WrongValue, match="is no text in UTF-8: byte 3 is not"):
        load_config(written(tmp_path, b"a: \xff"))


def test_all_that_is_missing_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(MissingField) as raised:
        load_config(written(tmp_path, "run_id: a\nmodel_name: llama3.2\n"))
    assert [fault.key for fault in raised.value.faults] == ["cycle_count", "model_options", "ollama_client_config"]


WITHOUT_YAML = """
import sys
sys.modules["yaml"] = None  # as if it were not installed
from toolcast.experiments.config_files import load_config
print(load_config("config.json").run_id)
try:
    load_config("config.yaml")
except ImportError as error:
    print(error)
"""


def test_without_pyyaml_json_is_read_and_yaml_names_the_extra(tmp_path: Path) -> None:
    written(tmp_path, YAML)
    written(tmp_path, json.dumps(USUAL), "config.json")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_YAML], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    name, reported = done.stdout.splitlines()
    assert name == "first-run"
    assert reported.startswith("config.yaml is YAML, which needs pyyaml: pip install 'toolcast[experiments]'")


def test_an_error_of_a_broken_pyyaml_is_raised_unchanged(tmp_path: Path, process: Process) -> None:
    process.without("yaml", unload=["toolcast.experiments.yaml_files"])
    with pytest.raises(ImportError, match=r"toolcast\[experiments\]"):
        load_config(written(tmp_path, YAML))
    process.restore()
    process.without("toolcast.experiments.yaml_files")
    with pytest.raises(ModuleNotFoundError, match="yaml_files"):
        load_config(written(tmp_path, YAML))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('ab"\\,:{}[]\n é'), max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.sampled_from('ab"\\,{}[]\n'), max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


def places(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The places of all keys, in the order in which JSON writes them."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for key, inner in members:
        found += [(*before, key)] if isinstance(value, dict) else []
        found += places(inner, (*before, key))
    return found


@given(JSON, st.sampled_from([None, 0, 2]))
def test_every_key_of_json_is_found_with_its_line(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    found = list(_json_lines(text))
    assert [place for place, _ in found] == places(value)
    lines = text.splitlines()
    assert all(json.dumps(place[-1]) in lines[line - 1] for place, line in found)


def test_a_mapping_that_is_read_but_not_checked(tmp_path: Path) -> None:
    mapping, source = read_mapping(written(tmp_path, "a: 1\n"))
    assert (mapping, source.lines) == ({"a": 1}, {("a",): 1})
    with pytest.raises(MissingField, match=r"config\.yaml, line 1: a is no key"):
        config_of(mapping, source)
