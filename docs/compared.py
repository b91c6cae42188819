"""Writes the table of what users expect beside the tool call, for toolcast, pydantic-ai and LiteLLM.

The column of toolcast is tried on the code; features.py writes the table on its page. The other columns are from the
packages: each cell names the class, field or parameter that it is from. `python docs/compared.py`, where both packages
are installed, fails if one of these names is not there.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias

import toolcast
from toolcast import AnthropicVertex, Bedrock, Google, OpenAIResponses, RemoteMCP, ServerTool, Settings, Usage
from toolcast.events import ChatResponse, Event
from toolcast.llms.client import client_of
from toolcast.llms.http_llm import ServiceLLM
from toolcast.providers.base import RequestInput
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.values.server_tools import waits_for_approval

PEERS = {"pydantic-ai": "2.62.0", "LiteLLM": "1.83.0"}
"""The versions that were looked up."""

Has: TypeAlias = Literal["yes", "partly", "no"]


class Peer(NamedTuple):
    """A cell: whether the package has it, the names that show it, and a note."""

    has: Has
    names: tuple[str, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        """The cell."""
        shown = ", ".join(f"`{name.rpartition(':')[2]}`" for name in self.names)
        return "; ".join(each for each in (f"{self.has}: {shown}" if shown else self.has, self.note) if each)


class Row(NamedTuple):
    """One feature. `check` tries whether an LLM has it; without an argument, whether toolcast has it at all."""

    feature: str
    api: str
    check: Callable[[ServiceLLM], object] | Callable[[], object]
    pydantic_ai: Peer
    litellm: Peer


# -- checks


def _decoded(llm: ServiceLLM, body: object, **options: Any) -> ChatResponse:
    """Return the response that an LLM reads from a body."""
    from toolcast.values.accumulator import Accumulator

    decoder = llm.adapter.decoder(RequestInput(llm.model, (), stream=False, **options))
    accumulator = Accumulator()
    events: list[Event] = [*decoder.feed(json.dumps(body).encode()), *decoder.close()]
    for event in events:
        accumulator.apply(event)
    return accumulator.response()


def _sets(**settings: Any) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether settings are sent: not refused, and not left out."""

    def sets(llm: ServiceLLM) -> bool:
        body = llm.adapter.request(RequestInput(llm.model, (toolcast.user("x"),)), Settings()).body
        request = llm.adapter.request(RequestInput(llm.model, (toolcast.user("x"),)), Settings(**settings))
        return not request.notes and request.body != body

    return sets


