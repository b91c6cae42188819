"""Writes tables about providers, and of other libraries' words, from those that the code itself reads.

`python docs/features.py` writes them between their markers, on every page of `PAGES`; the rest of a page is kept. A
test holds the pages against `written`, so that no page can promise what the code does not know. What a message may hold
is not looked up but tried: each wire is asked for the request, and whether the content is in it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from decimal import Decimal
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeAlias, get_args

from toolcast import (
    Anthropic,
    AnthropicVertex,
    Bedrock,
    CodeExecution,
    Cohere,
    FileSearch,
    Google,
    ImageGeneration,
    LlamaCpp,
    Message,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    RemoteMCP,
    ServerTool,
    Settings,
    ToolCallPart,
    URLContext,
    WebSearch,
    assistant,
    user,
)
from toolcast.errors import BadRequest
from toolcast.llms.client import client_of
from toolcast.llms.http_llm import ServiceLLM
from toolcast.messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    FileRef,
    ImagePart,
    MediaPart,
    ThinkingPart,
    ToolResultPart,
    VideoPart,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.services import SERVICES, ServiceSpec
from toolcast.providers.embedding_codec import EmbeddingCodec, EmbeddingOptions, InputType
from toolcast.providers.http_adapter import HTTPAdapter
from toolcast.providers.model_features import all_capabilities, model_rows
from toolcast.values.capabilities import Capabilities
from toolcast.values.option_suggestions import ATTRIBUTES, NAMES, OPTIONS, PROVIDERS, SETTINGS, home_of
from toolcast.values.output_mode import best_mode

Rows: TypeAlias = Iterable[Sequence[str]]

DOCS = Path(__file__).parent
_WORDS = {True: "yes", False: "no", None: "·"}


# -- what each provider can do

_COLUMNS = {
    "tools": "tools",
    "forced": "forced_tools",
    "forced while it thinks": "forced_while_thinking",
    "parallel": "parallel",
    "thinking": "thinking",
    "images": "images",
    "JSON schema": "json_schema",
    "strict tools": "strict",
}


def features() -> Iterator[Sequence[str]]:
    """What each provider can do with any of its models."""
    yield ("provider", *_COLUMNS, "a forced tool is asked for by")
    for provider, models, known in all_capabilities():
        if models == "*":
            yield (f"`{provider}`", *_facts(known), f"`{best_mode(known, forced=True, thinking=False)}`")


def _facts(known: Capabilities) -> Iterator[str]:
    return (_WORDS[getattr(known, name)] for name in _COLUMNS.values())


# -- the services of OpenAI's protocol


def services() -> Iterator[Sequence[str]]:
    """Where each service of OpenAI's protocol is, and what it reads."""
    yield ("`service=`", "address", "key from")
    for service in sorted(SERVICES.values(), key=lambda service: service.name):
        yield f"`{service.name}`", _address(service), _key(service)


def dialect(name: str) -> Iterator[Sequence[str]]:
    """What is different with one service: what is special, and what is emulated."""
    service = SERVICES[name]
    yield "`service=`", f"`{name}`"
    yield "address", _address(service) + (f", or {_code(service.url_env)}" if service.url_env else "")
    yield "key", _proof(service)
    if service.header_env:
        yield "headers", ", ".join(f"`{header}` from `{name}`" for header, name in service.header_env.items())
    yield "a forced tool", _forced(service)
    if service.tools and not service.parallel_flag:
        yield "one call only", "emulated: further calls are dropped, because the service has no setting for it"
    yield "text constrained to a schema", _HELD[service.response_format]
    yield "thinking", _thinking(service)
    yield "besides text", ", ".join(_content(service))
    if service.one_system:
        yield "system messages", "joined, where several stand at the start; a later one becomes a user message"
    if service.max_tokens_field != "max_tokens":
        yield "`max_tokens`", f"sent as `{service.max_tokens_field}`"
    if service.drops or _of_models(service):
        yield "settings left out", _left_out(service)


def _address(service: ServiceSpec) -> str:
    path = service.path if service.api == "chat" else service.path.replace("/chat/completions", "/responses")
    address = re.sub(r"(\{[A-Z_]+)[^}]*", r"\1", service.base_url + path)
    return f"`{address}`"


def _key(service: ServiceSpec) -> str:
    variables = (f"`{name}`" for name in (*service.key_env, *service.bearer_env))
    return ("" if service.needs_key else "none needed; ") + " or ".join(variables)


