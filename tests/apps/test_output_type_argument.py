"""The argument SCHEMA: a schema in one line, a class of a module, or a JSON Schema."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from support.process import Process
from toolcast.apps import output_type_argument
from toolcast.apps.output_type_argument import schema_argument
from toolcast.errors import ToolcastError


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process: Process) -> None:
    """Modules in the working directory, which is not on the path yet."""
    monkeypatch.chdir(tmp_path)
    process.path(list(sys.path))
    (tmp_path / "my_models_1.py").write_text("class Person:\n    class Inner: ...\nperson = Person\n")
    (tmp_path / "my_models_2.py").write_text("raise SystemExit('stop')\n")
    for name in ("my_models_1", "my_models_2"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_schema_in_one_line_is_parsed_at_once() -> None:
    assert schema_argument("name:str, age int")().model_fields.keys() == {"name", "age"}
    assert schema_argument("name:str")().model_fields.keys() == {"name"}
    with pytest.raises(argparse.ArgumentTypeError, match="unknown type 'ag'"):
        schema_argument("name:ag")


def test_a_class_is_imported_when_it_is_loaded() -> None:
    load = schema_argument("my_models_1:Person")
    assert "my_models_1" not in sys.modules
    assert load().__name__ == "Person"
    assert schema_argument("my_models_1:Person.Inner")().__name__ == "Inner"
    assert schema_argument("collections.abc:Sequence")().__name__ == "Sequence"
    assert schema_argument("os.path:join")().__name__ == "join"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("my_models_1:Persn", "my_models_1:Persn: module 'my_models_1' has no attribute 'Persn'"),
        ("my_models_2:Person", "my_models_2:Person: importing my_models_2 failed: SystemExit: stop"),
        ("no_models:Person", "no_models:Person: importing no_models failed: ModuleNotFoundError: No module named"),
    ],
)
def test_what_cannot_be_imported_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ToolcastError) as error:
        schema_argument(text)()
    assert str(error.value).startswith(message)


def test_a_json_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "person.JSON"
    file.write_text(json.dumps({"type": "object", "properties": {"a": {"type": "string"}}}))
    assert schema_argument("person.JSON")().model_fields.keys() == {"a"}
    for text, message in (
        ('{"$ref": "a.json"}', "person.JSON: $ref 'a.json' is outside of the document"),
        ("{", "person.JSON: expected JSON: EOF while parsing"),
    ):
        file.write_text(text)
        with pytest.raises(ToolcastError) as error:
            schema_argument("person.JSON")()
        assert str(error.value).startswith(message)
    monkeypatch.setattr(output_type_argument, "_JSON_LIMIT", 10)
    file.write_text(" " * 11)
    with pytest.raises(ToolcastError, match="more than 10 bytes: expected a JSON Schema"):
        schema_argument("person.JSON")()
    with pytest.raises(FileNotFoundError):
        schema_argument("other.json")()
