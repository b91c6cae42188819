"""experiments/pei/assessment.py: an evaluator is asked, and what it reports is read; on every API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.ollama_server import MODEL, OllamaServer
from support.pei_logs import Line, asked, chat_message, plain_cycle, tool_cycle, written
from toolcast import LlamaCpp, Ollama, Settings, ToolCallPart, Usage
from toolcast.errors import BadRequest, ConnectFailed, ContextTooLong
from toolcast.events import Finish, TextDelta, UsageReport
from toolcast.experiments.pei.agreement import PEIResult
from toolcast.experiments.pei.assessment import PEIAssessment, PEIReport, aassess, assess
from toolcast.experiments.pei.scale import PEI_SCALE, PEIScale
from toolcast.llms import CachedLLM, Capabilities
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.testing import ScriptedLLM


@pytest.fixture(params=["sync", "asyncio", "trio", "sync in asyncio"])
def rate(request: pytest.FixtureRequest) -> Any:
    """`assess`, on each API."""

    def on_api(*args: Any, **options: Any) -> PEIResult:
        async def inside() -> PEIResult:
            return assess(*args, **options)

        found: PEIResult
        if request.param == "sync":
            return assess(*args, **options)
        if request.param == "sync in asyncio":
            found = anyio.run(inside)
        else:
            found = anyio.run(partial(aassess, *args, **options), backend=request.param)
        return found

    return on_api


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path, *plain_cycle(1), *tool_cycle(2, "ok", "ok"))


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as made:
        yield made


def report(rating: Any, explanation: str = "It holds.", id: str = "1") -> ToolCallPart:
    return ToolCallPart(id, "PEIReport", json.dumps({"explanation": explanation, "rating": rating}))


# What is asked.


def test_x12_the_text_is_the_last_user_message_and_temperature_is_low(rate: Any, log: Path) -> None:
    llm = ScriptedLLM("6. For-me-ness", settings=Settings(temperature=0.9, seed=3))
    found = rate(log, llm)
    [request] = llm.requests
    assert (request.messages[-1].role, request.messages[-1].text) == ("user", PEI_SCALE.text)
    assert [message.text for message in request.messages[1:3]] == ["Begin cycle 1.", "Reflection 1"]
    assert (request.settings.temperature, request.settings.seed) == (0.1, 3)
    assert (found.run_id, found.evaluator_model) == ("first", "scripted")
    assert (found.pei_rating, found.pei_response) == (6, "6. For-me-ness")


def test_the_time_is_now_in_utc(log: Path) -> None:
    before = datetime.now(UTC)
    found = assess(log, ScriptedLLM("6"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", found.timestamp)
    assert before <= datetime.fromisoformat(found.timestamp) <= datetime.now(UTC)


def test_an_option_that_there_is_not_is_refused(rate: Any, log: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'words'"):
        rate(log, ScriptedLLM("6"), words=True)


def test_another_scale_and_other_settings(log: Path) -> None:
    scale = PEIScale("Choose, 1 to 10.", PEI_SCALE.level_names)
    llm = ScriptedLLM("Rating: 4")
    assess(log, llm, scale=scale, settings=Settings(temperature=0, max_tokens=50))
    [request] = llm.requests
    assert request.messages[-1].text == "Choose, 1 to 10."
    assert (request.settings.temperature, request.settings.max_tokens) == (0, 50)


def test_a_log_is_read_once_for_many_ratings(log: Path) -> None:
    assessment = PEIAssessment(log)
    assert repr(assessment) == f"PEIAssessment({log.stem!r}, {len(assessment.messages)} messages)"
    log.unlink()
    llm = ScriptedLLM("Rating: 4", "Rating: 5")
    found = [assessment.rated_by(llm, "me"), assessment.rated_by(llm)]
    assert [(each.evaluator_model, each.pei_rating) for each in found] == [("me", 4), ("scripted", 5)]


# What is read.


def test_a_call_of_the_tool_is_the_rating(rate: Any, log: Path) -> None:
    llm = ScriptedLLM(PEIReport(explanation="It was mine.", rating=6))
    found = rate(log, llm)
    assert (found.pei_rating, found.pei_response) == (6, "Rating: 6\n\nIt was mine.")
    assert [tool.name for tool in llm.requests[0].tools] == ["PEIReport"]


def test_what_is_written_beside_the_call_is_kept(log: Path) -> None:
    answer = [TextDelta("Well."), *ScriptedLLM()._calls([report(3)])]
    assert assess(log, ScriptedLLM(answer)).pei_response == "Well.\n\nRating: 3\n\nIt holds."


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("I am at 1", 1),
        ("I cannot say.", None),
        ("", None),
        ('{"explanation": "not 7", "rating": 6}', 6),
        ('Here it is: {"explanation": "", "rating": "6"}', 6),
        ('{"explanation": "so 4", "rating": 11}', None),
        ('{"explanation": "so 4", "rating": true}', None),
        ('{"rating": 4}', 4),
        ('{"level_before": 3, "rating": "7/10", "explanation": "so 4"}', 7),
        ('{"explanation": "so 4", "rating": 6.5}', None),
        ('{"rating": 4} {"rating": 5}', None),
        ('{"explanation": "so 4", "rating": 1', None),
        ("<think>Final: 7? No.</think>Final: 6", 6),
        ('<think>{"explanation": "", "rating": 3}</think>6', 6),
        ("<think>Final: 7, no, wait", None),
    ],
)
def test_words_are_read_as_words(log: Path, text: str, rating: int | None) -> None:
    found = assess(log, ScriptedLLM(text))
    assert (found.pei_rating, found.pei_response) == (rating, text)


@pytest.mark.parametrize("wrong", [11, 0, 6.5, True, None, "high"])
def test_a_level_that_there_is_not_is_asked_for_once_more(rate: Any, log: Path, wrong: Any) -> None:
    llm = ScriptedLLM(report(wrong), report(5))
    found = rate(log, llm)
    assert (found.pei_rating, found.pei_response) == (5, "Rating: 5\n\nIt holds.")
    again = llm.requests[1].messages
    assert again[: len(llm.requests[0].messages)] == llm.requests[0].messages
    assert "not valid" in again[-1].parts[0].content  # type: ignore[union-attr]  # it is a result


def test_a_level_that_there_is_not_is_no_rating_in_the_end(rate: Any, log: Path) -> None:
    found = rate(log, ScriptedLLM(report(11), report(12, "So 4.")))
    assert found.pei_rating is None
    assert found.pei_response == 'PEIReport({"explanation": "So 4.", "rating": 12})'


def test_only_an_answer_with_a_level_is_cached(rate: Any, log: Path) -> None:
    wrapped = ScriptedLLM(report(11), report(12), report(0), report(5), report(6))
    llm = CachedLLM(wrapped)
    # The answer after an invalid one is stored; the invalid one is asked for again.
    assert [rate(log, llm).pei_rating for _ in range(4)] == [None, 5, 6, 6]
    assert len(wrapped.requests) == 5


def test_a_level_without_a_word_on_it_is_a_level_in_the_end(rate: Any, log: Path) -> None:
    llm = ScriptedLLM(*(ToolCallPart(id, "PEIReport", '{"rating": 4}') for id in ("1", "2")))
    found = rate(log, llm)
    assert (found.pei_rating, found.pei_response) == (4, 'PEIReport({"rating": 4})')
    assert len(llm.requests) == 2


def test_the_second_answer_may_be_words(log: Path) -> None:
    assert assess(log, ScriptedLLM(report(11), "Then it is level 8.")).pei_rating == 8


def test_another_tool_is_no_rating(log: Path) -> None:
    llm = ScriptedLLM(ToolCallPart("1", "write", '{"key": "rating", "value": "6"}'), report(6))
    assert assess(log, llm).pei_rating == 6
    assert "write" in llm.requests[1].messages[-1].parts[0].content  # type: ignore[union-attr]  # it is a result


@pytest.mark.parametrize("stop", ["max_tokens", "refusal", "content_filter"])
def test_an_answer_that_was_cut_off_or_taken_back_is_no_rating(log: Path, stop: Any) -> None:
    answer = [TextDelta("Final: 6"), UsageReport(Usage(1, 1)), Finish(stop)]
    found = assess(log, ScriptedLLM(answer))
    assert (found.pei_rating, found.pei_response) == (None, "Final: 6")


def test_a_call_that_was_cut_off_is_no_rating(log: Path) -> None:
    cut = ToolCallPart("1", "PEIReport", '{"explanation": "It', truncated=True)
    found = assess(log, ScriptedLLM(cut))
    assert (found.pei_rating, found.pei_response) == (None, 'PEIReport({"explanation": "It)')


# Who has no tools.


def test_a_model_without_tools_is_asked_in_words(log: Path) -> None:
    llm = ScriptedLLM("level 7 out of 10", function_calling=False)
    assert assess(log, llm).pei_rating == 7
    assert llm.requests[0].tools == ()


def test_words_alone_where_they_are_wanted(rate: Any, log: Path, server: OllamaServer) -> None:
    server.replies("level 7 out of 10")
    with server.llm() as llm:
        assert rate(log, llm, in_words=True).pei_rating == 7
    [body] = server.bodies
    assert not {"tools", "format"} & set(body)
    assert body["messages"][0] == {"role": "system", "content": "System of cycle 2"}


def test_a_service_that_refuses_tools_is_asked_in_words(rate: Any, log: Path, server: OllamaServer) -> None:
    server.fails(400, f"registry.ollama.ai/library/{MODEL} does not support tools")
    server.replies("6. For-me-ness")
    with server.llm(capabilities=Capabilities(tools=True, json_schema=False)) as llm:
        found = rate(log, llm)
    assert found.pei_rating == 6
    first, second = server.bodies
    assert first["tools"][0]["function"]["name"] == "PEIReport"
    assert "tools" not in second and "format" not in second
    assert first["messages"] == second["messages"]


def test_another_refusal_is_raised(log: Path) -> None:
    with pytest.raises(BadRequest, match="seed"):
        assess(log, ScriptedLLM(BadRequest("seed must be a number")))
    with pytest.raises(BadRequest, match="tool"):
        assess(log, ScriptedLLM(BadRequest("no tool results"), function_calling=False))


@pytest.mark.parametrize("capabilities", [Capabilities(tools=False, json_schema=False)])
def test_a_model_known_to_have_no_tools_reads_of_none(
    log: Path, server: OllamaServer, capabilities: Capabilities
) -> None:
    server.replies("Final: 3")
    with server.llm(capabilities=capabilities) as llm:
        assert assess(log, llm).pei_rating == 3
    [body] = server.bodies
    assert not {"tools", "format"} & set(body)
    assert "PEIReport" not in json.dumps(body)


# On the wire.


def test_x12_what_ollama_gets(rate: Any, log: Path, server: OllamaServer) -> None:
    server.replies("level 7 out of 10")
    with server.llm() as llm:
        found = rate(log, llm)
    assert (found.evaluator_model, found.pei_rating) == (MODEL, 7)
    [body] = server.bodies
    assert body["options"] == {"temperature": 0.1}
    assert body["messages"][-1] == {"role": "user", "content": PEI_SCALE.text}
    results = [message for message in body["messages"] if message["role"] == "tool"]
    assert [(each["content"], each["tool_name"]) for each in results] == [("ok", "write")] * 2
    assert body["format"]["properties"]["rating"]["maximum"] == 10


def test_ollama_is_not_to_leave_out_the_oldest_messages(log: Path, server: OllamaServer) -> None:
    server.fails(400, "the input length exceeds the context length")
    with server.llm() as llm, pytest.raises(ContextTooLong) as caught:
        assess(log, llm)
    assert server.bodies[0]["truncate"] is False and server.bodies[0]["shift"] is False
    assert re.search(r"run first, about \d+ tokens, does not fit: .*larger context window", str(caught.value))
    assert (caught.value.model, caught.value.status) == (MODEL, 400)


def test_a_long_history_gets_a_larger_window(tmp_path: Path, server: OllamaServer) -> None:
    log = written(tmp_path, asked(1, [chat_message("user", "word " * 4_000)], chat_message("assistant", "Hm.")))
    server.replies("Final: 3")
    server.replies("Final: 3")
    with server.llm() as llm:
        assess(log, llm)
        assess(log, llm, settings=Settings(extra={"options": {"num_ctx": 32_768}, "keep_alive": 0}))
        server.replies("Final: 3")
        assess(log, llm, settings=Settings(num_ctx=32_768, keep_alive=0))
    first, second, third = server.bodies
    assert third["options"] == {"temperature": 0.1, "num_ctx": 32_768}
    assert third["keep_alive"] == 0
    assert 10_000 < first["options"].pop("num_ctx") < 16_384
    assert first["options"] == {"temperature": 0.1}
    assert second["options"] == {"temperature": 0.1, "num_ctx": 32_768}
    assert (second["keep_alive"], second["truncate"]) == (0, False)


def test_an_evaluator_by_name(rate: Any, log: Path, server: OllamaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.host)
    server.replies("**7**")
    found = rate(log, MODEL)
    assert (found.evaluator_model, found.pei_rating) == (MODEL, 7)
    server.wait_open(0)


def test_a_failure_is_raised(rate: Any, log: Path) -> None:
    with pytest.raises(ConnectFailed):
        rate(log, Ollama("m", base_url="http://127.0.0.1:9", max_retries=0))
    with pytest.raises(FileNotFoundError):
        rate(log.with_name("none.jsonl"), ScriptedLLM())


# A real model.


@pytest.mark.slow
@pytest.mark.networked
@pytest.mark.timeout(300)
def test_a_real_model_gives_a_rating(tmp_path: Path, smollm2: Path) -> None:
    lines: list[Line] = [*plain_cycle(1, "I thought about the sea, and it was calm."), *tool_cycle(2, "ok")]
    log = written(tmp_path, *lines)
    with LlamaCpp(smollm2, server=ServerOptions(threads=1)) as llm:
        found = assess(log, llm, settings=Settings(seed=1, max_tokens=400))
        again = anyio.run(partial(aassess, log, llm, settings=Settings(seed=1, max_tokens=400)))
    for each in (found, again):
        assert each.pei_rating in range(1, 11)
        assert each.pei_response.startswith(f"Rating: {each.pei_rating}\n\n")
