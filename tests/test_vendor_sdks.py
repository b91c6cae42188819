"""The comparisons of `nox -s vendors`, with modules in the place of SDKs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel
from typing_extensions import TypeAliasType

import toolcast
import vendor_sdks
from vendor_sdks import Comparison, Vendor, compare, compare_models, kinds, literals, load, main, names, report

Alias: Any = TypeAliasType("Alias", Literal["low", "high"])


class Text(BaseModel):
    type: Literal["text"]
    text: str


class Image(TypedDict, total=False):
    type: Literal["image", "picture"]
    url: str


class Untyped(BaseModel):
    value: int


class Reason(Enum):
    STOP = "STOP"
    MAX_TOKENS = "MAX_TOKENS"


class Request(BaseModel):
    model: str | Literal["gpt-6-sol", "gpt-7-unseen"]
    max_tokens: int = 0


class Client:
    def create(self, model: str, *, temperature: float = 1) -> None: ...


@pytest.fixture
def sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Import a module in the place of an SDK, which has the version 7.0.0."""
    module = ModuleType("fake_sdk")
    module.__dict__.update(Block=Text | Image | str, Client=Client, Effort=Alias, Reason=Reason, Request=Request)
    monkeypatch.setitem(sys.modules, "fake_sdk", module)
    monkeypatch.setattr(vendor_sdks, "version", lambda package: "7.0.0")
    return module


@pytest.mark.parametrize(
    ("read", "kind", "found"),
    [
        (literals, Alias, "low high"),
        (literals, str | Literal["a"] | Annotated[Literal["b"] | None, "about"], "a b"),
        (literals, list[Literal["c"]], "c"),
        (literals, Reason, "STOP MAX_TOKENS"),
        (literals, Literal[Reason.STOP], "STOP"),
        (literals, str, ""),
        (names, Text | Image | None, "type text url"),
        (names, Client.create, "self model temperature"),
        (kinds, Annotated[Text | Image, "about"], "text image picture"),
        (kinds, Text | Untyped | str, "text Untyped"),
    ],
)
def test_the_names_of_a_type_are_read(read: Any, kind: Any, found: str) -> None:
    assert read(kind) == {*found.split()}


class Case(NamedTuple):
    comparison: Comparison
    findings: list[str]


