"""The commands: what each shows, and what it leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support.loopback import Loopback, whole
from support.repls import chat, repl_on
from support.scripted_screen import ScriptedScreen
from toolcast import CallableTool, LlamaCpp, Prices, ToolCallPart, assistant, user
from toolcast.agents.engine.history import find_problems
from toolcast.agents.engine.session_state import fold
from toolcast.apps.mcp.chat_servers import MCPServerSet
from toolcast.apps.model_list import ProviderModels, lists_model
from toolcast.apps.repl.clipboard import Clipboard
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.open_session import ChatSetup, OpenConversation
from toolcast.apps.repl.repl import Repl
from toolcast.apps.repl.screen import ConversationStatus
from toolcast.apps.repl.slash_commands import COMMANDS, code_blocks, time_ago, typed_command
from toolcast.apps.session_index import SessionIndex
from toolcast.errors import BadRequest, ContextTooLong, RateLimited, ToolcastError, UnsupportedLLMError
from toolcast.events import Finish, TextDelta, UsageReport
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.named_llms import llm
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.values.usage import Usage


def weather(city: str) -> str:
    """The weather of a city.

    All of it.
    """
    return f"{city}: sunny"


def asked(llm: ScriptedLLM) -> list[list[str]]:
    """Return the texts of each request, without the system prompt."""
    return [[message.text for message in request.messages if message.role != "system"] for request in llm.requests]


def test_mcp_without_servers() -> None:
    assert chat("/mcp", llm=ScriptedLLM()).notes == "MCP servers are off: --no-mcp."
    repl = repl_on(screen := ScriptedScreen("/mcp"), ScriptedLLM())
    repl.conversation.use(repl.conversation.setup.with_servers(MCPServerSet()))
    assert repl.run() == 0
    assert "No MCP servers." in screen.notes


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
    assert used == "The context has 15 tokens. Estimates of its parts:"
    assert [row.split(maxsplit=1)[1] for row in rows] == [
        "instructions",
        "1 tool",
        "1 user message",
        "1 assistant message",
    ]
    assert rows[-1].split()[0] == "193"
    assert {row.index(row.split()[0]) + len(row.split()[0]) for row in rows} == {5}  # the last digits in one column


def test_context_after_a_failure_is_the_sum_of_its_parts() -> None:
    notes = chat("Hi", "/context", llm=ScriptedLLM(RateLimited("slow down")), tools=[weather]).notes
    used, *rows = notes.splitlines()[:-1]
    assert used == f"The context has {sum(int(row.split()[0]) for row in rows)} tokens. Estimates of its parts:"


def test_context_of_a_model_whose_window_is_known() -> None:
    assert "The context has 4 of 4,096 tokens (0 %)." in chat("/context", llm=LlamaCpp()).notes


def test_compact_replaces_the_oldest_messages_by_a_summary() -> None:
    llm = ScriptedLLM("One. " * 3000, "Two.", "They counted.", "Three.")
    screen = ScriptedScreen("count", "go on", "/compact", "and now?")
    repl = repl_on(screen, llm)
    assert repl.run() == 0
    assert "The oldest messages are a summary now" in screen.notes
    texts = [message.text for message in llm.requests[-1].messages if message.role != "system"]
    assert texts[0] == "Summary of the conversation so far:\nThey counted."
    assert texts[-1] == "and now?"
    assert not any("One." in text for text in texts)
    assert repl.conversation.title == "count"
    assert find_problems(llm.requests[-1].messages) == []


def test_a_summary_is_no_question() -> None:
    store, llm = MemoryStore(), ScriptedLLM("One. " * 3000, "Two.", "They counted.", "Three.")
    kept = ("count", "go on", "/compact", "/undo")
    screen = chat(*kept, "/undo", "/retry", "/edit", llm=llm, store=store, session="s")
    summarized = "the conversation has only a summary of its messages"
    assert [error.partition(": ")[2] for error in screen.errors] == [summarized] * 3
    chat("and now?", llm=llm, store=store, session="s")
    assert asked(llm)[-1][0] == "Summary of the conversation so far:\nThey counted."
    assert asked(llm)[-1][-1] == "and now?"


def test_half_a_summary_changes_nothing() -> None:
    half: list[Any] = [TextDelta("They were"), Finish("max_tokens")]
    llm = ScriptedLLM("One. " * 3000, "Two.", half, half, "Three.")
    screen = chat("count", "go on", "/compact", "and now?", llm=llm)
    assert "the model wrote no whole summary: it ended with 'max_tokens', twice" in screen.errors[0]
    assert len([message for message in llm.requests[-1].messages if message.role == "user"]) == 3


@pytest.mark.parametrize("error", [RateLimited("slow down"), ZeroDivisionError("slow down")])
def test_a_compaction_that_fails_changes_nothing(error: Exception) -> None:
    llm = ScriptedLLM("One. " * 3000, "Two.", error, "Three.")
    screen = chat("count", "go on", "/compact", "and now?", llm=llm)
    assert "slow down" in screen.errors[0]
    assert len([message for message in llm.requests[-1].messages if message.role == "user"]) == 3


def test_there_is_nothing_to_compact() -> None:
    assert chat("/compact", llm=ScriptedLLM()).errors == ["nothing to compact: the conversation is too short"]


def test_a_compaction_by_the_service_is_shown_and_keeps_the_title() -> None:
    llm = ScriptedLLM("One. " * 3000, "Two.", ContextTooLong("too long"), "They counted.", "Three.")
    screen = ScriptedScreen("count", "go on", "and now?")
    repl = repl_on(screen, llm)
    assert repl.run() == 0
    assert screen.notes.count("The context was too long for the model: the oldest messages are a summary now.") == 1
    assert asked(llm)[-1][0] == "Summary of the conversation so far:\nThey counted."
    assert screen.answer.endswith("Three.")
    assert repl.conversation.title == "count"


def test_a_history_that_is_too_long_for_a_summary_is_shown_to_be_cut() -> None:
    llm = ScriptedLLM("One. " * 3000, "Two.", ContextTooLong("too long"), ContextTooLong("too long"), "Three.")
    screen = chat("count", "go on", "and now?", llm=llm)
    assert "The context was too long for the model: the oldest messages were left out." in screen.notes


def test_another_error_compacts_nothing() -> None:
    llm = ScriptedLLM("One. " * 3000, "Two.", BadRequest("no", status=400), "Three.")
    screen = chat("count", "go on", "and now?", "/retry", llm=llm)
    assert "summary" not in screen.notes
    assert asked(llm)[-1] == ["count", "One. " * 3000, "go on", "Two.", "and now?"]


class FullContext(OpenConversation):
    """A conversation whose context is as full as it is set to, until it is compacted."""

    percents: ClassVar[list[float]] = []

    @property
    def status(self) -> ConversationStatus:
        return replace(super().status, context_percent=self.percents[0], context_window=1000)


def test_a_context_that_is_nearly_full_is_noted_once_and_compacted() -> None:
    percents = FullContext.percents = [10.0]

    def use(percent: float, text: str) -> Callable[[], str]:
        def typed() -> str:
            percents[0] = percent
            return text

        return typed

    llm = ScriptedLLM("One. " * 3000, "Two.", "Three.", "A summary.", "Four.")
    screen = ScriptedScreen(
        "one", use(85, "/help"), "/help", "two", use(101, "/help"), use(94, "three"), use(96, "four")
    )
    repl = Repl(FullContext(ChatSetup(llm), MemoryStore()), screen)
    assert repl.run() == 0
    assert screen.notes.count("The model's context is 85 % full.") == 1
    assert screen.notes.count("The model's context is full, and") == 1
    assert screen.notes.count("nearly full: summarizing") == 1
    assert "A summary." in llm.requests[-1].messages[1].text
    assert llm.requests[-1].messages[-1].text == "four"


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


@pytest.mark.parametrize(
    ("typed", "made"),
    [("fake-1", "openai:fake-1"), ("other", "other"), ("openai:fake-1", "openai:fake-1"), ("quick", "quick")],
)
def test_a_name_that_the_provider_in_use_lists_is_taken_from_it(
    typed: str, made: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[aliases]\nquick = "openai:gpt-5"\n')
    monkeypatch.setenv("TOOLCAST_CONFIG", str(config))
    names: list[str] = []

    def named(name: str) -> FunctionCallingLLM:
        names.append(name)
        return ScriptedLLM()

    with Loopback() as server:
        for _ in range(2):
            body = b'{"data": [{"id": "fake-1"}, {"id": "quick"}]}'
            server.answer(whole(body, 200, "content-type: application/json"))
        openai = llm("openai:m", base_url=f"http://127.0.0.1:{server.port}", api_key="key")
        chat(f"/model {typed}", llm=openai, model=named)
    assert names == [made]


def test_the_name_of_a_model_while_the_provider_does_not_answer() -> None:
    with Loopback() as server:
        server.answer(whole(b"busy", 503))
        gone = llm("openai:m", base_url=f"http://127.0.0.1:{server.port}", api_key="key")
        assert not lists_model(gone, "fake-1")


def test_a_session_has_one_store_through_all_changes() -> None:
    store = MemoryStore()
    llm = ScriptedLLM("Hello.", "Again.", "Fine.")
    chat("Hi", "/mode plan", "Hi again", llm=llm, store=store, session="s")
    chat("How?", llm=llm, store=store, session="s")
    assert asked(llm)[2] == ["Hi", "Hello.", "Hi again", "Again.", "How?"]


def test_tools() -> None:
    screen = chat("/tools", "/mode plan", "/tools", llm=ScriptedLLM(), tools=[weather])
    first, _, last = (note for (note,) in screen.of("note"))
    assert first.splitlines()[1:] == ["  weather  The weather of a city."]
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


def test_a_message_that_failed_can_be_sent_again_later() -> None:
    store = MemoryStore()
    llm = ScriptedLLM("One.", RateLimited("slow down"), "Two.")
    chat("1", "2", llm=llm, store=store, session="s")
    screen = ScriptedScreen("/retry")
    repl = repl_on(screen, llm, store=store, session="s")
    repl.show_resumed_session()
    assert "Not answered, because of an error: 2\n/retry sends it again." in screen.notes
    repl.run()
    assert asked(llm)[-1] == ["1", "One.", "2"]
    assert repl_on(ScriptedScreen(), llm, store=store, session="s").conversation.unanswered is None


def test_a_first_message_that_failed_is_saved() -> None:
    store = MemoryStore()
    screen = chat("Bake", llm=ScriptedLLM(RateLimited("slow down")), store=store, session="s")
    assert "Continue with: toolcast chat --session s" in screen.notes
    with SessionIndex(store) as index:
        assert [entry.title for entry in index.entries()] == ["Bake"]
    screen, llm = ScriptedScreen("/undo"), ScriptedLLM()
    repl = repl_on(screen, llm, store=store, session="s")
    repl.show_resumed_session()
    assert screen.notes.startswith("Resuming session: s.\nNot answered, because of an error: Bake\n")
    repl.run()
    assert store.ids() == []  # nothing is left of it


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not command.argument])
def test_an_argument_that_a_command_does_not_take_is_an_error(name: str) -> None:
    screen = ScriptedScreen("1", f"{name} now")
    repl = repl_on(screen, ScriptedLLM("One."))
    before = len(screen.notes)
    assert repl.run() == 0
    assert screen.of("error") == [(f"{name} takes no argument, got 'now'", f"enter {name} alone; nothing was done")]
    assert len(repl.conversation.engine.history) == 2
    assert screen.notes[before:].startswith("Continue with")


def test_undo_is_saved_at_once() -> None:
    store = MemoryStore()
    left: list[int] = []
    chat("1", "2", "/undo", lambda: left.append(len(fold(store.read("s")).history)), llm=ScriptedLLM("One.", "Two."),
         store=store, session="s")  # fmt: skip
    assert left == [2]


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


def test_details() -> None:
    screen = chat("1", "/details", llm=ScriptedLLM("One."))
    assert screen.of("show_details") == [()]


def test_the_status_has_tokens_cost_and_context() -> None:
    paid = UsageReport(Usage(10, 5).with_cost("0.25"))
    screen = chat("1", "2", llm=ScriptedLLM([paid, Finish("end_turn")], "Two."), mode="plan")
    first, second, third = screen.statuses
    assert (first.mode, first.tokens, first.cost) == ("plan", 0, 0)
    assert (second.tokens, str(second.cost), second.is_least_cost) == (15, "0.25", False)
    assert (third.tokens, str(third.cost), third.is_least_cost) == (30, "0.25", True)


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


def in_folder(screen: ScriptedScreen, llm: ScriptedLLM, folder: Path) -> Repl:
    """A REPL whose working directory is `folder`."""
    setup = ChatSetup(llm, root=str(folder))
    return Repl(OpenConversation(setup, MemoryStore()), screen, models=list)


def test_a_mentioned_file_is_sent_with_the_message(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk", encoding="utf-8")
    llm = ScriptedLLM("Milk.", "Eggs.")
    screen = ScriptedScreen("Read @notes.txt", "/edit", "Read @notes.txt again", "/retry")
    in_folder(screen, llm, tmp_path).run()
    assert screen.prompts[2] == ("edit> ", "Read @notes.txt")
    file = '\n\n<file path="notes.txt">\nmilk\n</file>'
    assert [texts[-1] for texts in asked(llm)[:2]] == [f"Read @notes.txt{file}", f"Read @notes.txt again{file}"]
    assert "@notes.txt: 4 bytes, about 1 tokens" in screen.notes
    assert "Sending again: Read @notes.txt again" in screen.notes


def test_a_refused_file_sends_nothing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1", encoding="utf-8")
    llm = ScriptedLLM("never")
    screen = ScriptedScreen("Read @.env")
    in_folder(screen, llm, tmp_path).run()
    assert "protected" in screen.errors[0]
    assert llm.requests == []


def test_a_pipe_mentions_no_files_and_a_prompt_does(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk", encoding="utf-8")
    llm = ScriptedLLM("a", "b", "c")
    in_folder(ScriptedScreen("Read @notes.txt", interactive=False), llm, tmp_path).run()
    assert asked(llm)[0] == ["Read @notes.txt"]
    in_folder(ScriptedScreen(interactive=False), llm, tmp_path).run("See @notes.txt", "from @notes.txt")
    assert asked(llm)[1][0].startswith("See @notes.txt\n\nfrom @notes.txt\n\n<file")
    in_folder(ScriptedScreen(interactive=False), llm, tmp_path).run("/help", "piped")
    assert asked(llm)[2] == ["/help\n\npiped"]


def test_sessions_are_opened_renamed_and_deleted() -> None:
    store = MemoryStore()
    for id in ("one", "two", "three"):
        chat(f"I am {id}.", llm=ScriptedLLM(f"Hello {id}."), store=store, session=id)
    llm = ScriptedLLM("You are one.")
    screen = chat(
        "/sessions",
        *("rename 1", "A new name", "delete 2", "no", "delete 2", "y", "rename 1", "", "am one", "1"),
        "Who am I?",
        llm=llm,
        store=store,
    )
    assert sorted(store.ids()) == ["one", "three"]
    assert asked(llm) == [["I am one.", "Hello one.", "Who am I?"]]
    assert "Renamed: A new name" in screen.notes
    assert "Deleted: I am two." in screen.notes
    assert "Resuming session one: 2 messages, 1 question, mode build." in screen.notes
    assert "just now" in screen.notes


def test_ctrl_c_at_the_question_deletes_nothing() -> None:
    store = MemoryStore()
    chat("I am one.", llm=ScriptedLLM("Hello."), store=store, session="one")
    chat("/sessions", "delete 1", KeyboardInterrupt(), "", llm=ScriptedLLM(), store=store)
    assert "one" in store.ids()


def test_an_empty_conversation_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert chat("/export", llm=ScriptedLLM()).errors == ["no messages to export: the conversation is empty"]
    assert list(tmp_path.iterdir()) == []


def test_the_open_session_is_renamed_and_not_deleted() -> None:
    store = MemoryStore()
    screen = chat(
        *("Hi", "/rename", "/rename My  name", "/sessions", "delete 1", "rename 1", "Another", "1"),
        llm=ScriptedLLM("Hello."),
        store=store,
        session="s",
    )
    assert screen.errors == [
        "the title is missing: /rename TITLE",
        "this session is open: begin another one with /clear, and delete it then",
    ]
    assert "The title of this session is: My name" in screen.notes
    assert "Renamed: Another" in screen.notes
    assert store.ids() == ["s"]


def test_without_saved_sessions_there_is_nothing_to_choose() -> None:
    assert "No saved sessions were found." in chat("/sessions", llm=ScriptedLLM()).notes
    store = MemoryStore()
    store.append("bad", [{"kind": "nonsense"}])
    screen = chat("/sessions", "1", "/sessions", "", llm=ScriptedLLM(), store=store)
    assert "bad  (damaged, " in screen.notes
    assert "damaged" in screen.errors[0]


def test_a_session_that_has_gone_is_an_error() -> None:
    repl = repl_on(ScriptedScreen(), ScriptedLLM())
    with pytest.raises(ToolcastError, match="no session 'gone'"):
        repl.conversation.resume("gone")


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "just now"), (60, "1 min ago"), (7300, "2 h ago"), (1e8, "1,157 d ago")]
)
def test_times_for_a_person(seconds: float, text: str) -> None:
    assert time_ago(seconds) == text


def test_a_model_is_chosen_from_those_of_the_providers() -> None:
    second = ScriptedLLM("Hello.", model="m-2")
    listed = [
        ProviderModels("openai", ("openai:gpt-5.4",), "no\nanswer"),
        ProviderModels("scripted", ("scripted:scripted", "scripted:m-2")),
    ]
    names: list[str] = []

    def named(name: str) -> FunctionCallingLLM:
        names.append(name)
        return second

    screen = chat("/model", "2", "Hi", llm=ScriptedLLM(), model=named, models=lambda: listed)
    assert names == ["scripted:m-2"]
    assert "openai: no answer" in screen.notes
    assert "1  scripted:scripted  (in use)\n2  scripted:m-2\n3  openai:gpt-5.4" in screen.notes
    assert "The model is m-2 (scripted)." in screen.notes
    screen = chat("/model", "M-2 scr", "", llm=ScriptedLLM(), models=lambda: listed)
    assert "Models\n1  scripted:m-2" in screen.notes
    assert "The model is scripted (scripted)." in screen.notes


class Copies(Clipboard):
    """A clipboard that keeps what it gets."""

    def __init__(self) -> None:
        super().__init__({})
        self.texts: list[str] = []

    def copy(self, text: str) -> str:
        self.texts.append(text)
        return "a test"


def test_the_last_answer_or_a_block_of_it_is_copied() -> None:
    copies = Copies()
    answer = "First:\n```py\na = 1\n```\n~~~~\n```\nb\n~~~~\n"
    screen = chat(*("/copy", "Hi", "/copy", "/copy 2", "/copy 3", "/copy x"), llm=ScriptedLLM(answer), clipboard=copies)
    assert copies.texts == [answer, "```\nb"]
    assert "Copied code block 2 (5 characters) by a test." in screen.notes
    assert screen.errors == [
        "no answer to copy: the conversation has none",
        "no code block '3': the last answer has 1 to 2",
        "no code block 'x': the last answer has 1 to 2",
    ]
    assert chat("Hi", "/copy 1", llm=ScriptedLLM("no code"), clipboard=copies).errors == [
        "no code block '1': the last answer has none"
    ]


@pytest.mark.parametrize(
    ("markdown", "blocks"),
    [
        ("", []),
        ("```\na\n", ["a"]),
        ("   ```\na\n````\nb", ["a"]),
        ("    ```\na", []),
        ("``` `a`\nb", []),
        ("````\n```\n````x\n````", ["```\n````x"]),
    ],
)
def test_code_blocks(markdown: str, blocks: list[str]) -> None:
    assert code_blocks(markdown) == blocks


def test_the_conversation_is_exported_by_the_suffix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.md").write_text("mine", encoding="utf-8")
    screen = chat(
        *("Why is it?", "/export", "/export", "/export a.md", "n", "/export b.html", "/export c.json"),
        *("/export a.md", "y", "/export d.txt", f"/export {tmp_path}/absent/e.md", "/load c.json", "/export x/"),
        llm=ScriptedLLM("So."),
    )
    assert "Exported 2 messages to why-is-it.md." in screen.notes
    assert "Exported 2 messages to why-is-it-2.md." in screen.notes
    assert "Not written." in screen.notes
    assert "Loaded 2 messages from c.json" in screen.notes
    assert "So." in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert (tmp_path / "b.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert screen.errors[0] == "'d.txt': expected a file name that ends in .md, .json or .html"
    assert "No such file or directory; choose another file" in screen.errors[1]


def test_the_mode_is_saved_with_the_session() -> None:
    store = MemoryStore()
    chat("/mode plan", "Hi", llm=ScriptedLLM("Hello."), store=store, session="s")
    repl = repl_on(ScriptedScreen(), ScriptedLLM(), store=store, session="s")
    assert repl.conversation.setup.mode.name == "plan"
    repl.conversation.resume("s")  # the open one: nothing changes
    assert repl.session.id == "s"
    repl.conversation.close()
    repl = repl_on(ScriptedScreen(), ScriptedLLM(), store=store, session="s", mode="auto")
    assert repl.conversation.setup.mode.name == "auto"