def _proof(service: ServiceSpec) -> str:
    if service.key_header == "authorization":
        return _key(service)
    key, token = _code(service.key_env), _code(service.bearer_env)
    return f"{key} in the header `{service.key_header}`, or {token} as a bearer token"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_ALONE = "emulated: no other tool is offered"
_FORCED = {
    "object": "by its name",
    "required": f"{_ALONE}, and a call required",
    "auto": f"{_ALONE}; the model may still answer in text",
}


def _forced(service: ServiceSpec) -> str:
    if not service.tools:
        return "the service takes no tools: its text is constrained to a schema instead"
    while_thinking = f"; while it thinks, {_ALONE}" if not service.forced_while_thinking else ""
    return _FORCED[service.forced] + while_thinking


_HELD = {
    "json_schema": "by the service",
    "json_object": "emulated: the service constrains it to JSON, and the prompt contains the schema",
    None: "depends on the model",
}
_ASKED = {
    "effort": "`reasoning_effort`",
    "reasoning": "`reasoning`",
    "thinking": "`thinking`, on or off",
    "adaptive": "`thinking`, adaptive or off",
    "enable_thinking": "`enable_thinking`, `thinking_budget`",
    "template": "`chat_template_kwargs`",
}


def _thinking(service: ServiceSpec) -> str:
    asked = f"asked for by {_ASKED[service.thinking_in]}" if service.thinking_in else "cannot be asked for"
    if any(row.efforts for row in model_rows(service.name)) and service.thinking_in == "thinking":
        asked += ", its effort by `reasoning_effort`"
    tags = "; read from `<think>` tags too" if service.think_tags else ""
    calls = "" if service.thinking_back == "reasoning_details" else ", with the calls it led to"
    back = f"; goes back as `{service.thinking_back}`{calls}" if service.thinking_back else ""
    return asked + tags + back


def _content(service: ServiceSpec) -> Iterator[str]:
    yield "images" if service.image_urls else "images by their bytes"
    if service.audio:
        yield "sound (WAV, MP3)"
    if service.documents:
        yield "documents by their bytes"


def _of_models(service: ServiceSpec) -> list[str]:
    """Return the settings that some models of a service reject."""
    rows = model_rows(service.models_of or service.name)
    found = {name for row in rows for names in row.left_out.values() for name in names.split()}
    return [setting.name for setting in fields(Settings) if setting.name in found - set(service.drops)]


def _left_out(service: ServiceSpec) -> str:
    settings = {setting.name for setting in fields(Settings)}  # the others are values
    dropped = [_code(name for name in service.drops if name in settings)] if service.drops else []
    some = _of_models(service)
    return "; ".join([*dropped, *([f"for some models {_code(some)}"] if some else [])])


# -- what a message may hold

_MARK = "MARK"
_BYTES = _MARK.encode()
_CALL = ToolCallPart("call_1", "look", "{}")
_THOUGHT = ThinkingPart(
    _MARK,
    signature=_MARK,
    opaque={
        "reasoning_details": [{"type": "reasoning.text", "text": _MARK}],
        "responses": {"type": "reasoning", "encrypted_content": _MARK},
        "cohere": {"type": "thinking"},
        "google": {"thoughtSignature": _MARK},
        "mistral": {"type": "thinking", "thinking": [{"type": "text", "text": _MARK}]},
    },
)


def _shown(part: MediaPart) -> tuple[Message, ...]:
    return (user("What is this?", part),)


def _answered(call: Message, *images: ImagePart) -> tuple[Message, ...]:
    return (user("Look!"), call, Message("tool", (ToolResultPart("call_1", "seen", "look", images=images),)))


_CONTENT = {
    "image": _shown(ImagePart(data=_BYTES, media_type="image/png")),
    "image by URL": _shown(ImagePart(url=f"https://host/{_MARK}.png")),
    "WAV, MP3": _shown(AudioPart(data=_BYTES, media_type="audio/wav")),
    "other sound": _shown(AudioPart(data=_BYTES, media_type="audio/ogg")),
    "video": _shown(VideoPart(data=_BYTES, media_type="video/mp4")),
    "video by URL": _shown(VideoPart(url=f"https://host/{_MARK}.mp4")),
    "PDF": _shown(DocumentPart(data=_BYTES, media_type="application/pdf")),
    "PDF by URL": _shown(DocumentPart(url=f"https://host/{_MARK}.pdf")),
    "image in a tool's result": _answered(assistant(_CALL), ImagePart(data=_BYTES, media_type="image/png")),
    "its thoughts, with calls": _answered(assistant(_THOUGHT, _CALL)),
}