EFFORTS = "toolcast.providers.refused_settings.EFFORTS"
CASES = {
    "known by a table": Case(Comparison("effort {}", "literals", "fake_sdk.Effort", EFFORTS), []),
    "a new effort": Case(
        Comparison("effort {}", "literals", "fake_sdk.Effort", used="low"), ["effort high is not listed"]
    ),
    "a new parameter": Case(
        Comparison("parameter {} of create", "names", "fake_sdk.Client.create", used="model", left="self"),
        ["parameter temperature of create is not listed"],
    ),
    "a new kind": Case(
        Comparison("kind {}", "kinds", "fake_sdk.Block", used="text", left="image"), ["kind picture is not listed"]
    ),
    "a literal of a field": Case(
        Comparison("model {}", "literals", "fake_sdk.Request:model", used="gpt-6-sol"),
        ["model gpt-7-unseen is not listed"],
    ),
    "another spelling": Case(Comparison("field {}", "names", "fake_sdk.Request", used="model maxTokens"), []),
    "no longer there": Case(
        Comparison("reason {}", "literals", "fake_sdk.Reason", used="STOP MAX_TOKENS", left="OTHER"),
        ["reason OTHER is listed, and the SDK has it no longer"],
    ),
    "a type that is gone": Case(
        Comparison("reason {}", "literals", "fake_sdk.Reason fake_sdk.Gone", used="STOP OTHER"),
        ["fake_sdk.Gone is gone", "reason MAX_TOKENS is not listed"],
    ),
    "a module that is gone": Case(
        Comparison("reason {}", "literals", "no_such_sdk.types.Reason"), ["no_such_sdk.types.Reason is gone"]
    ),
    "a field that is gone": Case(
        Comparison("effort {}", "literals", "fake_sdk.Request:effort"), ["fake_sdk.Request:effort is gone"]
    ),
    "a type without names": Case(
        Comparison("effort {}", "literals", "fake_sdk.Request"), ["fake_sdk.Request has no names that can be read"]
    ),
    "a table that is gone": Case(
        Comparison("effort {}", "literals", "fake_sdk.Effort", f"{EFFORTS}_OF_ALL", used="low high"),
        [f"{EFFORTS}_OF_ALL is gone"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_toolcast_does_not_know_is_found(sdk: ModuleType, case: Case) -> None:
    assert [*compare(case.comparison).findings] == case.findings


def test_a_type_that_cannot_be_read_is_found(sdk: ModuleType) -> None:
    sdk.__dict__["Broken"] = type("Broken", (), {"__annotations__": {"type": "Absent"}})
    (finding,) = compare(Comparison("kind {}", "kinds", "fake_sdk.Broken")).findings
    assert finding == "fake_sdk.Broken cannot be read: NameError: name 'Absent' is not defined"


def models_of(*found: str, retired: str = "") -> Any:
    sys.modules["fake_sdk"].__dict__["Model"] = Literal[found]
    return compare_models(Vendor("openai", "fake-sdk", models="fake_sdk.Model", retired=retired))


def test_a_model_without_a_row_is_found(sdk: ModuleType) -> None:
    result = models_of("gpt-4.1", "gpt-unseen", "gpt-unseen-tts", "gpt-old", "text-embedding-9", retired="gpt-old")
    assert (result.read, [*result.findings]) == (2, ["model gpt-unseen has no row"])
    assert [*result.notes] == ["Not for chat: gpt-unseen-tts, text-embedding-9"]


def test_a_retired_model_leaves_the_list_with_the_sdk(sdk: ModuleType) -> None:
    assert [*models_of("gpt-4.1", retired="gpt-old").findings] == [
        "model gpt-old is listed, and the SDK has it no longer"
    ]


def test_a_type_of_models_that_is_gone_is_found(sdk: ModuleType) -> None:
    gone = Vendor("openai", "fake-sdk", models="fake_sdk.ChatModel", retired="gpt-old")
    assert [*compare_models(gone).findings] == ["fake_sdk.ChatModel is gone"]


def test_models_with_few_facts_are_named_and_no_finding(sdk: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        vendor_sdks, "model_capabilities", lambda provider, name: toolcast.llms.Capabilities(known=True)
    )
    result = models_of("gpt-unseen")
    assert (result.findings, [*result.notes]) == ((), ["Rows without a context window: gpt-unseen"])


def test_the_report_is_markdown_and_the_exit_code_depends_on_findings(
    sdk: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = Vendor("openai", "fake-sdk", [CASES["a new effort"].comparison])
    known = Vendor("xai", "fake-sdk", [CASES["known by a table"].comparison])
    out = tmp_path / "vendors.md"
    assert main(["--out", str(out)], [new, known]) == 1
    written = out.read_text(encoding="utf-8")
    assert written == capsys.readouterr().out
    assert written.startswith(f"# The vendors' SDKs beside toolcast {toolcast.__version__}, 20")
    assert "## fake-sdk 7.0.0\n\n| compared | names | findings |\n|---|---:|---:|\n" in written
    assert "| effort | 2 | 1 |\n\n1 finding\n\n* fake-sdk 7.0.0: effort high is not listed\n" in written
    assert written.endswith("\n\n0 findings\n\nvendors: 1 finding\n")
    assert main(["--provider", "xai"], [new, known]) == 0
    assert capsys.readouterr().out.endswith("vendors: 0 findings\n")


def test_an_sdk_that_is_not_installed_is_a_finding() -> None:
    text, count = report(Vendor("openai", "no-such-sdk", [CASES["known by a table"].comparison]))
    assert count == 1
    assert text.endswith("* no-such-sdk: the SDK is not installed")


LISTED = [pytest.param(each, id=f"{vendor.provider}-{each.what}") for vendor in load() for each in vendor.comparisons]


@pytest.mark.parametrize("each", LISTED)
def test_the_tables_of_the_lists_exist(each: Comparison) -> None:
    tables, findings = vendor_sdks.read(each.tables, lambda table: {*table})
    assert findings == []
    listed = [*each.used.split(), *each.left.split()]
    assert len({*listed} - tables) == len(listed), "a name is listed twice"
    assert each.read in vendor_sdks.READERS
    assert tables or listed


def test_what_is_listed_as_used_is_in_the_source() -> None:
    package = Path(str(toolcast.__file__)).parent
    found = {
        vendor_sdks.spelled(word)
        for path in package.joinpath("providers").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in [node.value, *node.value.split()]
    }
    used = {name for vendor in load() for each in vendor.comparisons for name in each.used.split()}
    assert sorted(name for name in used if vendor_sdks.spelled(name) not in found) == []
