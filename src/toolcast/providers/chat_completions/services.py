"""The services that implement OpenAI's chat-completions protocol, and the table of their differences.

Nothing else depends on the name of a service: a row says what the adapter has to do differently. `GENERIC` is the row
of any other service; it requires nothing but what nearly all of them support. Sources: the vendors' API references and
recorded responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from types import MappingProxyType
from typing import Literal

from ...lazy.lazy_dataclasses import dataclass

API = Literal["chat", "responses"]
Stores = Literal["chat", "responses", "conversations", "background"]
ThinkingIn = Literal["effort", "reasoning", "thinking", "adaptive", "enable_thinking", "template"]


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """The batch API of a service, where it is OpenAI's.

    `prefix` comes before the path of the requests (`/v1` of `/v1/chat/completions`); `requests` and `bytes` are the
    limits of one file, `line_bytes` that of one line; `window` is the time in which the service processes a batch;
    `price_factor` is the price as a part of the usual one, 1 where the service names none; `responses`: a batch may
    have requests of the Responses API.
    """

    prefix: str = "/v1"
    requests: int = 50_000
    bytes: int = 200_000_000
    line_bytes: int | None = None
    window: str = "24h"
    price_factor: str = "0.5"
    responses: bool = False


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    """The embeddings of a service.

    `texts` and `tokens` are the most of one request, the latter with a margin, as they are estimated; `dimensions` is
    the field for the length of the vectors, None if there is none.
    """

    texts: int = 64
    tokens: int = 10_000
    dimensions: str | None = "dimensions"


@dataclass(frozen=True, slots=True)
class FilesSpec:
    """The files of a service, to which messages can refer: those of its Responses API, and, if `chat`, of chat, too.

    `limit` is the size limit of one file in bytes, `purpose` the purpose that they are uploaded for.
    """

    limit: int = 512 * 1024 * 1024
    purpose: str = "user_data"
    chat: bool = False


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A row of the services table: the protocol of one service.

    Endpoint: `api`, the protocol of an LLM that names none; `own`, requests go to the address of the service itself;
    `base_model`, the model behind the name of a deployment; `models_of`, the provider whose rows in the table of models
    apply, if that is another; `name` in errors and responses; `base_url`, and `path`
    after it. Both may have variables: `{A}`, `{A|B}` for the first environment variable that is set, `{A=this}` with a
    default; and `{model}` in `path`. `url_env`: environment variables that replace `base_url`; `header_env`: header
    name -> environment variable.

    Credentials: `key_env`, the environment variables of the key (the first that is set); `key_header`, the header of
    the key, which follows `Bearer` if that is `authorization`; `bearer_env`, environment variables of a token that is
    sent as `Bearer` if there is no key. `needs_key`: requests without a key are rejected.

    Requests: `max_tokens_field`; `one_system`, only one system message, at the start; `most_stops`, the most stop
    sequences; `tools`; `forced`, required tools as `tool_choice`: an `"object"` with the name of the tool, `"required"`
    with only that tool offered, or `"auto"` with only that tool offered; `forced_while_thinking` (if not, its models
    may think unless thinking is disabled, which it is for a required tool); `parallel_flag`, support of
    `parallel_tool_calls`; `stream_options`; `thinking_in`, the form of the thinking setting; `image_urls`, `audio`,
    `documents`, `video`; `video_options`, those of `VideoPart` that it has; `outputs`, kinds of output beside text;
    `drops`, unsupported settings; `service_tier`, it has tiers;
    `id_limit`, the longest tool call id; `strict`, support of `strict` tools; `fields`, further fields of every
    request, and `stream_fields`, of those that stream tool calls.

    Responses: `response_format` is `"json_schema"` if the text of every model can be constrained to a JSON schema,
    `"json_object"` if to JSON at most, None if that depends on the model or is unknown. `schema_in_text`: of a
    Responses request it reads the schema in `text.format`, as documented, and not in `response_format`.

    History: `thinking_back`, the field in which thoughts of tool calls are returned; `thoughts_required`, with tools it
    fails on an assistant message without thoughts, of whichever model; `signed_calls`, additional data of a tool call
    is returned, as there may be a Gemini model behind the service. `think_tags`: thoughts are in the text between
    `<think>` and `</think>`.

    Caches: `cache_key` and `cache_retention`, support of `prompt_cache_key` and `prompt_cache_retention`;
    `cache_key_header`, the header that chat completions have in place of the first;
    `cache_marks`, the field that marks the end of what is cached: `cache_control` of a part or a tool,
    `message_cache_control` for that of a part alone, without an hour; None if there is none. `cache_marks_for`: words
    in the names of the models that `cache="auto"` marks, where the others are cached without.

    Tools that it runs: `server_tools` and `responses_tools` are the rows of `FORMS` (server_tool_forms.py) of its chat
    completions and of its Responses API; None: none are known.

    State: `stores` has what it stores: `"chat"`, completions with `store`; `"responses"` of its Responses API, which
    `previous_response_id` continues; `"conversations"`; and `"background"`, requests that it runs in the background.

    Files: `files` are those that messages can refer to.

    Batches: `batches` is its batch API, where that is OpenAI's. Embeddings: `embeddings` is its endpoint for them.
    Tokens: `counts` is the protocol of its endpoint that counts the tokens of a request.
    """

    name: str
    base_url: str
    path: str = "/chat/completions"
    api: API = "chat"
    own: bool = True
    base_model: str = ""
    models_of: str = ""
    key_env: tuple[str, ...] = ()
    key_header: str = "authorization"
    bearer_env: tuple[str, ...] = ()
    url_env: tuple[str, ...] = ()
    header_env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    needs_key: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    one_system: bool = False
    most_stops: int | None = None
    tools: bool = True
    forced: Literal["object", "required", "auto"] = "object"
    forced_while_thinking: bool = True
    parallel_flag: bool = True
    stream_options: bool = True
    thinking_in: ThinkingIn | None = "effort"
    thinking_back: Literal["reasoning_content", "reasoning", "reasoning_details"] | None = None
    thoughts_required: bool = False
    signed_calls: bool = False
    think_tags: bool = False
    image_urls: bool = True
    audio: bool = True
    documents: bool = True
    outputs: tuple[str, ...] = ()
    video: bool = False
    video_options: tuple[str, ...] = ()
    drops: tuple[str, ...] = ("top_k",)
    id_limit: int | None = None
    strict: bool = False
    fields: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    stream_fields: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))
    response_format: Literal["json_schema", "json_object"] | None = None
    schema_in_text: bool = True
    service_tier: bool = False
    cache_key: bool = False
    cache_key_header: str | None = None
    cache_retention: bool = False
    cache_marks: Literal["cache_control", "message_cache_control", "prompt_cache_breakpoint"] | None = None
    cache_marks_for: tuple[str, ...] = ("",)
    server_tools: str | None = None
    responses_tools: str | None = None
    stores: frozenset[Stores] = frozenset()
    files: FilesSpec | None = None
    batches: BatchSpec | None = None
    embeddings: EmbeddingSpec | None = None
    counts: Literal["responses", "vllm", "llama.cpp"] | None = None


