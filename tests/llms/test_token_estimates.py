"""Estimates of tokens: by script, for every part of a message, and for tools."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from hypothesis import given, strategies as st
from tokenizers import Tokenizer

import toolcast
from toolcast import Engine, LlamaCpp, LLMError, OpenAI, OpenAIResponses, Settings
from toolcast.agents import Compaction
from toolcast.errors import BadRequest, ContextTooLong
from toolcast.llms import Capabilities, LLMMetadata
from toolcast.llms.local.llama_server import ServerOptions
from toolcast.llms.token_estimates import (
    check_context,
    estimate_input_tokens,
    estimate_message_tokens,
    estimate_text_tokens,
    least_text_tokens,
)
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VideoPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.values.http_request import HTTPRequest
from toolcast.values.tool_spec import ToolSpec


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10, 13),
        ("Быстрая коричневая лиса перепрыгивает собаку", 15, 25),
        ("敏捷的棕色狐狸跳过了懒狗", 9, 15),
        ("👍🏽🎉🚀", 6, 12),
        ("", 0, 0),
    ],
)
def test_texts_by_script(text: str, low: int, high: int) -> None:
    assert low <= estimate_text_tokens(text) <= high


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_an_estimate_is_the_sum_over_its_characters(one: str, other: str) -> None:
    whole = estimate_text_tokens(one) + estimate_text_tokens(other)
    assert estimate_text_tokens(one + other) == pytest.approx(whole)
    assert whole == pytest.approx(sum(map(estimate_text_tokens, one + other)))


@pytest.mark.parametrize(
    ("part", "low", "high"),
    [
        (TextPart("word " * 100), 100, 160),
        (ThinkingPart("word " * 100), 100, 160),
        (ToolCallPart("1", "get_weather", '{"city": "Rome"}'), 5, 12),
        (ToolResultPart("1", "sunny"), 1, 3),
        (ToolResultPart("1", "sunny", images=(ImagePart("https://x/y.png"),)), 900, 1_200),
        (ImagePart(data=b"x" * 500_000, media_type="image/png"), 900, 1_200),
        (AudioPart(data=b"x" * 160_000, media_type="audio/mp3"), 300, 340),
        (DocumentPart(data=b"x" * 100_000, media_type="application/pdf"), 1_900, 2_100),
        (DocumentPart("https://x/y.pdf"), 1_900, 2_100),
        (VideoPart(data=b"x" * 2_500_000, media_type="video/mp4"), 3_000, 3_300),
        (VideoPart("https://youtu.be/1"), 1_900, 2_100),
        (FileRef("openai", "file-1"), 1_900, 2_100),
        (FileRef("openai", "file-1", media_type="application/pdf", size=100_000), 1_900, 2_100),
        (FileRef("google", "files/1", media_type="audio/mp3", size=160_000), 300, 340),
        (FileRef("anthropic", "file-1", media_type="image/png", size=500_000), 900, 1_200),
        (ServerToolPart("web_search", raw={"type": "server_tool_use", "input": {"query": "rivers"}}), 10, 25),
        (ServerToolPart("web_search"), 0, 0),
    ],
)
def test_each_kind_of_part(part: Part, low: int, high: int) -> None:
    assert low <= estimate_input_tokens([Message("user", (part,))]) - estimate_input_tokens([user("")]) <= high


def test_tools_count_with_their_schemas() -> None:
    small, large = (
        ToolSpec("get", "Get it.", {"type": "object", "properties": {f"field_{n}": {} for n in range(count)}})
        for count in (1, 50)
    )
    assert estimate_input_tokens([], []) == 1
    assert 10 < estimate_input_tokens([], [small]) < estimate_input_tokens([], [large]) - 150


# -- the lower bound, and the check of the context window


@cache
def tokenizer() -> Any:
    """Return the tokenizer of Llama 2, which wordllama contains."""
    folder = Path(find_spec("wordllama").origin).parent  # type: ignore[union-attr, arg-type]  # it is installed
    return Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))


def real_tokens(text: str) -> int:
    return len(tokenizer().encode(text, add_special_tokens=False).ids)


def test_a_lower_bound_is_not_far_from_prose() -> None:
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "many-inputs.md").read_text(encoding="utf-8")
    assert real_tokens(text) / 3 < least_text_tokens(text) <= real_tokens(text)


@pytest.mark.parametrize("page", sorted((Path(__file__).parents[2] / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_no_page_has_fewer_tokens_than_the_lower_bound(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert least_text_tokens(text) <= real_tokens(text)


WORDS = st.sampled_from(
    [
        *("internationalization", "the", "a", "12", "v2", "==", "==" * 40, "{", '":"', "café", "नमस्ते", "กำลัง"),
        *(
            "敏捷的棕色狐狸",
            "コンピューター",
            "한국어",
            "🎉",
            " ",
            "\n",
            "\t",
            " " * 80,
            "\u3000",
            "\u00a0",
            "_",
            "-" * 70,
            "0" * 50,
        ),
    ]
)


@given(st.lists(WORDS | st.text(st.characters(codec="utf-8"), max_size=12), max_size=30), st.sampled_from(["", " "]))
def test_the_lower_bound_is_one(parts: list[str], between: str) -> None:
    text = between.join(parts).encode(errors="replace").decode()
    assert least_text_tokens(text) <= real_tokens(text)


@given(st.text(st.characters(codec=None), max_size=60), st.text(st.characters(codec=None), max_size=60))
def test_more_text_has_no_fewer_tokens_and_two_texts_no_more_than_apart(one: str, other: str) -> None:
    least = least_text_tokens(one)
    assert least <= least_text_tokens(one + other) + 1  # the last word of one may be a part of the next
    assert least_text_tokens(f"{one} {other}") <= least + least_text_tokens(other) + 1
    assert least <= max(len(one), 1)


LONG = "word " * 2_000
TOOL = ToolSpec("search", "Search. " * 1_000, {"type": "object"})


def test_what_certainly_does_not_fit_is_refused_with_what_is_largest() -> None:
    messages = [system("Be terse."), user(LONG), assistant(ToolCallPart("1", "search", '{"q": "x"}')), user("And?")]
    with pytest.raises(ContextTooLong) as raised:
        check_context(messages, [TOOL], LLMMetadata("a-model", context_window=2_000), Settings())
    assert raised.value.largest == (
        ("messages[1] (user)", estimate_message_tokens(user(LONG))),
        ("tool search", 2_167),
        ("messages[2] (assistant)", 9),
    )
    assert str(raised.value).startswith(
        "the messages have at least 3,005 tokens, and the context window of a-model 2,000: nothing was sent. "
        "The largest: messages[1] (user) with about 2,704 tokens, tool search with about 2,167 tokens"
    )
    assert "Settings(check_context=False)" in str(raised.value)
    assert not raised.value.retryable


@pytest.mark.parametrize(
    ("message", "window", "fits"),
    [
        (user("a " * 1_300), 1_000, True),  # the margin
        (user("a " * 1_301), 1_000, False),
        (tool_result("1", "a " * 1_301), 1_000, False),
        (assistant(ToolCallPart("1", "f", "a " * 1_301)), 1_000, False),
        (assistant(ThinkingPart("a " * 5_000)), 1_000, True),
        (user(ImagePart(data=b"x" * 50_000, media_type="image/png")), 100, True),
        (user("x" * 100_000), 1_000, True),  # one word
        (user(" " * 100_000), 1_000, True),
        (user("狐狸" * 5_204), 1_000, False),
        (user("狐狸" * 5_200), 1_000, True),
        (user("प्रधानमंत्री " * 1_300), 1_000, True),
        (user("\U00020000" * 50_000), 1_000, True),
    ],
)
def test_the_check_of_one_message(message: Message, window: int, fits: bool) -> None:
    if fits:
        check_context([message], [], LLMMetadata("m", context_window=window), Settings())
    else:
        with pytest.raises(ContextTooLong):
            check_context([message], [], LLMMetadata("m", context_window=window), Settings())


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=80).map(lambda text: text * 7), max_size=6))
def test_nothing_that_fits_is_refused(texts: list[str]) -> None:
    """Not even with a window of the tokens of one real tokenizer alone, which has no tokens around a message."""
    messages = [user(text) for text in texts]
    window = sum(map(real_tokens, texts))
    check_context(messages, [], LLMMetadata("m", context_window=max(window, 1)), Settings())


# -- on the way to a service


class Unsent:
    """A network that notes what reaches it, and refuses it."""

    def __init__(self) -> None:
        self.requests: list[HTTPRequest] = []

    def open(self, request: HTTPRequest, **limits: Any) -> Any:
        self.requests.append(request)
        raise BadRequest("it was sent")

    async def aopen(self, request: HTTPRequest, **limits: Any) -> Any:
        return self.open(request)

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


SMALL = Capabilities(context_window=1_000)


@pytest.mark.parametrize("backend", [None, "asyncio", "trio"])
@pytest.mark.parametrize(
    ("options", "settings", "error"),
    [
        ({}, None, ContextTooLong),
        ({}, Settings(extra={"user": "me"}), ContextTooLong),
        ({}, Settings(check_context=False), BadRequest),
        ({"settings": Settings(check_context=False)}, None, BadRequest),
        ({"settings": Settings(check_context=False)}, Settings(check_context=True), ContextTooLong),
        ({}, Settings(extra={"truncation": "auto"}), BadRequest),
        ({}, Settings(extra={"betas": ["context-1m"]}), BadRequest),
        ({"capabilities": None}, None, BadRequest),
    ],
)
def test_a_call_that_cannot_fit_sends_nothing(
    backend: str | None, options: dict[str, Any], settings: Settings | None, error: type[Exception]
) -> None:
    network = Unsent()
    given: dict[str, Any] = {"capabilities": SMALL, "api_key": "any", "network": network, **options}
    llm = OpenAIResponses("a-model", **given)
    with pytest.raises(error) as raised:
        if backend is None:
            llm.chat(LONG, settings=settings)
        else:
            anyio.run(lambda: llm.achat(LONG, settings=settings), backend=backend)
    assert bool(network.requests) == (error is BadRequest)
    assert isinstance(raised.value, LLMError)
    assert (raised.value.provider, raised.value.model) == ("openai", "a-model")
    assert len(raised.value.attempts) == 1


def test_a_stream_is_checked_too() -> None:
    llm = OpenAI("a-model", api="chat", capabilities=SMALL, api_key="any", network=Unsent())  # type: ignore[arg-type]  # a network of the test's own
    with pytest.raises(ContextTooLong):
        list(llm.stream_chat(LONG))


def test_the_beta_header_of_anthropic_enlarges_its_window() -> None:
    def window(**headers: str) -> Any:
        metadata = toolcast.llm("anthropic:claude-sonnet-4-5", api_key="any", headers=headers).metadata
        assert metadata.context_window == metadata.capabilities.context_window
        return metadata.context_window

    assert window() == window(**{"anthropic-beta": "files-api-2025-04-14"}) == 200_000
    assert window(**{"Anthropic-Beta": "files-api-2025-04-14,context-1m-2025-08-07"}) == 1_000_000


def test_an_engine_compacts_what_would_not_fit() -> None:
    """The check is an error of the call, so that the turn goes on with a shorter history."""
    replies = {"choices": [{"message": {"role": "assistant", "content": "Fine."}, "finish_reason": "stop"}]}

    class Answering(Unsent):
        def open(self, request: HTTPRequest, **limits: Any) -> Any:
            self.requests.append(request)
            return BufferedReply(json.dumps(replies).encode())

    network = Answering()
    llm = OpenAI("a-model", api="chat", capabilities=SMALL, api_key="any", network=network)  # type: ignore[arg-type]  # as above
    history = [user(LONG), assistant("Hm."), user("Next?"), assistant("Yes.")]
    turn = Engine(llm, history=history, compaction=Compaction(keep=100)).submit("And now?")
    assert turn.text == "Fine."
    [request] = network.requests
    assert b"word word" not in request.body


class BufferedReply:
    """A whole response."""

    status = 200
    headers: ClassVar[dict[str, str]] = {"content-type": "application/json"}

    def __init__(self, body: bytes) -> None:
        self._chunks = [b"", body]

    def read(self, limit: float | None = None) -> bytes:
        return self._chunks.pop()

    def close(self) -> None: ...


@pytest.mark.networked
def test_a_real_model_has_at_least_so_many_tokens(smollm2: Path) -> None:
    """SmolLM2's tokenizer is a byte-level BPE, that of Llama 2 a SentencePiece one."""
    llm = LlamaCpp(str(smollm2), server=ServerOptions(threads=1))
    for page in sorted((Path(__file__).parents[2] / "docs" / "how-to").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        counted = llm.count_tokens(text).tokens
        assert least_text_tokens(text) <= counted
        assert counted / 2 < llm.count_tokens(text, method="estimate").tokens < 2 * counted
