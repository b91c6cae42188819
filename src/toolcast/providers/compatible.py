"""The services that speak OpenAI's chat-completions protocol, as one table of their differences.

Nothing else asks which of them it talks to: a row holds what the wire has to do differently, and the wire
reads the row. For a service that is not listed, `GENERIC` asks for nothing beyond what nearly all of them
take. Sources: the vendors' API references and recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

ThinkingIn = Literal["effort", "reasoning", "thinking", "enable_thinking", "template"]


@dataclass(frozen=True, slots=True)
class ModelRule:
    """`fields` are left out for the models whose name matches `models`: always, or while they think.

    `when`: `"always"`; `"unless_off"`, for models that think unless `thinking=False`; `"if_on"`, for models
    that think when `thinking` is set.
    """

    models: str
    fields: tuple[str, ...]
    when: Literal["always", "unless_off", "if_on"] = "always"


@dataclass(frozen=True, slots=True)
class Service:
    """One service's dialect.

    Where it is: `name` as errors and responses give it, `base_url`, the environment variables `key_env`
    (the first that is set), `url_env`, and `header_env` (header name -> variable). `needs_key`: it
    answers no one without.

    What it takes: `max_tokens_field`; `system_role`; `one_system`, only one system message, at the start;
    `tools`; `forced` tools as `tool_choice`, an `"object"` naming the tool, `"required"` with only that
    tool offered, or `"auto"` with only that tool offered; `forced_while_thinking`; `parallel_flag`, it
    knows `parallel_tool_calls`; `stream_options`; `thinking_in`, how thinking is asked for; `image_urls`,
    `audio`, `documents`; `drops`, settings that it does not know; `rules`, fields that some of its models
    reject; `valid_arguments`, it parses the arguments of earlier calls and fails where they are no JSON;
    `id_limit`, the longest tool call id.

    What it must get back: `thinking_back`, the field in which thoughts belonging to tool calls are
    returned. What it sends: `think_tags`, thoughts in the text between `<think>` and `</think>`.
    """

    name: str
    base_url: str
    key_env: tuple[str, ...] = ()
    url_env: tuple[str, ...] = ()
    header_env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    needs_key: bool = True
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    system_role: Literal["system", "developer", "user"] = "system"
    one_system: bool = False
    tools: bool = True
    forced: Literal["object", "required", "auto"] = "object"
    forced_while_thinking: bool = True
    parallel_flag: bool = True
    stream_options: bool = True
    thinking_in: ThinkingIn | None = "effort"
    thinking_back: Literal["reasoning_content", "reasoning", "reasoning_details"] | None = None
    think_tags: bool = False
    image_urls: bool = True
    audio: bool = True
    documents: bool = True
    drops: tuple[str, ...] = ("top_k",)
    rules: tuple[ModelRule, ...] = ()
    valid_arguments: bool = False
    id_limit: int | None = None


OPENAI = Service(
    "openai",
    "https://api.openai.com/v1",
    key_env=("OPENAI_API_KEY",),
    url_env=("OPENAI_BASE_URL",),
    header_env=MappingProxyType({"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}),
    max_tokens_field="max_completion_tokens",
    id_limit=40,
    rules=(
        ModelRule(r"o\d|gpt-5(?!\.|-chat)|gpt-5\.[5-9]", ("temperature", "top_p"), "unless_off"),
        ModelRule(r"gpt-5\.[1-4]", ("temperature", "top_p"), "if_on"),
        ModelRule(r"o\d", ("stop", "parallel_tool_calls")),
    ),
)

VLLM = Service(
    "vllm",
    "http://localhost:8000/v1",
    key_env=("VLLM_API_KEY",),
    needs_key=False,
    one_system=True,
    thinking_in="template",
    thinking_back="reasoning",
    documents=False,
    drops=(),
    valid_arguments=True,
)

LLAMA_CPP = Service(
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
    valid_arguments=True,
)

LM_STUDIO = Service(
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
    drops=(),
    valid_arguments=True,
)

OLLAMA = Service(
    "ollama",
    "http://localhost:11434/v1",
    key_env=("OLLAMA_API_KEY",),
    needs_key=False,
    # tool_choice is ignored: the best it can be told is to have no other tool.
    forced="required",
    parallel_flag=False,
    thinking_back="reasoning",
    image_urls=False,
    audio=False,
    documents=False,
    valid_arguments=True,
)

GROQ = Service(
    "groq",
    "https://api.groq.com/openai/v1",
    key_env=("GROQ_API_KEY",),
    url_env=("GROQ_BASE_URL",),
    max_tokens_field="max_completion_tokens",
    audio=False,
    documents=False,
)

DEEPSEEK = Service(
    "deepseek",
    "https://api.deepseek.com/v1",
    key_env=("DEEPSEEK_API_KEY",),
    forced_while_thinking=False,
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    image_urls=False,
    audio=False,
    documents=False,
    drops=("top_k", "seed"),
)

OPENROUTER = Service(
    "openrouter",
    "https://openrouter.ai/api/v1",
    key_env=("OPENROUTER_API_KEY",),
    thinking_in="reasoning",
    thinking_back="reasoning_details",
    drops=(),
)

TOGETHER = Service(
    "together",
    "https://api.together.xyz/v1",
    key_env=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY"),
    parallel_flag=False,
    think_tags=True,
    documents=False,
    drops=(),
)

FIREWORKS = Service(
    "fireworks",
    "https://api.fireworks.ai/inference/v1",
    key_env=("FIREWORKS_API_KEY",),
    parallel_flag=False,
    think_tags=True,
    audio=False,
    documents=False,
    drops=(),
)

XAI = Service(
    "xai",
    "https://api.x.ai/v1",
    key_env=("XAI_API_KEY",),
    max_tokens_field="max_completion_tokens",
    audio=False,
    documents=False,
    rules=(ModelRule(r"grok-(3-mini|4)", ("stop",)),),
)

MOONSHOT = Service(
    "moonshot",
    "https://api.moonshot.ai/v1",
    key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY"),
    url_env=("MOONSHOT_BASE_URL",),
    forced="auto",
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    image_urls=False,
    audio=False,
    documents=False,
    drops=("top_k", "seed"),
)

QWEN = Service(
    "qwen",
    "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    key_env=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY"),
    forced_while_thinking=False,
    thinking_in="enable_thinking",
    documents=False,
    drops=(),
    valid_arguments=True,
)

PERPLEXITY = Service(
    "perplexity",
    "https://api.perplexity.ai",
    key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
    tools=False,
    stream_options=False,
    audio=False,
    drops=("stop", "seed"),
)

GENERIC = Service(
    "openai-compatible",
    "http://localhost:8000/v1",
    key_env=("OPENAI_COMPATIBLE_API_KEY",),
    url_env=("OPENAI_COMPATIBLE_BASE_URL",),
    needs_key=False,
    parallel_flag=False,
    thinking_back=None,
    drops=(),
)

CEREBRAS = Service(
    "cerebras",
    "https://api.cerebras.ai/v1",
    key_env=("CEREBRAS_API_KEY",),
    max_tokens_field="max_completion_tokens",
    audio=False,
    documents=False,
)

ZAI = Service(
    "zai",
    "https://api.z.ai/api/paas/v4",
    key_env=("ZAI_API_KEY",),
    forced="auto",
    parallel_flag=False,
    thinking_in="thinking",
    thinking_back="reasoning_content",
    audio=False,
    documents=False,
    drops=("top_k", "seed"),
)

HUGGING_FACE = Service(
    "huggingface",
    "https://router.huggingface.co/v1",
    key_env=("HF_TOKEN",),
    parallel_flag=False,
    think_tags=True,
    audio=False,
    documents=False,
)

SERVICES: Mapping[str, Service] = MappingProxyType(
    {
        service.name: service
        for service in (
            OPENAI,
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
            CEREBRAS,
            ZAI,
            HUGGING_FACE,
            GENERIC,
        )
    }
)
"""All rows by name."""