def content() -> Iterator[Sequence[str]]:
    """What of a message each LLM sends; those that send the same stand in one line."""
    yield ("LLM", *_CONTENT)
    lines: dict[tuple[str, ...], list[str]] = {}
    for name, llm in _speakers():
        sends = tuple(_WORDS[_sends(llm, messages)] for messages in _CONTENT.values())
        lines.setdefault(sends, []).append(f"`{name}`")
    yield from ((", ".join(names), *sends) for sends, names in lines.items())


def _speakers() -> Iterator[tuple[str, ServiceLLM]]:
    """Each class with a protocol of its own, and each row of OpenAI's."""
    yield "OpenAI", OpenAI("m")
    yield "OpenAIResponses", OpenAIResponses("m", base_url="http://host/v1")
    yield "Anthropic", Anthropic("m")
    yield "AnthropicVertex", AnthropicVertex("m", project="p", region="l")
    yield "Cohere", Cohere("m")
    yield "Google", Google("m")
    yield "Mistral", Mistral("m")
    yield "Ollama", Ollama("m", base_url="http://host")
    yield "Bedrock", Bedrock("m", base_url="http://host", api_key="key")
    yield "LlamaCpp", LlamaCpp()
    yield from ((name, OpenAICompatible("m", service=name, base_url="http://host/v1")) for name in sorted(SERVICES))


def _sends(llm: ServiceLLM, messages: tuple[Message, ...]) -> bool:
    try:
        request_input, settings = RequestInput("m", messages), Settings()
        body = llm.adapter.for_request(request_input, settings).request(request_input, settings).body
    except BadRequest:
        return False
    return _BYTES in body or b64encode(_BYTES) in body


# -- batch APIs


def batches() -> Iterator[Sequence[str]]:
    """The limits and the price of each batch API; LLMs and services with the same stand in one line."""
    yield ("LLM, or `service=`", "requests in a batch", "size of a batch", "price", "found again by")
    lines: dict[tuple[str, ...], list[str]] = {}
    for name, llm in _speakers():
        adapter = llm.adapter
        codec = adapter.batches() if isinstance(adapter, HTTPAdapter) else None
        if codec is not None:
            line = (
                f"{codec.limits.requests:,}",
                f"{round(codec.limits.bytes / 1_000_000):,} MB",
                _PRICES.get(codec.price_factor, f"{codec.price_factor:.0%} of the usual"),
                "its metadata" if codec.lists_tags else "the ids of its results",
            )
            lines.setdefault(line, []).append(f"`{name}`")
    yield from ((", ".join(names), *line) for line, names in lines.items())


def embeddings() -> Iterator[Sequence[str]]:
    """The embeddings of each provider: the texts of a request, and the options; providers with the same in one line."""
    yield ("LLM, or `service=`", "texts in a request", "`dimensions`", "types of input", "`truncate`")
    lines: dict[tuple[str, ...], list[str]] = {}
    for name, llm in _speakers():
        adapter = llm.adapter
        codec = adapter.embeddings() if isinstance(adapter, HTTPAdapter) else None
        if codec is not None:
            line = (
                f"{codec.texts:,}",
                _WORDS[_takes(codec, dimensions=5)],
                _code(each for each in get_args(InputType) if _differs(codec, each)) or "no difference",
                _WORDS[_body(codec, truncate=True) != _body(codec)],
            )
            lines.setdefault(line, []).append(f"`{name}`")
    yield from ((", ".join(names), *line) for line, names in lines.items())


def _body(codec: EmbeddingCodec, **options: Any) -> bytes:
    return codec.request(["text"], EmbeddingOptions("m", **options)).body


def _takes(codec: EmbeddingCodec, **options: Any) -> bool:
    try:
        return _body(codec, **options) != _body(codec)
    except BadRequest:
        return False


def _differs(codec: EmbeddingCodec, input_type: InputType) -> bool:
    return any(_takes(codec, input_type=each) for each in get_args(InputType)) and not _is_refused(codec, input_type)