def _gemini(*parts: object, **fields: object) -> ChatResponse:
    llm = Google("gemini-3-flash-preview", api_key="key")
    return _decoded(llm, {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP", **fields}]})


def _claude(*blocks: object) -> ChatResponse:
    llm = toolcast.Anthropic("claude-sonnet-4-5", api_key="key")
    message = {"type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"}
    return _decoded(llm, {"id": "msg_1", "model": "m", **message, "usage": {"input_tokens": 1, "output_tokens": 1}})


def _openai(*items: object, **options: Any) -> ChatResponse:
    llm = OpenAIResponses("gpt-5.4", api_key="key")
    return _decoded(llm, {"id": "resp_1", "status": "completed", "output": items}, **options)


def _approves() -> bool:
    asked = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "s", "name": "f", "arguments": "{}"}
    (call,) = _openai(asked, server_tools=(RemoteMCP("s", "https://host"),)).message.tool_calls
    return waits_for_approval(call)


def _continues() -> bool:
    from toolcast.testing import Recorded, ReplayNetwork

    def answer(stop: str) -> Recorded:
        text = {"type": "text", "text": stop}
        about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": stop}
        body = {**about, "content": [text], "usage": {"input_tokens": 1, "output_tokens": 1}}
        return Recorded([json.dumps(body).encode()], headers={"content-type": "application/json"})

    network = ReplayNetwork(answer("pause_turn"), answer("end_turn"))
    return (
        toolcast.Anthropic("m", api_key="key", network=network).chat("x", tools=[toolcast.WebSearch()]).text
        == "pause_turnend_turn"
    )


def _cites() -> bool:
    place = {"type": "char_location", "cited_text": "b", "document_index": 0, "document_title": "t"}
    cited = {"type": "text", "text": "a", "citations": [{**place, "start_char_index": 0, "end_char_index": 1}]}
    return any(getattr(part, "citations", ()) for part in _claude(cited).message.parts)


def _grounds() -> bool:
    found: Any = _gemini(
        {"text": "a"},
        groundingMetadata={"webSearchQueries": ["q"], "groundingChunks": [{"web": {"uri": "https://a.no"}}]},
        safetyRatings=[{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}],
    )
    return bool(found.grounding and found.safety)


def _shows(kind: str) -> Callable[[], bool]:
    """A function that tries whether a part with this media type is read from an answer."""

    def shows() -> bool:
        data = {"mimeType": kind, "data": "iVBORw0KGgo="}
        return any(getattr(part, "media_type", None) == kind for part in _gemini({"inlineData": data}).message.parts)

    return shows


def _counts_usage() -> bool:
    used = {"input_tokens": 9, "output_tokens": 3, "cache_creation": {"ephemeral_1h_input_tokens": 2}}
    llm = toolcast.Anthropic("claude-sonnet-4-5", api_key="key")
    message = {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", "usage": used}
    usage = _decoded(llm, {"id": "msg_1", "model": "m", **message}).usage
    return usage.details != Usage().details and hasattr(usage, "cost")


def _uploads(llm: ServiceLLM) -> bool:
    return isinstance(llm.adapter, HTTPAdapter) and llm.adapter.takes_files


def _reads(llm: ServiceLLM) -> bool:
    data = b"%PDF-1.4"
    message = toolcast.user(toolcast.messages.DocumentPart(data=data, media_type="application/pdf", name="a.pdf"))
    body = llm.adapter.request(RequestInput(llm.model, (message,)), Settings()).body
    return data in body or b64encode(data) in body


def _clouds() -> bool:
    return all((Bedrock("m", api_key="k"), AnthropicVertex("m", project="p"), Google("m", project="p", location="l")))


def _marks(llm: ServiceLLM) -> bool:
    marked = (toolcast.user("x", toolcast.messages.CachePoint()),)
    request = llm.adapter.request(RequestInput(llm.model, marked), Settings())
    return b"cache" in request.body.lower()


def _counts(llm: ServiceLLM) -> bool:
    return client_of(llm).token_counter(client_of(llm).build_request("x", (), None, None, parallel=True)) is not None


_OPTIONS: dict[type[ServerTool], tuple[Any, ...]] = {
    toolcast.FileSearch: (["store"],),
    RemoteMCP: ("name", "https://host", None, {}, (), "never"),
}


def _runs(kind: type[ServerTool]) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether a request with this tool can be encoded."""

    def runs(llm: ServiceLLM) -> bool:
        client_of(llm).preview(
            client_of(llm).build_request("x", [kind(*_OPTIONS.get(kind, ()))], None, None, parallel=True)
        )
        return True

    return runs


# -- the rows

_SETTINGS = "pydantic_ai.models.openai:OpenAIResponsesModelSettings"
_AS_DICT = Peer("partly", ("litellm:completion(tools)",), "the provider's own definition, as a dict")

ROWS: tuple[Row, ...] = (
    Row(
        "Search of the web by the provider",
        "WebSearch",
        _runs(toolcast.WebSearch),
        Peer("yes", ("pydantic_ai:WebSearchTool",)),
        Peer("yes", ("litellm:completion(web_search_options)",)),
    ),
    Row(
        "Code execution by the provider",
        "CodeExecution",
        _runs(toolcast.CodeExecution),
        Peer("yes", ("pydantic_ai:CodeExecutionTool",)),
        _AS_DICT,
    ),
    Row(
        "Search of uploaded files",
        "FileSearch",
        _runs(toolcast.FileSearch),
        Peer("yes", ("pydantic_ai:FileSearchTool",)),
        Peer("partly", ("litellm:responses(tools)",), "the provider's own definition, as a dict"),
    ),
    Row(
        "Web pages read by the provider",
        "URLContext",
        _runs(toolcast.URLContext),
        Peer("yes", ("pydantic_ai:WebFetchTool",)),
        _AS_DICT,
    ),
    Row(
        "Remote MCP servers",
        "RemoteMCP",
        _runs(toolcast.RemoteMCP),
        Peer("yes", ("pydantic_ai:MCPServerTool",)),
        Peer("partly", ("litellm:responses(tools)",), "the provider's own definition, as a dict"),
    ),
    Row(
        "Approval of the calls of remote MCP servers",
        "Permissions",
        _approves,
        Peer("no", (), "it always sends `require_approval='never'`"),
        Peer("partly", ("litellm:responses(input)",), "the provider's own items, as dicts"),
    ),
    Row(
        "Paused responses are continued",
        "Finish.stop_reason",
        _continues,
        Peer("yes", ("pydantic_ai:ModelResponseState",)),
        Peer("no"),
    ),
    Row(
        "Ids of responses",
        "ChatResponse.response_id",
        lambda: _openai().response_id and _claude().response_id,
        Peer("yes", ("pydantic_ai.messages:ModelResponse.provider_response_id",)),
        Peer("yes", ("litellm:ModelResponse.id",)),
    ),
    Row(
        "Responses and conversations that the service stores are continued",
        "Settings.previous_response_id",
        _sets(previous_response_id="resp_1"),
        Peer("yes", (f"{_SETTINGS}.openai_previous_response_id", f"{_SETTINGS}.openai_conversation_id")),
        Peer("yes", ("litellm:responses(previous_response_id)",)),
    ),
    Row(
        "Background mode",
        "Settings.background",
        _sets(background=True),
        Peer("yes", (f"{_SETTINGS}.openai_background",)),
        Peer("partly", ("litellm:responses(background)", "litellm:get_responses"), "you poll"),
    ),
    Row(
        "Marks of prompt caches",
        "CachePoint",
        _marks,
        Peer("yes", ("pydantic_ai:CachePoint",)),
        Peer("partly", ("litellm:completion(messages)",), "`cache_control` in dicts"),
    ),
    Row(
        "Cache keys and retention; content that the provider stores",
        "Settings.prompt_cache_key",
        _sets(prompt_cache_key="key"),
        Peer(
            "yes",
            (
                f"{_SETTINGS}.openai_prompt_cache_key",
                "pydantic_ai.models.google:GoogleModelSettings.google_cached_content",
            ),
            "you store the content",
        ),
        Peer("partly", ("litellm:completion(kwargs)",), "the provider's own fields"),
    ),
    Row(
        "Citations",
        "TextPart.citations",
        _cites,
        Peer("yes", ("pydantic_ai:Citation",)),
        Peer("partly", ("litellm.types.utils:Message.annotations",), "of URLs; others as dicts"),
    ),
    Row(
        "Grounding metadata and safety ratings",
        "ChatResponse.grounding",
        _grounds,
        Peer("partly", ("pydantic_ai.messages:ModelResponse.provider_details",), "as a dict"),
        Peer("partly", ("litellm.types.utils:Message.provider_specific_fields",), "as dicts"),
    ),
    Row(
        "Log probabilities",
        "Settings.logprobs",
        _sets(logprobs=True),
        Peer("partly", ("pydantic_ai.messages:ModelResponse.provider_details",), "as a dict"),
        Peer("yes", ("litellm:completion(logprobs)",)),
    ),
    Row(
        "Images in answers",
        "ImageOutput",
        _shows("image/png"),
        Peer("yes", ("pydantic_ai:FilePart", "pydantic_ai:ImageGenerationTool")),
        Peer("yes", ("litellm.types.utils:Message.images",)),
    ),
    Row(
        "Audio in answers",
        "AudioOutput",
        _shows("audio/wav"),
        Peer("partly", ("pydantic_ai:SpeechPart",), "in realtime sessions"),
        Peer("yes", ("litellm.types.utils:Message.audio",)),
    ),
    Row(
        "Usage in detail, and its cost",
        "Usage",
        _counts_usage,
        Peer("yes", ("pydantic_ai:RequestUsage", "pydantic_ai.messages:ModelResponse.cost")),
        Peer("yes", ("litellm:Usage", "litellm:completion_cost")),
    ),
    Row(
        "Uploads of files",
        "upload",
        _uploads,
        Peer("partly", ("pydantic_ai:UploadedFile",), "refers to files that you upload"),
        Peer("yes", ("litellm:create_file",)),
    ),
    Row(
        "PDF, audio and video in messages",
        "DocumentPart",
        _reads,
        Peer("yes", ("pydantic_ai:BinaryContent", "pydantic_ai:DocumentUrl", "pydantic_ai:VideoUrl")),
        Peer("partly", ("litellm:completion(messages)",), "as dicts"),
    ),
    Row(
        "Amazon Bedrock; Claude and Gemini on Vertex AI",
        "Bedrock",
        _clouds,
        Peer(
            "yes",
            (
                "pydantic_ai.models.bedrock:BedrockConverseModel",
                "pydantic_ai.providers.google_cloud:GoogleCloudProvider",
            ),
        ),
        Peer("yes", ("litellm:BedrockLLM", "litellm:VertexAIConfig")),
    ),
    Row(
        "Embeddings",
        "embed",
        lambda llm: isinstance(llm.adapter, HTTPAdapter) and llm.adapter.embeddings() is not None,
        Peer("yes", ("pydantic_ai:Embedder",)),
        Peer("yes", ("litellm:embedding",)),
    ),
    Row(
        "Tokens counted by the provider; the context window checked before sending",
        "count_tokens",
        _counts,
        Peer(
            "partly",
            ("pydantic_ai.models:Model.count_tokens", "pydantic_ai:UsageLimits.count_tokens_before_request"),
            "checked against a limit of your own",
        ),
        Peer("partly", ("litellm:acount_tokens", "litellm:Router(enable_pre_call_checks)"), "checked in its router"),
    ),
    Row(
        "Service tier",
        "Settings.service_tier",
        _sets(service_tier="default"),
        Peer("yes", ("pydantic_ai:ModelSettings.service_tier",)),
        Peer("yes", ("litellm:completion(service_tier)",)),
    ),
)


def own(row: Row, llms: Sequence[ServiceLLM]) -> str:
    """Return the cell of toolcast: yes with the number of providers, or no."""
    if not inspect.signature(row.check).parameters:
        return f"yes: `{row.api}`" if _tried(row.check) else "no"
    count = sum(_tried(row.check, llm) for llm in llms)
    return f"yes: `{row.api}`, {count} of {len(llms)}" if count else "no"


def _tried(check: Callable[..., object], *args: Any) -> bool:
    # A part, a setting or a name that is not there.
    with suppress(toolcast.errors.BadRequest, AttributeError, TypeError):
        return bool(check(*args))
    return False


def compared(llms: Sequence[ServiceLLM]) -> Iterator[Sequence[str]]:
    """The table."""
    yield ("", "toolcast", *(f"{name} {version}" for name, version in PEERS.items()))
    for row in ROWS:
        yield (row.feature, own(row, llms), row.pydantic_ai.text, row.litellm.text)


def missing() -> list[str]:
    """Return the names in the cells of other packages that these do not have."""
    cells = (cell for row in ROWS for cell in (row.pydantic_ai, row.litellm))
    return sorted({name for cell in cells for name in cell.names if not _is_there(name)})


def _is_there(name: str) -> bool:
    """Return True if the package has a name: `module:Class.field`, or `module:function(parameter)`."""
    package, _, path = name.partition(":")
    path, _, parameter = path.removesuffix(")").partition("(")
    *steps, last = path.split(".")
    found: Any = importlib.import_module(package)
    for step in steps:
        found = getattr(found, step)
    if parameter:
        return parameter in inspect.signature(getattr(found, last)).parameters
    fields = {*getattr(found, "model_fields", ())} if inspect.isclass(found) else set[str]()
    if inspect.isclass(found):
        fields |= {each for base in found.__mro__ for each in getattr(base, "__annotations__", ())}
    return last in fields or hasattr(found, last)


if __name__ == "__main__":
    if lost := missing():
        sys.exit(f"not there: {', '.join(lost)}")
