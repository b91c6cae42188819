"""Words of other libraries, and the errors that name toolcast's word in their place; suggestions for typing errors.

`Ollama("llama3.2", request_timeout=60, host=...)`, `response_model=`, `agent.run_sync(...)` and
`from toolcast import RunContext` are how a user of another library begins.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NoReturn, TypeVar, cast

T = TypeVar("T")


def _by_foreign_word(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return the words of toolcast by the words of other libraries, from the latter by the former."""
    found: dict[str, tuple[str, ...]] = {}
    for own, words in table.items():
        for word in words.split():
            found[word] = (*found.get(word, ()), own)
    return found


SETTINGS: Final = _by_foreign_word(
    {
        "timeout": "request_timeout timeout_seconds read_timeout",
        "max_tokens": "max_output_tokens max_completion_tokens max_new_tokens num_predict maxTokens",
        "stop": "stop_sequences stop_words",
        "seed": "random_seed random_state",
        "thinking": "reasoning reasoning_effort thinking_budget thinking_level think",
        "logprobs": "top_logprobs",
        "service_tier": "serviceTier",
        "top_p": "topP",
        "top_k": "topK",
        "extra": "extra_body model_kwargs additional_kwargs generation_config default_body",
    }
)
"""Names of settings in other libraries."""
BODY: Final = frozenset(
    (
        *("format", "options", "repeat_penalty", "min_p", "frequency_penalty", "n", "user"),
        *("presence_penalty", "logit_bias", "metadata", "response_format"),
    )
)
"""Fields of a request's body that are no settings."""
OPTIONS: Final = _by_foreign_word(
    {
        "output_cls": "response_model output_type result_type response_format response_schema text_format "
        "output_schema output_model pydantic_model schema",
        "model": "model_path model_name model_id deployment deployment_name",
        "base_url": "host url api_base base endpoint azure_endpoint server_url openai_api_base api_url api_host "
        "baseURL",
        "api_key": "key token apikey apiKey api_token auth_token openai_api_key anthropic_api_key google_api_key "
        "mistral_api_key",
        "headers": "default_headers extra_headers additional_headers",
        "max_retries": "retries num_retries max_attempts",
        "max_attempts": "max_retries retries num_retries output_retries result_retries",
        "network": "http_client client async_client http_async_client transport proxy",
        "llm": "model model_name client",
        "max_concurrency": "max_concurrent_requests max_parallel_requests num_workers",
        "auth": "azure_ad_token_provider credential credentials token_provider",
        "server": "n_ctx n_gpu_layers n_threads n_batch",
        # An LLM has a system_prompt, an agent instructions.
        "system_prompt": "system system_message instructions system_instruction",
        "instructions": "system system_message system_prompt system_instruction",
        "prompt": "messages prompt_template prompt_template_str",
        "message": "user_prompt input prompt",
        "messages": "message user_prompt input prompt contents",
        "history": "message_history messages chat_history",
        "tools": "functions toolsets builtin_tools function_tools",
        "output_validators": "output_validator result_validator",
        "validation_context": "context",
        "settings": "model_settings",
        "budget": "usage_limits",
        "max_rounds": "max_iterations max_turns max_steps recursion_limit",
        "allow_parallel_tool_calls": "parallel_tool_calls",
        "hooks": "callbacks callback_manager",
        "approval": "requires_approval needs_approval",
        "timeout": "timeout_seconds",
    }
)
"""Names of options in other libraries. A word is replaced by the first of its options that the place takes."""
ELSEWHERE: Final = {
    **dict.fromkeys(
        ("system", "system_message", "system_prompt", "instructions", "system_instruction"),
        "pass system_prompt=... to the LLM or instructions=... to the Agent, or begin the messages of the prompt or "
        "history with ('system', ...)",
    ),
    **dict.fromkeys(
        (*OPTIONS["response_model"], *(word for word, own in OPTIONS.items() if own == ("output_cls",))),
        "pass output_cls=... to a ToolOrchestratingLLM, an Agent or Engine.submit",
    ),
    **dict.fromkeys(
        ("history", *(word for word, own in OPTIONS.items() if own == ("history",))),
        "pass history=... to Agent.run or to the Engine",
    ),
    "deps": "pass deps=... to Agent.run, to Agent.engine or to the Engine",
    "deps_type": "leave it out: a tool names the type, context: ToolContext[Shop], and deps=... is the value",
    "usage_limits": "pass budget=Budget(...) to the Agent, the Engine or the turn",
    "model_settings": "pass settings=Settings(...) to the LLM or the Agent",
    **dict.fromkeys(("api", "base_model"), "leave it out, or use OpenAI or OpenAICompatible"),
    "service": "leave it out, or use OpenAICompatible or OpenAIResponses",
}
"""What to do where a place takes none of the options that a word stands for."""

