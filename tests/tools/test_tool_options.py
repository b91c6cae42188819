"""The options of a tool: path arguments, and invalid options."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, DirectoryPath, Field, FilePath

from toolcast.tools.callable_tool import as_tool
from toolcast.tools.tool_options import check_output_limit, check_timeout, path_arguments


class Place(BaseModel):
    where: Path
    inner: Place | None = None


class Named(BaseModel):
    name: str
    inner: list[Named] = []


def test_paths_are_found_in_the_schema() -> None:
    def take(
        a: Path,
        b: list[Path],
        c: Path | None,
        d: FilePath,
        e: dict[str, DirectoryPath],
        f: Place,
        g: Annotated[str, Field(json_schema_extra={"format": "path"})],
        text: str,
        named: Named,
        format: str = "path",
    ) -> None: ...

    assert as_tool(take).path_parameters == set("abcdefg")
    assert as_tool(take).with_(path_parameters={"text"}).path_parameters == set("abcdefg") | {"text"}
    assert as_tool(Place).path_parameters == {"where", "inner"}


json_like = st.recursive(
    st.none() | st.sampled_from(["path", "#/$defs/a", "#"]),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["format", "$ref", "a", "properties", "$defs"]), inner)
    ),
)


@given(st.dictionaries(st.sampled_from("abc"), json_like), st.dictionaries(st.sampled_from("abc"), json_like))
def test_any_schema_can_be_looked_through(properties: Any, definitions: Any) -> None:
    found = path_arguments({"properties": properties, "$defs": definitions})
    assert found <= set(properties)
    assert path_arguments({}) == frozenset()


def lone(text: str) -> None: ...


def test_options() -> None:
    tool = as_tool(lone)
    assert (tool.read_only, tool.destructive, tool.idempotent, tool.parallel) == (False, False, False, None)
    assert (tool.timeout, tool.output_limit, tool.path_parameters) == (None, None, frozenset())
    changed = tool.with_(
        name="other", description="Other.", destructive=True, idempotent=True, timeout=2, output_limit=7
    )
    assert (changed.spec.name, changed.spec.description, changed.timeout, changed.output_limit) == (
        "other",
        "Other.",
        2,
        7,
    )
    assert (changed.destructive, changed.idempotent) == (True, True)
    assert (tool.name, tool.timeout) == ("lone", None)


@pytest.mark.parametrize(
    ("read_only", "parallel", "runs"),
    [(False, None, False), (True, None, True), (True, False, False), (False, True, True)],
)
def test_what_runs_in_parallel(read_only: bool, parallel: bool | None, runs: bool) -> None:
    assert as_tool(lone).with_(read_only=read_only, parallel=parallel).runs_in_parallel is runs


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"timeout": 0}, "timeout=0 is not a time limit: expected more than 0 seconds"),
        ({"timeout": -1.5}, "timeout=-1.5"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"output_limit": 0}, "output_limit=0 is not a length"),
        ({"read_only": True, "destructive": True}, "either read_only or destructive"),
        ({"path_parameters": {"text", "fiel", "b"}}, r"path_parameters=\['b', 'fiel'\] are not arguments of the tool"),
    ],
)
def test_options_that_make_no_sense(changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        as_tool(lone).with_(**changes)


def test_an_unknown_option() -> None:
    unknown: Any = {"attempts": 3}
    with pytest.raises(TypeError, match="attempts"):
        as_tool(lone).with_(**unknown)


@pytest.mark.parametrize("check", [check_timeout, check_output_limit])
@pytest.mark.parametrize("wrong", [0, -1, "5", True, math.nan, [1], b"1"])
def test_what_is_no_limit(check: Any, wrong: object) -> None:
    with pytest.raises(ValueError, match=f"^mine={re.escape(repr(wrong))} is not a .*: expected .* or None$"):
        check(wrong, "mine")
    check(None)
    check(1)


def test_seconds_may_be_parts_and_characters_may_not() -> None:
    check_timeout(0.5)
    check_timeout(math.inf)
    with pytest.raises(ValueError, match=r"output_limit=0.5 is not a length: expected a whole number above 0"):
        check_output_limit(0.5)
    wrong: Any = {"timeout": "5"}
    with pytest.raises(ValueError, match="timeout='5'"):
        as_tool(lone).with_(**wrong)