def _is_refused(codec: EmbeddingCodec, input_type: InputType) -> bool:
    try:
        _body(codec, input_type=input_type)
    except BadRequest:
        return True
    return False


_PRICES = {Decimal("0.5"): "half", Decimal(1): "the usual, as far as known"}


# -- the features of providers, one row for each: a new feature adds its row to `FEATURES`


def _providers() -> Iterator[tuple[str, ServiceLLM]]:
    """Each provider and API with adapters of its own, with a model that can do what its provider can."""
    key, off = "key", Settings(thinking=False)
    yield "OpenAI Responses", OpenAIResponses("gpt-6-sol", settings=off, api_key=key)
    yield "OpenAI chat", OpenAI("gpt-6-sol", api="chat", settings=off, api_key=key)
    yield "Anthropic", Anthropic("claude-sonnet-4-5", api_key=key)
    yield "Anthropic on Vertex AI", AnthropicVertex("claude-sonnet-4-5@20250929", project="p", region="l")
    yield "Google", Google("gemini-3-flash-preview", api_key=key)
    yield "Google on Vertex AI", Google("gemini-3-flash-preview", project="p", location="l")
    yield "xAI Responses", OpenAIResponses("grok-4.5", service="xai", api_key=key)
    yield "Groq", OpenAICompatible("openai/gpt-oss-120b", service="groq", api_key=key)
    yield "Groq Responses", OpenAIResponses("openai/gpt-oss-120b", service="groq", api_key=key)
    yield "Mistral", Mistral("mistral-large-2512", api_key=key)
    yield "Bedrock", Bedrock("anthropic.claude-sonnet-4-5-20250929-v1:0", api_key=key, region="us-east-1")
    yield "Cohere", Cohere("command-a-plus-05-2026", api_key=key)
    yield "Ollama", Ollama("qwen3", base_url="http://host")


def _runs(tool: ServerTool) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether a request with this tool can be encoded."""

    def runs(llm: ServiceLLM) -> bool:
        try:
            llm.preview("x", tools=[tool])
        except BadRequest:
            return False
        return True

    return runs


def _sends_content(name: str) -> Callable[[ServiceLLM], bool]:
    return lambda llm: _sends(llm, _CONTENT[name])


def _has(codec: str) -> Callable[[ServiceLLM], bool]:
    """A function that looks whether the adapter has this codec."""
    return lambda llm: isinstance(llm.adapter, HTTPAdapter) and getattr(llm.adapter, codec)() is not None


def _sets(settings: Settings) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether a setting is sent: one that is not, is in the notes."""
    return lambda llm: not llm.adapter.request(RequestInput(llm.model, (user("x"),)), settings.over(llm.settings)).notes


def _cites(llm: ServiceLLM) -> bool:
    """True if a document that is to be cited can be sent, in a form that says so."""
    document = DocumentPart(data=b"%PDF-", media_type="application/pdf", name="a.pdf", citations=True)
    try:
        request = llm.adapter.request(RequestInput(llm.model, (user("x", document),)), Settings())
    except BadRequest:
        return False
    return b'"citations"' in request.body