_RUN = {
    "tool tool_plain": "pass the functions, Agent(llm, tools=[...]); a parameter of type ToolContext is filled in",
    "output_validator result_validator": "pass Agent(..., output_validators=[...])",
    "system_prompt instructions": "pass Agent(..., instructions=...), a text or a function of the ToolContext",
    "override": "use toolcast.testing.use_llm(llm)",
    "toolset": "pass Agent(..., tools=[...])",
    "to_ag_ui to_a2a to_web": "use toolcast.serve.app(agent, ...)",
}
_TYPED = "use ToolOrchestratingLLM(output_cls, prompt, llm), and call it"
ATTRIBUTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Agent": {
        **_RUN,
        "run_sync invoke chat query": "use run(...), or await arun(...)",
        "ainvoke achat": "use arun(...)",
        "run_stream run_stream_sync run_stream_events iter": "use stream(...), or astream(...) in async code",
    },
    "Engine": {
        **_RUN,
        "run run_sync invoke chat query": "use submit(...), or await asubmit(...)",
        "arun ainvoke achat": "use asubmit(...)",
        "run_stream run_stream_sync run_stream_events iter": "use stream(...), or astream(...) in async code",
    },
    "Turn": {
        "data result final_output response": "use output for a typed result, text for a text",
        "content": "use text",
        "all_messages": "use history",
        "new_messages": "use messages",
        "all_messages_json new_messages_json": "use to_json()",
        "finish_reason": "use end",
    },
    "ToolOrchestratingLLM": {
        "create invoke predict extract": "call it with the values of the prompt's variables",
        "ainvoke apredict": "use acall(...)",
        "create_partial create_iterable stream_call": "use stream(...), or astream(...) in async code",
        "create_with_completion": "use run(...), whose result has output and response",
        "batch abatch": "use map(inputs), or amap(inputs) in async code",
    },
    "FunctionCallingLLM": {
        "invoke complete predict generate create completion generate_content prompt": "use chat(messages)",
        "ainvoke acomplete apredict agenerate acompletion": "use achat(messages)",
        "stream stream_complete": "use stream_chat(messages)",
        "astream astream_complete": "use astream_chat(messages)",
        "messages responses models beta": "use chat(messages), or for a typed output ToolOrchestratingLLM",
        "bind_tools": "use chat(messages, tools=[...]), or Engine(llm, tools), which runs them",
        "with_structured_output as_structured_llm structured_predict create_partial create_iterable": _TYPED,
        "batch abatch": "use ToolOrchestratingLLM(output_cls, prompt, llm).map(inputs)",
        "conversation": "use Engine(llm)",
    },
    "FunctionCallingLLM.chat": {"completions": "use chat(messages), or for a typed output ToolOrchestratingLLM"},
}
"""By class: attributes that objects of other libraries have in its place."""

