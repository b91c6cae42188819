"""GuidedLlamaCpp: which tool a question needs is asked first; the answer is held to it, and ends where it repeats."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from support.chunks import delta, sse, text_body
from support.local_server import Local
from support.sync_and_async import API
from toolcast import Message, assistant, system, tool_result, user
from toolcast.async_support import sync_driver
from toolcast.errors import ConnectFailed, ServerError
from toolcast.events import Finish
from toolcast.llms.client import client_of
from toolcast.llms.local.guided import GuidedLlamaCpp
from toolcast.llms.local.repetition import REPETITION
from toolcast.messages import ToolCallPart
from toolcast.providers.base import RequestInput
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.tools.callable_tool import as_tools

JSON = {"content-type": "application/json"}
OBEYS = Recorded([json.dumps({"choices": [{"text": "{"}]}).encode()], headers=JSON)
CALL = ToolCallPart("call_1", "weather", '{"city": "Oslo"}')


def weather(city: str) -> str:
    """The weather
    of a city."""
    return f"{city}: sunny"


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


TOOLS = as_tools((weather, multiply))


@pytest.fixture(autouse=True)
def local(monkeypatch: pytest.MonkeyPatch) -> Local:
    return Local.used_by(monkeypatch)


def answered(text: str) -> Recorded:
    return Recorded([text_body(text)], headers=JSON)


def asked(network: ReplayNetwork) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in network.requests]


def test_a_question_for_a_tool_becomes_a_call_of_it(api: API) -> None:
    network = ReplayNetwork(answered('{"tool": "weather"}'), OBEYS, answered('{"city": "Oslo"}'))
    conversation = [system("Be brief."), user("How is Oslo?")]
    answer = api.chat(GuidedLlamaCpp(network=network), conversation, tools=TOOLS, tool_choice="auto")
    (call,) = answer.message.tool_calls
    assert (call.name, call.arguments) == ("weather", '{"city": "Oslo"}')
    choice, _, request = asked(network)
    rules = (
        "Choose the tool for each request, or none.\nweather: The weather of a city.\nmultiply: Multiply two numbers."
    )
    assert [(message["role"], message["content"]) for message in choice["messages"]] == [
        ("system", rules),
        ("user", "What is the largest ocean?"),
        ("assistant", '{"tool": "none"}'),
        ("user", "Thanks!"),
        ("assistant", '{"tool": "none"}'),
        ("user", "Hi!"),
        ("assistant", '{"tool": "none"}'),
        ("user", "The weather of a city."),
        ("assistant", '{"tool": "weather"}'),
        ("user", "Multiply two numbers."),
        ("assistant", '{"tool": "multiply"}'),
        ("user", "How is Oslo?"),
    ]
    assert '"enum": ["none", "weather", "multiply"]' in choice["grammar"]
    assert choice["temperature"] == 0
    assert "Answer with JSON with the fields: city." in request["messages"][0]["content"]
    assert network.open_replies == 0


@pytest.mark.parametrize("choice", ['{"tool": "none"}', '{"tool": "fly"}', "[]", "no JSON"])
def test_any_other_question_is_answered_without_tools(api: API, choice: str) -> None:
    network = ReplayNetwork(answered(choice), answered("Hello."))
    assert api.chat(GuidedLlamaCpp(network=network), "Hi", tools=TOOLS).text == "Hello."
    assert "grammar" not in asked(network)[1]
    assert "weather" not in str(network.requests[1].body)


def test_after_a_result_it_answers_in_words(api: API) -> None:
    network = ReplayNetwork(answered("It is sunny."))
    conversation: list[Message] = [user("How is Oslo?"), assistant(CALL), tool_result(CALL, "Oslo: sunny")]
    assert api.chat(GuidedLlamaCpp(network=network), conversation, tools=TOOLS).text == "It is sunny."
    (request,) = asked(network)
    assert "grammar" not in request
    assert "Oslo: sunny" in request["messages"][-1]["content"]


def test_a_choice_that_was_made_is_kept(api: API) -> None:
    network = ReplayNetwork(OBEYS, answered('{"calls": [{"a": 2, "b": 3}]}'))
    answer = api.chat(GuidedLlamaCpp(network=network), "2 times 3", tools=TOOLS, tool_choice="multiply")
    assert [call.name for call in answer.message.tool_calls] == ["multiply"]


def test_without_tools_there_is_nothing_to_choose(api: API) -> None:
    network = ReplayNetwork(answered("Hello."))
    assert api.chat(GuidedLlamaCpp(network=network), "Hi").text == "Hello."


def test_the_tokens_of_the_request_that_it_would_send_are_counted() -> None:
    def data(value: object) -> Recorded:
        return Recorded([json.dumps(value).encode()], headers=JSON)

    network = ReplayNetwork(answered('{"tool": "weather"}'), OBEYS, data({"prompt": "Hi"}), data({"tokens": [1, 2]}))
    count = GuidedLlamaCpp(network=network).count_tokens("How is Oslo?", tools=TOOLS)
    assert (count.tokens, count.estimated) == (2, False)
    template = json.loads(network.requests[2].body)
    assert "weather" in str(template) and "multiply" not in str(template)


def test_a_long_question_is_chosen_for_by_its_beginning(api: API) -> None:
    network = ReplayNetwork(answered('{"tool": "none"}'), answered("Hello."))
    api.chat(GuidedLlamaCpp(network=network), "word " * 1_000, tools=TOOLS)
    choice, request = asked(network)
    assert len(choice["messages"][-1]["content"]) == 500
    assert len(request["messages"][-1]["content"]) == 5_000


def test_an_answer_that_repeats_itself_is_ended(api: API) -> None:
    piece = "The weather is influenced by the Arctic. "
    body = sse(*(delta(content=piece) for _ in range(100)), delta("stop"))
    network = ReplayNetwork(Recorded(body))
    with GuidedLlamaCpp(network=network) as llm:
        *pieces, end = api.events(llm, "Hi")
    assert end == Finish("other", raw=REPETITION)
    assert len(pieces) < 10
    assert network.open_replies == 0


def test_an_error_of_the_server_is_that_of_the_answer(api: API) -> None:
    failed = Recorded([b'{"error": {"message": "out of order"}}'], status=500, headers=JSON)
    network = ReplayNetwork(failed, failed)
    with pytest.raises(ServerError, match="out of order"):
        api.chat(GuidedLlamaCpp(network=network, max_retries=0), "Hi", tools=TOOLS)


def test_errors_of_the_connection_name_the_provider(api: API) -> None:
    network = ReplayNetwork(answered('{"tool": "none"}'), ConnectFailed("refused"))
    with pytest.raises(ConnectFailed) as caught:
        api.chat(GuidedLlamaCpp(network=network, max_retries=0), "Hi", tools=TOOLS)
    assert caught.value.provider == "llama.cpp"


def test_its_adapter_has_the_address_of_the_server() -> None:
    llm = GuidedLlamaCpp(network=ReplayNetwork())
    adapter = sync_driver.run(
        llm.prepare(RequestInput("smollm2", (user("Hi"),), stream=False), client_of(llm).sync_backend())
    )
    assert adapter.base_url.startswith("http://127.0.0.1:9001/v1")


def test_it_can_be_pickled() -> None:
    made = pickle.loads(pickle.dumps(GuidedLlamaCpp()))
    assert repr(made) == "GuidedLlamaCpp('smollm2')"
