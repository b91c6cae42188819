"""The modes: what each offers, what runs unasked, what is asked, what is denied."""

from __future__ import annotations

import pytest

from toolcast import CallableTool
from toolcast.apps.repl.modes import DEFAULT_MODE, MODES

READING = ("read_file", "list_files", "search_files", "ask_user")
NAMES = (*READING, "write_file", "edit_file", "run_command", "fetch_url")


def tool(name: str, *, read_only: bool = False, destructive: bool = False) -> CallableTool:
    def call(path: str = "") -> str:
        return path

    made = CallableTool.from_function(call, name, "A tool.")
    return made.with_(read_only=read_only, destructive=destructive)


BUILTIN = tuple([tool(name, read_only=name in READING, destructive=name == "run_command") for name in NAMES])

VERDICTS = {
    "plan": dict.fromkeys(READING, "allow"),
    "build": dict.fromkeys(READING, "allow") | dict.fromkeys(("write_file", "edit_file", "fetch_url"), "ask"),
    "verify": dict.fromkeys(READING, "allow") | dict.fromkeys(("run_command", "fetch_url"), "ask"),
    "auto": dict.fromkeys((*READING, "write_file", "edit_file"), "allow")
    | dict.fromkeys(("run_command", "fetch_url"), "ask"),
}


def verdicts(mode: str, tools: tuple[CallableTool, ...], own: tuple[CallableTool, ...] = (), *, can_ask: bool = True):
    permissions = MODES[mode].permissions(".", own, can_ask=can_ask)
    return {each.name: permissions.decide(each, {}).verdict for each in tools}


@pytest.mark.parametrize("mode", MODES)
def test_what_is_offered_and_asked(mode: str) -> None:
    assert verdicts(mode, MODES[mode].select_tools(BUILTIN, ())) == VERDICTS[mode]


@pytest.mark.parametrize("mode", MODES)
def test_with_no_one_to_ask_it_is_denied(mode: str) -> None:
    expected = {name: {"ask": "deny"}.get(verdict, verdict) for name, verdict in VERDICTS[mode].items()}
    assert verdicts(mode, MODES[mode].select_tools(BUILTIN, ()), can_ask=False) == expected


@pytest.mark.parametrize("mode", MODES)
def test_tools_of_the_user(mode: str) -> None:
    own = (tool("look", read_only=True), tool("send"))
    offered = verdicts(mode, MODES[mode].select_tools((), own), own)
    assert offered == ({"look": "allow"} if mode == "plan" else {"look": "allow", "send": "ask"})


def test_a_tool_of_the_user_takes_the_place_of_a_built_in_one() -> None:
    own = (tool("write_file"),)
    mode = MODES["auto"]
    offered = mode.select_tools(BUILTIN, own)
    assert [each for each in offered if each.name == "write_file"] == list(own)
    assert verdicts("auto", own, own) == {"write_file": "ask"}
    assert verdicts("auto", BUILTIN, own)["edit_file"] == "allow"


def test_the_shell_is_for_modes_that_run_commands() -> None:
    assert {name for name, mode in MODES.items() if mode.runs_commands} == {"verify", "auto"}
    assert DEFAULT_MODE in MODES