NAMES: Final = {
    word: own
    for own, words in {
        "ToolContext": "RunContext RunContextWrapper",
        "TryAgain": "ModelRetry",
        "AutoLLM": "TestModel",
        "ScriptedLLM": "FunctionModel FakeListChatModel MockLLM",
        "capture_calls": "capture_run_messages",
        "CallableTool": "BaseTool StructuredTool FunctionTool Tool ToolDefinition",
        "tool": "function_tool",
        "ValidationError": "InstructorRetryException UnexpectedModelBehavior InstructorValidationError",
        "OutputTruncated": "IncompleteOutputException",
        "Budget": "UsageLimits",
        "BudgetExceeded": "UsageLimitExceeded",
        "Usage": "RunUsage RequestUsage",
        "Settings": "ModelSettings",
        "LLMError": "ModelHTTPError APIError APIStatusError",
        "RateLimited": "RateLimitError",
        "ConnectFailed": "APIConnectionError",
        "Timeout": "APITimeoutError",
        "AuthFailed": "AuthenticationError",
        "BadRequest": "BadRequestError",
        "NotFound": "NotFoundError",
        "OpenAI": "OpenAIModel OpenAIChatModel ChatOpenAI AsyncOpenAI",
        "OpenAIResponses": "OpenAIResponsesModel",
        "OpenAICompatible": "OpenAILike",
        "Anthropic": "AnthropicModel ChatAnthropic AsyncAnthropic",
        "Google": "GoogleModel GeminiModel Gemini GoogleGenAI ChatGoogleGenerativeAI",
        "Mistral": "MistralModel ChatMistralAI MistralAI",
        "Cohere": "CohereModel ChatCohere",
        "Bedrock": "BedrockConverseModel ChatBedrock ChatBedrockConverse",
        "Ollama": "ChatOllama OllamaModel",
        "llm": "get_model init_chat_model AzureOpenAI AzureChatOpenAI ChatGroq GroqModel completion acompletion",
        "FallbackLLM": "FallbackModel",
        "Message": "ChatMessage ModelMessage ModelRequest ModelResponse",
        "user": "HumanMessage UserPromptPart",
        "system": "SystemMessage SystemPromptPart",
        "assistant": "AIMessage",
        "tool_result": "ToolMessage",
        "ImagePart": "ImageUrl BinaryContent ImageBlock",
        "MCPServer": "MCPServerStdio MCPServerSSE MCPServerStreamableHTTP",
        "ToolOrchestratingLLM": "Instructor AsyncInstructor from_openai from_anthropic from_provider from_litellm "
        "PydanticOutputParser LLMTextCompletionProgram FunctionCallingProgram NativeOutput PromptedOutput",
        "ToolOrchestratingLLM.stream": "Partial",
        "ToolOrchestratingLLM.map": "IterableModel",
        "Turn": "AgentRunResult RunResult",
        "Agent": "AgentExecutor FunctionAgent ReActAgent create_react_agent create_agent Runner",
    }.items()
    for word in words.split()
}
"""Names that other libraries export, with the names in `toolcast` of what does their work."""

PROVIDERS: Final = {
    **dict.fromkeys(("google-gla", "google_genai", "google_ai"), "google"),
    **dict.fromkeys(("vertex_ai", "vertexai", "google_vertexai"), "google-vertex"),
    **dict.fromkeys(("openai-chat", "chatgpt"), "openai"),
    **dict.fromkeys(("azure_openai", "azure-openai"), "azure"),
    **dict.fromkeys(("bedrock_converse", "aws"), "bedrock"),
    **dict.fromkeys(("claude",), "anthropic"),
    **dict.fromkeys(("together_ai",), "together"),
    **dict.fromkeys(("fireworks_ai",), "fireworks"),
    **dict.fromkeys(("ollama_chat",), "ollama"),
    **dict.fromkeys(("hosted_vllm",), "vllm"),
    **dict.fromkeys(("lm_studio",), "lmstudio"),
    **dict.fromkeys(("dashscope",), "qwen"),
    **dict.fromkeys(("mistralai",), "mistral"),
    **dict.fromkeys(("moonshotai",), "moonshot"),
}
"""Names of providers in other libraries."""


def refuse_unknown(owner: str, options: Mapping[str, object], known: Sequence[str]) -> None:
    """Raise `TypeError` for keyword arguments that `owner` does not accept, with a suggestion for each."""
    unknown = [name for name in options if name not in known]
    if unknown:
        cast("dict[str, object]", options).clear()  # no frame of the traceback may hold a key
        raise TypeError("; ".join(f"{owner}() takes no {name!r}{_instead(name, known)}" for name in unknown))


