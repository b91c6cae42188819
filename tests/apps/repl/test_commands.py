"""The commands: what each shows, and what it leaves behind."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.repls import chat, repl_on
from support.scripted_screen import ScriptedScreen
from toolcast import CallableTool, LlamaCpp, MemoryStore, Prices, ToolCallPart, assistant, user
from toolcast.agents.engine.history import find_problems
from toolcast.apps.repl.commands import COMMANDS, typed_command
from toolcast.apps.repl.conversation import ChatSetup, OpenConversation
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.repl import Repl
from toolcast.errors import RateLimited, UnsupportedLLMError
from toolcast.events import Finish, UsageReport
from toolcast.llms.base import FunctionCallingLLM
from toolcast.testing import ScriptedLLM
from toolcast.usage import Usage


def weather(city: str) -> str:
    """The weather of a city.

    All of it.
    """
    return f"{city}: sunny"


def asked(llm: ScriptedLLM) -> list[list[str]]:
    """Return the texts of each request, without the system prompt."""
    return [[message.text for message in request.messages if message.role != "system"] for request in llm.requests]


@pytest.mark.parametrize(
    ("message", "typed"),
    [
        ("/help", ("/help", "")),
        ("/HELP ", ("/help", "")),
        ("/save  a file.json ", ("/save", "a file.json")),
        ("/model qwen3:4b", ("/model", "qwen3:4b")),
        ("/nothing", ("/nothing", "")),
        ("/usr/bin", None),
        ("/ help", None),
        ("/", None),
        ("help", None),
        ("/help\nme", None),
        ("/save a\nb", None),
    ],
)
def test_what_is_a_command(message: str, typed: tuple[str, str] | None) -> None:
    assert typed_command(message) == typed


def test_help_names_all_of_them() -> None:
    notes = chat("/help", llm=ScriptedLLM()).notes
    assert all(f"{name} " in notes for name in COMMANDS)
    assert "!COMMAND" in notes


def test_clear_begins_a_new_session() -> None:
    store, llm = MemoryStore(), ScriptedLLM("Hello.", "Who?")
    screen = chat("I am Ada.", "/clear", "Who am I?", llm=llm, store=store, session="ada")
    assert asked(llm)[1] == ["Who am I?"]
    assert "saved as session ada" in screen.notes
    first, second = store.ids()
    assert first == "ada"
    assert second.startswith("chat-")


def test_clear_of_nothing() -> None:
    assert "kept" not in chat("/clear", llm=ScriptedLLM()).notes


def test_context() -> None:
    screen = chat("Hi", "/context", llm=ScriptedLLM("Hello. " * 100), tools=[weather])
    used, *rows = screen.notes.splitlines()[:-1]
    assert used == "The history has 15 tokens. Estimates:"
    assert [row.split(maxsplit=1)[1] for row in rows] == [
        "instructions",
        "1 tools",
        "1 user messages",
        "1 assistant messages",
    ]
    assert rows[-1].split()[0] == "193"


def test_context_of_a_model_whose_window_is_known() -> None:
    assert "0 tokens of 4,096 (0 %)" in chat("/context", llm=LlamaCpp()).notes


def test_mode_shows_them_all() -> None:
    screen = chat("/mode", "/mode PLAN", "/mode fast", llm=ScriptedLLM(), mode="auto")
    first, second, _ = (note for (note,) in [*screen.of("note"), ("",)])
    assert [line[2:].split()[0] for line in first.splitlines()] == list(MODES)
    assert [line.split()[1] for note in (first, second) for line in note.splitlines() if line.startswith("*")] == [
        *("auto", "plan"),
    ]
    assert screen.errors == ["unknown mode 'fast': expected one of plan, build, verify, auto"]


def test_another_mode_offers_other_tools_and_keeps_the_history() -> None:
    look = CallableTool.from_function(weather, "look").with_(read_only=True)
    llm = ScriptedLLM("Hello.", "Again.", "Bye.")
    chat("Hi", "/mode plan", "Hi again", "/mode build", "Bye", llm=llm, tools=[weather, look])
    assert [[tool.name for tool in request.tools] for request in llm.requests] == [
        *(["weather", "look"], ["look"], ["weather", "look"]),
    ]
    assert asked(llm)[2] == ["Hi", "Hello.", "Hi again", "Again.", "Bye"]


def test_what_was_always_allowed_stays_so_in_another_mode_but_plan() -> None:
    def calls(id: str) -> ToolCallPart:
        return ToolCallPart(id, "weather", '{"city": "Oslo"}')

    llm = ScriptedLLM(calls("c1"), "1", calls("c2"), "2", calls("c3"), "3")
    screen = chat("1", "a", "/mode auto", "2", "/mode plan", "3", llm=llm, tools=[weather])
    assert [content for _, _, content, _ in screen.of("call_result")][:2] == ["Oslo: sunny"] * 2
    assert screen.of("call_result")[2][3]
    assert len([prompt for prompt, _ in screen.prompts if prompt != "> "]) == 1


def test_another_model_keeps_the_history() -> None:
    first, second = ScriptedLLM("Hello."), ScriptedLLM("Ada.", model="m-2")

    def named(name: str) -> FunctionCallingLLM:
        if name != "m-2":
            raise UnsupportedLLMError(f"there is no {name}")
        return second

    screen = chat("I am Ada.", "/model", "/model m-3", "/model m-2", "Who am I?", llm=first, model=named)
    assert asked(second) == [["I am Ada.", "Hello.", "Who am I?"]]
    assert screen.errors == ["there is no m-3"]
    assert screen.notes.splitlines()[:2] == ["The model is scripted (scripted).", "The model is m-2 (scripted)."]


def test_a_session_has_one_store_through_all_changes() -> None:
    store = MemoryStore()
    llm = ScriptedLLM("Hello.", "Again.", "Fine.")
    chat("Hi", "/mode plan", "Hi again", llm=llm, store=store, session="s")
    chat("How?", llm=llm, store=store, session="s")
    assert asked(llm)[2] == ["Hi", "Hello.", "Hi again", "Again.", "How?"]


def test_tools() -> None:
    screen = chat("/tools", "/mode plan", "/tools", llm=ScriptedLLM(), tools=[weather])
    first, _, last = (note for (note,) in screen.of("note"))
    assert first.splitlines()[1:] == ["weather: The weather of a city."]
    assert last.splitlines()[1:] == ["No tools are offered."]


def test_undo_takes_the_last_turn_out() -> None:
    llm = ScriptedLLM("One.", ToolCallPart("c1", "weather", '{"city": "Oslo"}'), "Two.", "Three.")
    screen = chat("1", "2", "y", "/undo", "3", llm=llm, tools=[weather])
    assert asked(llm)[-1] == ["1", "One.", "3"]
    assert "Removed: 2" in screen.notes


def test_undo_again_and_again() -> None:
    llm = ScriptedLLM("One.", "Two.", "Three.")
    screen = chat("1", "2", "/undo", "/undo", "/undo", "3", llm=llm)
    assert asked(llm)[-1] == ["3"]
    assert screen.errors == ["no turn to remove: the conversation is empty"]


def test_undo_is_remembered() -> None:
    store, llm = MemoryStore(), ScriptedLLM("One.", "Two.", "Three.")
    chat("1", "2", "/undo", llm=llm, store=store, session="s")
    chat("3", llm=llm, store=store, session="s")
    assert asked(llm)[-1] == ["1", "One.", "3"]


def test_retry_asks_anew() -> None:
    llm = ScriptedLLM("One.", "Two.", "Three.")
    screen = chat("1", "2", "/retry", llm=llm)
    assert asked(llm)[-1] == ["1", "One.", "2"]
    assert "Sending again: 2" in screen.notes
    assert screen.answer == "One.Two.Three."


def test_retry_after_a_failure_asks_what_failed() -> None:
    llm = ScriptedLLM("One.", RateLimited("slow down"), RateLimited("slow down"), "Two.")
    chat("1", "2", "/retry", "/retry", llm=llm)
    assert asked(llm)[1:] == [["1", "One.", "2"]] * 3


def test_undo_after_a_failure_takes_back_what_failed() -> None:
    llm = ScriptedLLM("One.", RateLimited("slow down"), "Three.")
    screen = chat("1", "2", "/undo", "3", llm=llm)
    assert "Removed: 2" in screen.notes
    assert asked(llm)[-1] == ["1", "One.", "3"]


def test_retry_after_a_failure_behind_a_tool() -> None:
    llm = ScriptedLLM(ToolCallPart("c1", "weather", '{"city": "Oslo"}'), RateLimited("slow down"), "Sunny.")
    chat("How?", "y", "/retry", llm=llm, tools=[weather])
    assert asked(llm)[-1] == ["How?"]


@pytest.mark.parametrize("at", ["content", "end_answer"])
def test_retry_after_ctrl_c(at: str) -> None:
    llm = ScriptedLLM("Once upon a time.", "Two.")
    screen = ScriptedScreen("Tell me", "/retry")
    screen.ctrl_c_at = [at]
    assert repl_on(screen, llm).run() == 0
    assert asked(llm)[-1] == ["Tell me"]


def test_there_is_nothing_to_ask_again() -> None:
    screen = chat("/retry", "/edit", llm=ScriptedLLM())
    assert screen.errors == [
        "no message to send again: the conversation is empty",
        "no message to edit: the conversation is empty",
    ]


def test_edit_asks_the_changed_question() -> None:
    llm = ScriptedLLM("One.", "Two.", "Three.")
    screen = chat("1", "Who is Bda?", "/edit", "Who is Ada?", llm=llm)
    assert ("edit> ", "Who is Bda?") in screen.prompts
    assert asked(llm)[-1] == ["1", "One.", "Who is Ada?"]


@pytest.mark.parametrize("typed", ["", "  ", None, KeyboardInterrupt()])
def test_an_edit_that_is_left(typed: str | BaseException | None) -> None:
    llm = ScriptedLLM("One.", "Two.")
    chat("1", "/edit", typed, "2", llm=llm)
    assert asked(llm)[-1] == ["1", "One.", "2"]


def test_cost() -> None:
    usage = Usage(1200, 30, cache_read_tokens=1000)
    llm = ScriptedLLM("One.", [UsageReport(usage), Finish("end_turn")])
    notes = chat("1", "/cost", "2", "/cost", llm=llm).of("note")
    assert notes[0] == ("10 tokens in, 5 out. Their price is unknown.",)
    assert notes[1][0].startswith("1,210 tokens in (1,000 of them from a cache), 35 out.")


def test_cost_in_money() -> None:
    llm = ScriptedLLM("One.", "Two.", prices=Prices(input=1000, output=2000))
    notes = chat("1", "/cost", "2", "/cost", llm=llm).of("note")
    assert notes[:2] == [
        ("10 tokens in, 5 out. About $0.0200, as an estimate.",),
        ("20 tokens in, 10 out. About $0.0400, as an estimate.",),
    ]


def test_cost_of_which_a_part_is_known() -> None:
    paid = UsageReport(Usage(10, 5).with_cost("0.25"))
    notes = chat("1", "2", "/cost", llm=ScriptedLLM("One.", [paid, Finish("end_turn")])).of("note")
    assert notes[0] == ("20 tokens in, 10 out. At least $0.2500, as an estimate; the price of the others is unknown.",)


def test_the_embedded_model_costs_nothing() -> None:
    assert "costs nothing" in chat("/cost", llm=LlamaCpp()).notes


def test_save_and_load(tmp_path: Path) -> None:
    file = tmp_path / "a talk.json"
    llm = ScriptedLLM(ToolCallPart("c1", "weather", '{"city": "Ålesund"}'), "Sunny.", "Yes.")
    screen = chat("How?", "y", f"/save {file}", llm=llm, tools=[weather])
    assert f"Saved 4 messages to {file}." in screen.notes
    assert "Ålesund" in file.read_text(encoding="utf-8")
    store = MemoryStore()
    screen = chat("Hi", f'/load "{file}"', "Sure?", llm=ScriptedLLM("Hello.", "Yes."), store=store, session="s")
    assert f"Loaded 4 messages from {file} into session" in screen.notes
    first, second = store.ids()
    resumed = OpenConversation(ChatSetup(ScriptedLLM()), store, second).engine.history
    assert [message.role for message in resumed] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
    assert len(OpenConversation(ChatSetup(ScriptedLLM()), store, first).engine.history) == 2


def test_save_again_replaces_a_conversation(tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    chat("1", f"/save {file}", "2", f"/save {file}", llm=ScriptedLLM("One.", "Two."))
    assert len(json.loads(file.read_text(encoding="utf-8"))["messages"]) == 4


def test_save_replaces_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "thesis.md"
    file.write_text("All I have.", encoding="utf-8")
    screen = chat(f"/save {file}", llm=ScriptedLLM())
    assert "is not a saved conversation" in screen.errors[0]
    assert file.read_text(encoding="utf-8") == "All I have."


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", "{}", '{"kind": "toolcast conversation"}', "\x00", "[" * 100_000),
        '{"kind": "toolcast conversation", "messages": 3}',
        '{"kind": "toolcast conversation", "messages": [{"role": "king"}]}',
        '{"kind": "toolcast conversation", "messages": [null]}',
    ],
)
def test_load_of_something_else(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text, encoding="utf-8")
    llm = ScriptedLLM("Hello.", "Fine.")
    screen = chat("Hi", f"/load {file}", "And now?", llm=llm)
    assert len(screen.errors) == 1
    assert "is not a saved conversation" in screen.errors[0]
    assert asked(llm)[-1] == ["Hi", "Hello.", "And now?"]


@pytest.mark.parametrize("command", ["/save", "/load"])
def test_files_that_cannot_be_had(command: str, tmp_path: Path) -> None:
    screen = chat(command, f"{command} {tmp_path}", f"{command} {tmp_path}/no/where", llm=ScriptedLLM())
    first, second, third = screen.errors
    assert first == f"the file name is missing: {command} FILE"
    assert second.startswith(f"cannot read {tmp_path}: ")
    assert f" {tmp_path}/no/where: " in third


def test_a_loaded_history_that_no_service_takes_is_repaired(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    text = [user("Hi"), assistant(ToolCallPart("c1", "weather")), user("And?")]
    data = {"kind": "toolcast conversation", "messages": [message.to_dict() for message in text]}
    file.write_text(json.dumps(data), encoding="utf-8")
    llm = ScriptedLLM("Fine.")
    chat(f"/load {file}", "Go on", llm=llm)
    assert find_problems(llm.requests[0].messages) == []


def test_commands_work_on_any_screen() -> None:
    screen = ScriptedScreen("/nothing", interactive=False)
    repl = Repl(OpenConversation(ChatSetup(ScriptedLLM(), can_ask=False), MemoryStore()), screen)
    assert repl.run() == 1
    assert screen.of("error") == [("unknown command /nothing", "")]