def _accepts(settings: Settings) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether a request with a setting can be encoded."""

    def accepts(llm: ServiceLLM) -> bool:
        try:
            llm.adapter.request(RequestInput(llm.model, (user("x"),)), settings)
        except BadRequest:
            return False
        return True

    return accepts


def _marks(llm: ServiceLLM) -> bool:
    """Try whether a `CachePoint` changes the request."""
    sent = [llm.preview([user("x", *point)]) for point in _POINTS]
    return sent[0] is not None and sent[1] is not None and b"cache" in sent[1].body and b"cache" not in sent[0].body


_POINTS: tuple[tuple[CachePoint, ...], ...] = ((), (CachePoint(),))


def _makes(kind: str) -> Callable[[ServiceLLM], bool]:
    """A function that tries whether the service has this kind of output."""
    return _accepts(Settings(modalities=("text", kind)))


def outputs() -> Iterator[Sequence[str]]:
    """The providers with images or audio in their responses."""
    yield ("LLM", "images", "images by `ImageGeneration`", "audio")
    for name, llm in _providers():
        cells = [_WORDS[has(llm)] for has in (_makes("image"), _runs(ImageGeneration()), _makes("audio"))]
        if "yes" in cells:
            yield (name, *cells)


_SERVER_TOOLS: Mapping[str, ServerTool] = {
    "`WebSearch`": WebSearch(),
    "`CodeExecution`": CodeExecution(),
    "`FileSearch`": FileSearch(["store"]),
    "`URLContext`": URLContext(),
    "`ImageGeneration`": ImageGeneration(),
    "`RemoteMCP`": RemoteMCP("name", "https://host", require_approval="never"),
}

FEATURES: Mapping[str, Callable[[ServiceLLM], bool | None]] = {
    "tool calls": lambda llm: llm.metadata.capabilities.tools,
    "a required tool": lambda llm: llm.metadata.capabilities.forced_tools,
    "several calls at once": lambda llm: llm.metadata.capabilities.parallel,
    "text of a JSON schema": lambda llm: llm.metadata.capabilities.json_schema,
    "thinking": lambda llm: llm.metadata.capabilities.thinking,
    **{name: _sends_content(name) for name in _CONTENT},
    **{name: _runs(tool) for name, tool in _SERVER_TOOLS.items()},
    "service tier": _sets(Settings(service_tier="default")),
    "log probabilities": _sets(Settings(logprobs=True)),
    "documents cited": _cites,
    "images from the model": lambda llm: _makes("image")(llm) or _runs(ImageGeneration())(llm),
    "audio from the model": _makes("audio"),
    "uploaded files": lambda llm: isinstance(llm.adapter, HTTPAdapter) and llm.adapter.takes_files,
    "`previous_response_id`": _accepts(Settings(previous_response_id="resp_1")),
    "`conversation`": _accepts(Settings(conversation="conv_1")),
    "`background`": _accepts(Settings(background=True)),
    "`CachePoint`": _marks,
    "`prompt_cache_key`": _sets(Settings(prompt_cache_key="key")),
    "`cached_content`": _accepts(Settings(cached_content="cachedContents/c")),
    "batch API": _has("batches"),
    "embeddings": _has("embeddings"),
    "tokens counted": lambda llm: (
        client_of(llm).token_counter(client_of(llm).build_request("x", (), None, None, parallel=True)) is not None
    ),
}


def provider_features() -> Iterator[Sequence[str]]:
    """Which provider has what."""
    llms = list(_providers())
    yield ("feature", *(name for name, _ in llms))
    for feature, has in FEATURES.items():
        yield (feature, *(_WORDS[has(llm)] for _, llm in llms))


def uploads() -> Iterator[Sequence[str]]:
    """The files of each provider: their size, their lifetime, and what of them messages can refer to."""
    yield ("LLM", "size of a file", "`expires_in`", *_UPLOADED)
    for name, llm in _providers():
        adapter = llm.adapter
        codec = adapter.files() if isinstance(adapter, HTTPAdapter) and adapter.takes_files else None
        if codec is not None:
            shortest, longest = codec.lifetimes or (0, 0)
            lifetime = f"{shortest // 3600} hour to {longest // 86400} days" if longest else "no"
            kinds = [_WORDS[_refers(llm, kind)] for kind in _UPLOADED.values()]
            yield (name, f"{codec.limit // 1024**2:,} MB", lifetime, *kinds)


_UPLOADED = {
    "PDF": "application/pdf",
    "image": "image/png",
    "sound": "audio/wav",
    "video": "video/mp4",
    "other files": "text/csv",
}


def _refers(llm: ServiceLLM, kind: str) -> bool:
    ref = FileRef(llm.adapter.provider, "id", "https://host/file", kind)
    try:
        llm.preview([user(ref)])
    except BadRequest:
        return False
    return True


_STORED: Mapping[str, Settings] = {
    "`previous_response_id`": Settings(previous_response_id="resp_1"),
    "`conversation`": Settings(conversation="conv_1"),
    "`background`": Settings(background=True),
}


def stored() -> Iterator[Sequence[str]]:
    """What each service stores whose Responses API stores something."""
    yield ("`OpenAIResponses(..., service=)`", *_STORED)
    for name, service in sorted(SERVICES.items()):
        if "responses" in service.stores:
            llm = OpenAIResponses("m", service=name, api_key="key", base_url="https://host/v1")
            yield (f"`{name}`", *(_WORDS[_accepts(settings)(llm)] for settings in _STORED.values()))


def server_tools() -> Iterator[Sequence[str]]:
    """Which provider runs which tools."""
    yield ("LLM", *_SERVER_TOOLS)
    for name, llm in _providers():
        cells = [_WORDS[_runs(tool)(llm)] for tool in _SERVER_TOOLS.values()]
        if "yes" in cells:
            yield (name, *cells)


def others() -> Rows:
    """What users expect beside the tool call, beside other libraries."""
    spec = spec_from_file_location("compared", DOCS / "compared.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    rows: Rows = module.compared([llm for _, llm in _providers()])
    return rows


# -- the pages

Tables: TypeAlias = Mapping[str, Callable[[], Rows]]


def _dialects(*names: str) -> Tables:
    return {name: partial(dialect, name) for name in names}


def _options() -> Iterator[Sequence[str]]:
    yield ("toolcast", "elsewhere")
    for table, form in ((OPTIONS, "`{}=`"), (SETTINGS, "`Settings({}=...)`")):
        owns = dict.fromkeys(own for found in table.values() for own in found)
        for own in owns:
            yield (form.format(own), _words(word for word, found in table.items() if own in found))


def _attributes() -> Iterator[Sequence[str]]:
    yield ("class", "elsewhere", "toolcast")
    for kind, rows in ATTRIBUTES.items():
        for words, instead in rows.items():
            yield (f"`{kind}`", _words(words.split()), instead)


def _names() -> Iterator[Sequence[str]]:
    yield ("toolcast", "elsewhere")
    for own in dict.fromkeys(NAMES.values()):
        yield (f"`{home_of(own)}`", _words(word for word, found in NAMES.items() if found == own))


def _provider_words() -> Iterator[Sequence[str]]:
    yield ("toolcast", "elsewhere")
    for own in dict.fromkeys(PROVIDERS.values()):
        yield (f"`{own}:MODEL`", _words(f"{word}/MODEL" for word, found in PROVIDERS.items() if found == own))


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


PAGES: Mapping[str, Tables] = {
    "how-to/from-other-libraries.md": {
        "OPTIONS": _options,
        "ATTRIBUTES": _attributes,
        "NAMES": _names,
        "PROVIDERS": _provider_words,
    },
    "reference/providers/index.md": {"FEATURES": features, "SERVICES": services},
    "reference/messages.md": {"CONTENT": content},
    "reference/providers/features.md": {"PROVIDER_FEATURES": provider_features},
    "how-to/files.md": {"UPLOADS": uploads},
    "explanation/compared.md": {"COMPARED": others},
    "how-to/media-output.md": {"OUTPUTS": outputs},
    "how-to/server-tools.md": {"SERVER_TOOLS": server_tools},
    "how-to/stored-responses.md": {"STORED": stored},
    "how-to/many-inputs.md": {"BATCHES": batches},
    "how-to/embeddings.md": {"EMBEDDINGS": embeddings},
    "reference/providers/azure.md": _dialects("azure", "azure-v1", "azure-foundry"),
    "reference/providers/bedrock.md": _dialects("bedrock-mantle"),
    "reference/providers/ollama.md": _dialects("ollama"),
    "reference/providers/compatible.md": _dialects(
        *(
            "openrouter",
            "groq",
            "deepseek",
            "xai",
            "moonshot",
            "qwen",
            "zai",
            "minimax",
            "perplexity",
            "together",
            "fireworks",
        ),
        *("cerebras", "huggingface", "vercel", "github", "vllm", "llama.cpp", "lmstudio", "litellm"),
        "openai-compatible",
    ),
}


def read(page: str) -> str:
    """The text of a page, as it stands."""
    return (DOCS / page).read_text(encoding="utf-8")


def written(page: str) -> str:
    """The text of a page, its tables written anew."""
    return rewritten(read(page), PAGES[page])


def rewritten(text: str, tables: Tables) -> str:
    """`text` with every table written anew."""
    for name, rows in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        if (text.count(begin), text.count(end)) != (1, 1):
            raise ValueError(f"the markers of {name} are not there, or not once")
        before, _, rest = text.partition(begin)
        text = before + begin + _table(list(rows())) + end + rest.partition(end)[2]
    return text


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *rest = rows
    lines = [head, ["---"] * len(head), *rest]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")


if __name__ == "__main__":
    for name in PAGES:
        (DOCS / name).write_text(written(name), encoding="utf-8")