OPENAI = ServiceSpec(
    "openai",
    "https://api.openai.com/v1",
    api="responses",
    key_env=("OPENAI_API_KEY",),
    url_env=("OPENAI_BASE_URL",),
    header_env=MappingProxyType({"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}),
    max_tokens_field="max_completion_tokens",
    most_stops=4,
    id_limit=40,
    outputs=("audio",),
    # The last two are values of `prompt_cache_retention`: developers.openai.com/api/docs/guides/prompt-caching.
    drops=("top_k", "30m", "12h"),
    strict=True,
    response_format="json_schema",
    service_tier=True,
    cache_key=True,
    cache_retention=True,
    cache_marks="prompt_cache_breakpoint",
    server_tools="openai-chat",
    responses_tools="openai",
    stores=frozenset(("chat", "responses", "conversations", "background")),
    # Source: developers.openai.com/api/docs/guides/pdf-files and /api/reference/resources/files.
    files=FilesSpec(chat=True),
    batches=BatchSpec(responses=True),
    # It takes 2,048 texts and 300,000 tokens; so many vectors would exceed the size limit of a response.
    embeddings=EmbeddingSpec(256, 200_000),
    counts="responses",
)

AZURE = replace(
    OPENAI,
    name="azure",
    base_url="{AZURE_OPENAI_ENDPOINT}",
    path="/openai/deployments/{model}/chat/completions?api-version={OPENAI_API_VERSION=2024-10-21}",
    api="chat",
    key_env=("AZURE_OPENAI_API_KEY",),
    key_header="api-key",
    bearer_env=("AZURE_OPENAI_AD_TOKEN",),
    url_env=(),
    header_env=MappingProxyType({}),
    models_of="openai",
    # A deployment has the name its owner gave it, whatever the model is.
    response_format=None,
    cache_marks=None,
    counts=None,
    # Source: learn.microsoft.com/azure/foundry/reference/rest/files-create-file.
    files=FilesSpec(),
    batches=BatchSpec("", requests=100_000, responses=True),
)

AZURE_V1 = replace(AZURE, name="azure-v1", path="/openai/v1/chat/completions", api="responses")

# The models of other vendors in a resource of Azure AI Foundry. Source: learn.microsoft.com/azure/ai-foundry/
# foundry-models/concepts/endpoints; the names of the variables are those of LiteLLM.
AZURE_FOUNDRY = ServiceSpec(
    "azure-foundry",
    "{AZURE_AI_API_BASE}",
    path="/openai/v1/chat/completions",
    key_env=("AZURE_AI_API_KEY",),
    key_header="api-key",
    bearer_env=("AZURE_AI_AD_TOKEN",),
    parallel_flag=False,
    think_tags=True,
    audio=False,
    documents=False,
    drops=("top_k",),
    embeddings=EmbeddingSpec(),
)

VLLM = ServiceSpec(
    "vllm",
    "http://localhost:8000/v1",
    key_env=("VLLM_API_KEY",),
    needs_key=False,
    one_system=True,
    thinking_in="template",
    thinking_back="reasoning",
    documents=False,
    video=True,
    drops=(),
    response_format="json_schema",
    embeddings=EmbeddingSpec(),
    counts="vllm",
    # Source: VLLM_ENABLE_RESPONSES_API_STORE in vllm/envs.py, without which it stores nothing.
    stores=frozenset(("responses", "background")),
)

LLAMA_CPP = ServiceSpec(
    "llama.cpp",
    "http://localhost:8080/v1",
    key_env=("LLAMA_API_KEY",),
    needs_key=False,
    one_system=True,
    # The object form is taken for "auto" without a word.
    forced="required",
    thinking_in="template",
    thinking_back="reasoning_content",
    documents=False,
    drops=(),
    response_format="json_schema",
    schema_in_text=False,
    embeddings=EmbeddingSpec(dimensions=None),
    counts="llama.cpp",
)

LM_STUDIO = ServiceSpec(
    "lmstudio",
    "http://localhost:1234/v1",
    key_env=("LM_STUDIO_API_KEY",),
    url_env=("LM_STUDIO_API_BASE",),
    needs_key=False,
    one_system=True,
    forced="required",
    parallel_flag=False,
    think_tags=True,
    image_urls=False,
    audio=False,
    documents=False,
    drops=("logprobs",),
    response_format="json_schema",
    embeddings=EmbeddingSpec(dimensions=None),
    # Source: lmstudio.ai/blog/lmstudio-v0.3.29.
    stores=frozenset(("responses",)),
)

OLLAMA = ServiceSpec(
    "ollama",
    "http://localhost:11434/v1",
    key_env=("OLLAMA_API_KEY",),
    needs_key=False,
    # It ignores tool_choice, so a forced tool is the only one that is sent.
    forced="required",
    parallel_flag=False,
    thinking_back="reasoning",
    image_urls=False,
    audio=False,
    documents=False,
    response_format="json_schema",
    embeddings=EmbeddingSpec(),
)

GROQ = ServiceSpec(
    "groq",
    "https://api.groq.com/openai/v1",
    key_env=("GROQ_API_KEY",),
    url_env=("GROQ_BASE_URL",),
    max_tokens_field="max_completion_tokens",
    audio=False,
    documents=False,
    drops=("top_k", "logprobs"),
    service_tier=True,
    server_tools="groq",
    responses_tools="groq-responses",
    batches=BatchSpec(),
)

DEEPSEEK = ServiceSpec(
    "deepseek",
    "https://api.deepseek.com/v1",
    key_env=("DEEPSEEK_API_KEY",),
    forced_while_thinking=False,
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    thoughts_required=True,
    image_urls=False,
    audio=False,
    documents=False,
    drops=("top_k", "seed"),
    response_format="json_object",
)

OPENROUTER = ServiceSpec(
    "openrouter",
    "https://openrouter.ai/api/v1",
    key_env=("OPENROUTER_API_KEY",),
    thinking_in="reasoning",
    thinking_back="reasoning_details",
    signed_calls=True,
    video=True,
    drops=(),
    service_tier=True,
    cache_marks="cache_control",
    cache_marks_for=("claude", "qwen"),
    outputs=("image", "audio"),
    embeddings=EmbeddingSpec(),
)

TOGETHER = ServiceSpec(
    "together",
    "https://api.together.xyz/v1",
    key_env=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    parallel_flag=False,
    think_tags=True,
    documents=False,
    drops=("logprobs",),
    embeddings=EmbeddingSpec(),
)

FIREWORKS = ServiceSpec(
    "fireworks",
    "https://api.fireworks.ai/inference/v1",
    key_env=("FIREWORKS_API_KEY",),
    parallel_flag=False,
    think_tags=True,
    audio=False,
    documents=False,
    drops=(),
    service_tier=True,
    response_format="json_schema",
    embeddings=EmbeddingSpec(),
)

XAI = ServiceSpec(
    "xai",
    "https://api.x.ai/v1",
    key_env=("XAI_API_KEY",),
    max_tokens_field="max_completion_tokens",
    audio=False,
    documents=False,
    response_format="json_schema",
    cache_key=True,
    cache_key_header="x-grok-conv-id",
    server_tools="xai-chat",
    responses_tools="xai",
    # Source: docs.x.ai/developers/model-capabilities/text/generate-text; `background` is not supported there.
    stores=frozenset(("responses",)),
    # Source: docs.x.ai/developers/rest-api-reference/files/upload.
    files=FilesSpec(50 * 1024 * 1024, "assistants"),
)

MOONSHOT = ServiceSpec(
    "moonshot",
    "https://api.moonshot.ai/v1",
    key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"),
    url_env=("MOONSHOT_BASE_URL",),
    forced="auto",
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    thoughts_required=True,
    image_urls=False,
    audio=False,
    documents=False,
    video=True,
    drops=("top_k", "seed", "logprobs"),
    response_format="json_object",
    batches=BatchSpec(bytes=100_000_000, price_factor="1"),
)

QWEN = ServiceSpec(
    "qwen",
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_env=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
    forced_while_thinking=False,
    thinking_in="enable_thinking",
    documents=False,
    video=True,
    video_options=("fps",),
    drops=(),
    response_format="json_object",
    cache_marks="message_cache_control",
    batches=BatchSpec(line_bytes=6_000_000),
    embeddings=EmbeddingSpec(10),
    # Source: help.aliyun.com/en/model-studio/qwen-api-via-openai-responses.
    stores=frozenset(("responses",)),
)

PERPLEXITY = ServiceSpec(
    "perplexity",
    "https://api.perplexity.ai",
    key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
    tools=False,
    stream_options=False,
    audio=False,
    drops=("stop", "seed", "logprobs"),
    response_format="json_schema",
)

BEDROCK_MANTLE = ServiceSpec(
    "bedrock-mantle",
    "https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/v1",
    key_env=("AWS_BEARER_TOKEN_BEDROCK",),
    parallel_flag=False,
    audio=False,
    documents=False,
    # Source: docs.aws.amazon.com/bedrock/latest/userguide/inference-responses-api.html.
    stores=frozenset(("responses", "background")),
)

# Retired by GitHub on 30 July 2026, as it announced. The row keeps the dialect, for what still speaks it.
GITHUB = ServiceSpec(
    "github",
    "https://models.github.ai/inference",
    key_env=("GITHUB_TOKEN", "GITHUB_API_KEY"),
    # Its reference knows tool_choice as a word only.
    forced="required",
    parallel_flag=False,
    audio=False,
    documents=False,
    embeddings=EmbeddingSpec(),
)

LITELLM = ServiceSpec(
    "litellm",
    "http://localhost:4000/v1",
    key_env=("LITELLM_PROXY_API_KEY", "LITELLM_API_KEY"),
    url_env=("LITELLM_PROXY_API_BASE",),
    needs_key=False,
    thinking_back="reasoning_content",
    signed_calls=True,
    drops=(),
    service_tier=True,
    cache_key=True,
    cache_retention=True,
    cache_marks="cache_control",
    cache_marks_for=("claude", "qwen"),
    responses_tools="openai",
    batches=BatchSpec(bytes=100_000_000, price_factor="1", responses=True),
    embeddings=EmbeddingSpec(),
    stores=frozenset(("chat", "responses", "conversations", "background")),
)

VERCEL = ServiceSpec(
    "vercel",
    "https://ai-gateway.vercel.sh/v1",
    key_env=("AI_GATEWAY_API_KEY",),
    thinking_in="reasoning",
    thinking_back="reasoning_details",
    signed_calls=True,
    drops=(),
    embeddings=EmbeddingSpec(),
)

GENERIC = ServiceSpec(
    "openai-compatible",
    "http://localhost:8000/v1",
    key_env=("OPENAI_COMPATIBLE_API_KEY",),
    url_env=("OPENAI_COMPATIBLE_BASE_URL",),
    needs_key=False,
    parallel_flag=False,
    signed_calls=True,
    drops=(),
    service_tier=True,
    cache_key=True,
    cache_retention=True,
    responses_tools="openai",
    batches=BatchSpec(bytes=100_000_000, price_factor="1"),
    embeddings=EmbeddingSpec(),
    stores=frozenset(("chat", "responses", "conversations", "background")),
)

# Source: inference-docs.cerebras.ai/api-reference/chat-completions, and version 1.91 of its SDK.
CEREBRAS = ServiceSpec(
    "cerebras",
    "https://api.cerebras.ai/v1",
    key_env=("CEREBRAS_API_KEY",),
    max_tokens_field="max_completion_tokens",
    most_stops=4,
    thinking_back="reasoning",
    audio=False,
    documents=False,
    service_tier=True,
    batches=BatchSpec(),
)

# Source: docs.z.ai/api-reference/llm/chat-completion, and version 0.2 of its SDK. `tool_choice` is "auto" alone there.
ZAI = ServiceSpec(
    "zai",
    "https://api.z.ai/api/paas/v4",
    key_env=("ZAI_API_KEY",),
    most_stops=1,
    forced="auto",
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    audio=False,
    documents=False,
    video=True,
    drops=("top_k", "seed", "logprobs"),
    # Without it, the arguments of a call come in one piece.
    stream_fields=MappingProxyType({"tool_stream": True}),
    response_format="json_object",
    embeddings=EmbeddingSpec(),
)

# Source: platform.minimax.io/docs/api-reference/text-openai-api. `tool_choice` is "auto" or "none" there; the models M1
# and later have no response format. With `reasoning_split` thoughts are not in the text, and go back in a field.
MINIMAX = ServiceSpec(
    "minimax",
    "https://api.minimax.io/v1",
    key_env=("MINIMAX_API_KEY",),
    url_env=("MINIMAX_API_BASE",),
    max_tokens_field="max_completion_tokens",
    forced="auto",
    parallel_flag=False,
    thinking_in="adaptive",
    thinking_back="reasoning_details",
    think_tags=True,
    audio=False,
    documents=False,
    drops=("top_k", "seed", "stop", "logprobs"),
    fields=MappingProxyType({"reasoning_split": True}),
)

# Source: huggingface.co/docs/inference-providers/tasks/chat-completion.
HUGGING_FACE = ServiceSpec(
    "huggingface",
    "https://router.huggingface.co/v1",
    key_env=("HF_TOKEN",),
    most_stops=4,
    parallel_flag=False,
    think_tags=True,
    audio=False,
    documents=False,
)

SERVICES: Mapping[str, ServiceSpec] = MappingProxyType(
    {
        service.name: service
        for service in (
            OPENAI,
            AZURE,
            AZURE_V1,
            AZURE_FOUNDRY,
            VLLM,
            LLAMA_CPP,
            LM_STUDIO,
            OLLAMA,
            GROQ,
            DEEPSEEK,
            OPENROUTER,
            TOGETHER,
            FIREWORKS,
            XAI,
            MOONSHOT,
            QWEN,
            PERPLEXITY,
            BEDROCK_MANTLE,
            GITHUB,
            LITELLM,
            VERCEL,
            CEREBRAS,
            ZAI,
            MINIMAX,
            HUGGING_FACE,
            GENERIC,
        )
    }
)
"""All rows by name."""