def own_option(name: str, known: Sequence[str]) -> str | None:
    """Return the one of the options `known` that another library calls `name`; None if there is none."""
    words = (*OPTIONS.get(name, ()), *SETTINGS.get(name, ()))
    return next((word for word in words if word in known), None)


def _instead(name: str, known: Sequence[str]) -> str:
    from .settings import SettingsChanges  # which loads this module for errors

    if (option := own_option(name, known)) is not None:
        return f": pass {option}=..."
    setting, value, in_body = SETTINGS.get(name, (name,))[0], "...", ""
    if setting == "extra" or name in BODY:
        value = f"{{{name!r}: ...}}" if name in BODY else "{...}"
        setting, in_body = "extra", ", which goes into the request body"
    if setting in known:
        return f": pass {setting}={value}{in_body}"
    if setting in SettingsChanges.__annotations__ and "settings" in known:
        return f": pass settings=Settings({setting}={value}){in_body}"
    if name in ELSEWHERE:
        return f": {ELSEWHERE[name]}"
    if setting in SettingsChanges.__annotations__:
        return f": it is a setting, Settings({setting}={value}), of the LLM, the Agent or the ToolOrchestratingLLM"
    from difflib import get_close_matches  # for errors alone

    close = get_close_matches(name, known, n=1)
    return f": did you mean {close[0]}=?" if close else f". It takes: {', '.join(known)}"


class _ForeignAttribute:
    """An attribute that a class does not have: looking it up raises `AttributeError` with the word of toolcast.

    A `__getattr__` would make every other attribute several times slower, and replace the errors of properties. An
    attribute of the instance, or of a subclass, is found before this one.
    """

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, instance: object, owner: type) -> NoReturn:
        kind = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        raise AttributeError(f"{kind} has no attribute {self._name!r}: {self._instead}")

    def __getattr__(self, name: str) -> NoReturn:  # an attribute of a function is no descriptor
        raise AttributeError(f"there is no {self._name}.{name}: {self._instead}")


def refuse_attributes(kind: str) -> Callable[[T], T]:
    """Return a decorator for a class or a method that gives it the foreign attributes of `ATTRIBUTES[kind]`."""

    def decorate(owner: T) -> T:
        words = {word: instead for words, instead in ATTRIBUTES[kind].items() for word in words.split()}
        for word, instead in words.items():
            setattr(owner, word, _ForeignAttribute(word, instead))

        def __dir__(self: object) -> list[str]:
            return [name for name in object.__dir__(self) if name not in words or hasattr(self, name)]

        if isinstance(owner, type):
            cast("Any", owner).__dir__ = __dir__  # a completion does not offer them
        return owner

    return decorate


def missing_name(package: str, name: str) -> AttributeError | ImportError:
    """Return the error of a public package for a name that it does not have, with the name to use if there is one.

    Only the `__getattr__` of a package calls this.
    """
    # Python asks every package for its modules before it imports them, and tools for names with underscores.
    ordinary = name.startswith("_") or find_spec(f"{package}.{name}") is not None
    home = None if ordinary else home_of(NAMES.get(name, name))
    instead = "" if home is None else f": use {home}"
    # Of an `AttributeError`, `from toolcast import name` would replace the message by one of its own.
    asking: Any = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - public in all but its name
    if instead and "_handle_fromlist" in (asking.f_code.co_name, asking.f_back.f_code.co_name):
        return ImportError(f"cannot import name {name!r} from {package!r}{instead}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{instead}")


def home_of(name: str) -> str | None:
    """Return the full name of a public name, or of an attribute of one, wherever it is; None if there is none."""
    toolcast: Any = sys.modules["toolcast"]  # which imports this module
    first = name.partition(".")[0]
    packages = [
        toolcast,
        *[import_module(f"toolcast.{each}") for each in dir(toolcast) if find_spec(f"toolcast.{each}")],
    ]
    return next((f"{package.__name__}.{name}" for package in packages if first in package.__all__), None)
