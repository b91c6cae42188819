"""typed_output.py: the typed result of a turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from support.engines import EngineAPI, call, check, results, valid_requests
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.agents.permissions.rules import Rule
from toolcast.errors import (
    CallError,
    IllegalState,
    OutputTruncated,
    PermissionDenied,
    Refused,
    StreamTruncated,
    TryAgain,
    ValidationError,
)
from toolcast.events import Finish, OutputDelta, TextDelta, ToolCallDelta, ToolCallStart, ToolResult, ToolStarted
from toolcast.messages import TAKEN, user
from toolcast.testing import ScriptedLLM
from toolcast.values.tool_spec import NamedTool


class Album(BaseModel):
    """An album."""

    artist: str
    songs: list[str] = []


class Book(BaseModel):
    """A book."""

    title: str


ALBUM = Album(artist="Nina", songs=["Sinnerman", "Feeling Good"])
WRONG = call("w", "Album", '{"songs": []}')
RIGHT = call("r", "Album", '{"artist": "Nina", "songs": ["Sinnerman"]}')


def look(city: str = "Oslo") -> str:
    """Look at a city."""
    return f"{city} is fine."


def test_a_model(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(ALBUM), [look])
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert text.turn is not None
    assert (text.turn.output, text.turn.end, text.turn.rounds) == (ALBUM, "output", 1)
    assert [one.name for one in llm.requests[0].tools] == ["look", "Album"]
    assert llm.requests[0].tool_choice == "required"
    assert engine.trace[-3:] == ("tool_exec", "complete", "idle")
    (result,) = results(engine.history)
    assert (result.content, result.is_error) == (TAKEN, False)
    assert text.of(ToolStarted) == [] and len(text.of(ToolResult)) == 1
    check(engine)


def test_without_other_tools_the_model_must_give_it(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(ALBUM))
    assert engine_api.submit(engine, "An album.", output_cls=Album).output == ALBUM
    assert llm.requests[0].tool_choice == NamedTool("Album")


def test_it_grows(engine_api: EngineAPI) -> None:
    text = engine_api.stream(Engine(ScriptedLLM(ALBUM)), "An album.", output_cls=Album)
    snapshots = [event.value for event in text.of(OutputDelta)]
    assert len(snapshots) > 3
    assert snapshots[-1].artist == "Nina" and snapshots[-1].songs == ALBUM.songs
    lengths = [len(each.songs or ()) for each in snapshots]
    assert lengths == sorted(lengths)


def test_a_union_is_one_tool_for_each_member(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(Book(title="Emma")))
    assert engine_api.submit(engine, "Something.", output_cls=Album | Book).output == Book(title="Emma")
    assert [one.name for one in llm.requests[0].tools] == ["Album", "Book"]
    assert llm.requests[0].tool_choice == "required"


@pytest.mark.parametrize(
    "output_cls, value",
    [(list[int], [1, 2, 3]), (int, 7), (list[Book], [Book(title="Emma"), Book(title="Persuasion")])],
)
def test_other_types(engine_api: EngineAPI, output_cls: Any, value: Any) -> None:
    engine = Engine(ScriptedLLM(value))
    text = engine_api.stream(engine, "Numbers.", output_cls=output_cls)
    assert text.turn is not None and text.turn.output == value
    assert text.of(OutputDelta)
    check(engine)


def test_a_function_is_run_once_with_what_the_model_gave(engine_api: EngineAPI) -> None:
    ran: list[str] = []

    def rate(title: str, stars: int) -> str:
        """Rate a book."""
        ran.append(title)
        return title + "*" * stars

    engine = Engine(ScriptedLLM(call("c", "rate", '{"title": "Emma", "stars": 3}')))
    assert engine_api.submit(engine, "Rate.", output_cls=rate).output == "Emma***"
    assert ran == ["Emma"]


def test_an_async_function(engine_api: EngineAPI) -> None:
    async def rate(title: str) -> str:
        """Rate a book."""
        return title.upper()

    engine = Engine(ScriptedLLM(call("c", "rate", '{"title": "Emma"}')))
    assert engine_api.submit(engine, "Rate.", output_cls=rate).output == "EMMA"


def test_an_error_of_a_function_reaches_the_model_and_then_the_caller(engine_api: EngineAPI) -> None:
    def rate(title: str) -> str:
        """Rate a book."""
        raise LookupError(title)

    calls = [call(id, "rate", '{"title": "Emma"}') for id in ("a", "b")]
    engine = Engine(llm := ScriptedLLM(*calls), max_attempts=2)
    with pytest.raises(LookupError):
        engine_api.submit(engine, "Rate.", output_cls=rate)
    assert [one.content for one in results(engine.history)] == ["LookupError: Emma"] * 2
    assert (len(llm.requests), engine.trace[-3:]) == (2, ("tool_exec", "error", "idle"))
    check(engine)


def test_a_function_may_have_the_model_asked_again(engine_api: EngineAPI) -> None:
    def rate(stars: int) -> int:
        """Rate a book."""
        if stars > 5:
            raise TryAgain("at most 5 stars")
        return stars

    first = call("a", "rate", '{"stars": 9}')
    engine = Engine(ScriptedLLM(first, call("b", "rate", '{"stars": 4}')))
    turn = engine_api.submit(engine, "Rate.", output_cls=rate)
    assert (turn.output, turn.rounds) == (4, 2)
    assert [one.content for one in results(engine.history)] == ["at most 5 stars", "4"]
    check(engine)
    engine = Engine(ScriptedLLM(first), max_attempts=1)
    with pytest.raises(ValidationError, match="at most 5 stars") as caught:
        engine_api.submit(engine, "Rate.", output_cls=rate)
    assert isinstance(caught.value.__cause__, TryAgain)
    check(engine)


def test_a_function_is_not_run_on_mere_text(engine_api: EngineAPI) -> None:
    """A text is no tool call, so that there is nothing to approve."""
    ran: list[int] = []

    def rate(stars: int) -> int:
        """Rate a book."""
        ran.append(stars)
        return stars

    engine = Engine(llm := ScriptedLLM('{"stars": 3}', call("b", "rate", '{"stars": 4}')))
    assert engine_api.submit(engine, "Rate.", output_cls=rate).output == 4
    assert ran == [4] and "call the tool for the answer" in llm.requests[1].messages[-1].text


def test_of_two_calls_of_a_function_the_first_counts(engine_api: EngineAPI) -> None:
    def rate(stars: int) -> int:
        """Rate a book."""
        return stars

    engine = Engine(ScriptedLLM([call("a", "rate", '{"stars": 3}'), call("b", "rate", '{"stars": 4}')]))
    assert engine_api.submit(engine, "Rate.", output_cls=rate).output == 3
    assert [one.is_error for one in results(engine.history)] == [False, True]


@pytest.mark.parametrize("permissions", [Permissions("deny"), Permissions(rules=[Rule("write", "deny")])])
def test_a_function_needs_permission_like_any_tool(engine_api: EngineAPI, permissions: Permissions) -> None:
    ran: list[str] = []

    def write(path: str) -> str:
        """Write a file."""
        ran.append(path)
        return path

    engine = Engine(ScriptedLLM(call("a", "write", '{"path": ".env"}')), permissions=permissions, max_attempts=1)
    with pytest.raises(PermissionDenied):
        engine_api.submit(engine, "Write.", output_cls=write)
    engine = Engine(ScriptedLLM(call("a", "write", '{"path": ".env"}')), max_attempts=1)
    with pytest.raises(PermissionDenied, match="protected"):
        engine_api.submit(engine, "Write.", output_cls=write)
    assert ran == []


def test_a_wrong_one_is_asked_for_again(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(WRONG, RIGHT))
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert text.turn is not None
    assert (text.turn.output, text.turn.rounds) == (Album(artist="Nina", songs=["Sinnerman"]), 2)
    first, second = results(engine.history)
    assert first.is_error and "artist" in first.content and not second.is_error
    assert results(llm.requests[1].messages) == [first]
    check(engine)


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_wrong_as_often_as_it_may_be_is_an_error(engine_api: EngineAPI, attempts: int) -> None:
    engine = Engine(llm := ScriptedLLM(*[WRONG] * 9), max_attempts=attempts)
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert isinstance(text.error, ValidationError) and text.error.response is not None
    assert text.error.errors()[0]["loc"] == ("artist",)
    assert len(llm.requests) == attempts
    assert engine.trace[-2:] == ("error", "idle")
    check(engine)


def test_arguments_that_cannot_be_read_leave_a_valid_history(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(call("a", "Album", "oops"), RIGHT))
    assert engine_api.submit(engine, "An album.", output_cls=Album).output.artist == "Nina"
    list(valid_requests(llm.requests))
    check(engine)


def test_arguments_that_are_read_leniently_are_kept_as_valid_json(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "Album", "```json\n{'artist': 'Nina',}\n```")))
    assert engine_api.submit(engine, "An album.", output_cls=Album).output == Album(artist="Nina")
    assert json.loads(engine.history[1].tool_calls[0].arguments)["artist"] == "Nina"
    check(engine)


def test_an_answer_in_words_is_asked_for_again(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM("I like Nina.", RIGHT))
    turn = engine_api.submit(engine, "An album.", output_cls=Album)
    assert turn.output.artist == "Nina"
    assert (
        llm.requests[1].messages[-1].role == "user"
        and "call the tool for the answer" in llm.requests[1].messages[-1].text
    )
    assert engine.trace[2:5] == ("accumulating", "streaming", "accumulating")
    check(engine)


def test_an_answer_in_words_too_often_is_an_error(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(*["Nina."] * 9), max_attempts=2)
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert type(text.error).__name__ == "NoToolCallError" and len(llm.requests) == 2
    check(engine)


@pytest.mark.parametrize("function_calling", [True, False])
def test_the_object_as_text_is_taken(engine_api: EngineAPI, function_calling: bool) -> None:
    text = f"Here it is: {ALBUM.model_dump_json()}"
    engine = Engine(llm := ScriptedLLM(text, function_calling=function_calling), [look])
    turn = engine_api.submit(engine, "An album.", output_cls=Album)
    assert (turn.output, turn.end) == (ALBUM, "output")
    if not function_calling:
        assert [one.name for one in llm.requests[0].tools] in ([], ["Album"])
    check(engine)


def test_together_with_other_tools_in_one_answer(engine_api: EngineAPI) -> None:
    calls = [call("a", "look", '{"city": "Oslo"}'), RIGHT, call("b", "look", '{"city": "Rome"}')]
    engine = Engine(llm := ScriptedLLM(calls), [look])
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert text.turn is not None and text.turn.output.artist == "Nina"
    assert [one.content for one in results(engine.history)] == ["Oslo is fine.", TAKEN, "Rome is fine."]
    assert [event.call_id for event in text.of(ToolStarted)] == ["a", "b"]
    assert len(llm.requests) == 1
    check(engine)


def test_other_tools_first_then_the_result(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "look"), RIGHT), [look])
    turn = engine_api.submit(engine, "An album.", output_cls=Album)
    assert (turn.rounds, turn.output.artist) == (2, "Nina")


def test_the_first_of_several_results_counts(engine_api: EngineAPI) -> None:
    calls = [WRONG, RIGHT, call("l", "Album", '{"artist": "Late"}')]
    engine = Engine(ScriptedLLM(calls))
    assert engine_api.submit(engine, "An album.", output_cls=Album).output.artist == "Nina"
    assert [one.is_error for one in results(engine.history)] == [True, False, True]
    check(engine)


def test_a_validator_may_have_the_model_asked_again(engine_api: EngineAPI) -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def is_even(cls, number: int) -> int:
            if number % 2:
                raise TryAgain("even numbers only")
            return number

    engine = Engine(ScriptedLLM(call("a", "Even", '{"number": 3}'), call("b", "Even", '{"number": 4}')))
    assert engine_api.submit(engine, "A number.", output_cls=Even).output.number == 4
    assert "even numbers only" in results(engine.history)[0].content
    engine = Engine(ScriptedLLM(call("a", "Even", '{"number": 3}')), max_attempts=1)
    with pytest.raises(ValidationError, match="even numbers only") as caught:
        engine_api.submit(engine, "A number.", output_cls=Even)
    assert isinstance(caught.value.__cause__, TryAgain)
    check(engine)


def test_the_model_reads_what_it_wrote_in_place_of_an_object(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM(call("a", "Album", "Nina Simone"), RIGHT), [look])
    engine_api.submit(engine, "An album.", output_cls=Album)
    assert results(engine.history)[0].content.endswith("\nYou wrote: 'Nina Simone'")
    check(engine)


def test_the_partial_result_of_a_turn_that_failed(engine_api: EngineAPI) -> None:
    start = [ToolCallStart("a", "Album"), ToolCallDelta("a", '{"artist": "Nina", "so')]
    wrong = call("a", "Album", '{"artist": "Nina", "songs": 7}')
    for answers, options in ((start,), {}), ((wrong,), {"max_attempts": 1}):
        engine = Engine(ScriptedLLM(*answers), **options)  # type: ignore[arg-type]  # one option or none
        with pytest.raises(CallError) as caught:
            engine_api.submit(engine, "An album.", output_cls=Album)
        assert caught.value.partial.artist == "Nina"
    with pytest.raises(StreamTruncated) as cut:
        engine_api.submit(Engine(ScriptedLLM([TextDelta("The album")])), "An album?")
    assert cut.value.partial == "The album"


def test_an_answer_that_was_cut_off_is_an_error(engine_api: EngineAPI) -> None:
    cut = call("a", "Album", '{"artist": "Ni', truncated=True)
    engine = Engine(ScriptedLLM(cut), [look])
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert isinstance(text.error, OutputTruncated)
    check(engine)


def test_a_refusal_is_an_error(engine_api: EngineAPI) -> None:
    engine = Engine(ScriptedLLM([TextDelta("No."), Finish("refusal")]))
    text = engine_api.stream(engine, "An album.", output_cls=Album)
    assert isinstance(text.error, Refused)
    check(engine)


def test_a_turn_with_a_result_can_wait_for_an_approval(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM([call("a", "look"), RIGHT]), [look], permissions=Permissions(approve="later"))
    turn = engine_api.submit(engine, "An album.", output_cls=Album)
    assert (turn.end, turn.typed_output) == ("approval", None)
    with pytest.raises(IllegalState, match="waits for the approval of look") as caught:
        turn.output.title  # noqa: B018  # reading it raises
    assert caught.value.state == "approval"
    other = engine_api.submit(engine, output_cls=Album, answers=[turn.pending[0].allow()])
    assert other.output.artist == "Nina" and len(llm.requests) == 1
    assert [one.is_error for one in results(engine.history)] == [False, False]
    check(engine)


def test_the_next_turn_needs_no_result(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(ALBUM, "Fine."))
    engine_api.submit(engine, "An album.", output_cls=Album)
    turn = engine_api.submit(engine, "Thanks.")
    assert (turn.output, turn.text) == (None, "Fine.")
    assert llm.requests[1].tools == () and llm.requests[1].messages[-1] == user("Thanks.")


def test_in_the_last_round_only_the_result_is_offered(engine_api: EngineAPI) -> None:
    engine = Engine(llm := ScriptedLLM(call("a", "look"), ALBUM), [look], max_rounds=2)
    assert engine_api.submit(engine, "An album.", output_cls=Album).output == ALBUM
    assert [[tool.name for tool in asked.tools] for asked in llm.requests] == [["look", "Album"], ["Album"]]
    assert llm.requests[1].tool_choice == NamedTool("Album")
