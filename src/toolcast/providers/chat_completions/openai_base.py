"""The base of the chat-completions and Responses adapters.

The service's row in the services table decides which tools are offered, whether one can be required, which settings a
model rejects and which schemas can be strict. The two protocols differ in how each of these is written.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from typing_extensions import Unpack

from ...errors import BadRequest
from ...messages import Message, Part, TextPart
from ...values.credentials import Secret, SecretURL
from ...values.settings import Settings
from ...values.tool_spec import ToolSpec
from ..base import RequestOptions
from ..http_adapter import Endpoint, HTTPAdapter, RequestEncoder, join_url, thinking_effort, top_logprobs
from ..model_table import ModelFamily, listed_family
from ..refused_settings import EFFORTS, nearest_effort
from ..schemas.strict import openai_strict
from .services import ServiceSpec

if TYPE_CHECKING:
    from ..batch_codec import BatchCodec
    from ..embedding_codec import EmbeddingCodec
    from ..file_codec import FileCodec


class AddressOptions(TypedDict, total=False):
    """The keyword arguments of an adapter.

    `base_url` is the URL of the service, with or without the protocol's `path`, a slash or a query at its end;
    `headers` are additional headers of every request, which override the adapter's own.
    """

    api_key: Secret | None
    base_url: str | None
    headers: Mapping[str, str | Secret] | None


class OpenAIBaseAdapter(HTTPAdapter):
    """An adapter for one service of the services table."""

    path: ClassVar[str]

    def __init__(self, service: ServiceSpec, **address: Unpack[AddressOptions]) -> None:
        names = (*service.key_env, *service.bearer_env)
        url = SecretURL(join_url(address.get("base_url") or service.base_url, self.path))
        headers = address.get("headers") or {}
        super().__init__(Endpoint(service.name, url, address.get("api_key"), headers, service.key_header, names))
        self._service = service
        self.limits: Callable[[str, bool | str | int | None], frozenset[str]] = lru_cache(64, typed=True)(
            partial(model_limits, service)
        )

    def needs_chat(self, messages: Sequence[Message], settings: Settings, left_out: frozenset[str]) -> str | None:
        """Return why a request goes to chat completions; None if it does not."""
        return "api='chat'"

    @property
    def service_root(self) -> str:
        """The URL that other paths follow: that of chat without its path and a deployment."""
        url, mark, query = super().service_root.partition("?")
        root = re.sub(r"/deployments/[^/]+\Z", "", url.removesuffix(self.path))
        return f"{root}{mark}{query}"

    def batches(self) -> BatchCodec | None:
        """Return the codec of the service's batch API; None if it has none for this protocol."""
        spec = self._service.batches
        if spec is None or (self.path == "/responses" and not spec.responses):
            return None
        from .batches import OpenAIBatches  # only a job uses it

        # Azure has the prefix for the Responses API alone.
        prefix = "/v1" if self.path == "/responses" else spec.prefix
        return OpenAIBatches(self, spec, f"{prefix}{self.path}")

    def files(self) -> FileCodec | None:
        """Return the codec of the service's files; None if it has none that are known, for messages or for batches."""
        spec = self._service.files
        if spec is None and self._service.batches is None:
            return None
        from .files import OpenAIFiles

        return OpenAIFiles(self) if spec is None else OpenAIFiles(self, limit=spec.limit, purpose=spec.purpose)

    @property
    def takes_files(self) -> bool:
        """True if messages of this protocol can refer to files that the service stores."""
        spec = self._service.files
        return spec is not None and (spec.chat or self.path == "/responses")

    def embeddings(self) -> EmbeddingCodec | None:
        """Return the codec of the service's embeddings; None if it has none."""
        spec = self._service.embeddings
        if spec is None:
            return None
        from .embeddings import OpenAIEmbeddings

        return OpenAIEmbeddings(self, spec, self._embeddings_path)

    @property
    def _embeddings_path(self) -> str:
        """The path of the endpoint of embeddings after `service_root`."""
        url = self._endpoint.url.shown.partition("?")[0].removesuffix(self.path)
        if url.endswith("/embeddings"):  # the base URL is that of the endpoint itself
            return ""
        # A deployment of Azure is a part of the path of chat, which `service_root` is without.
        deployment = re.search(r"/deployments/[^/]+\Z", url)
        return f"{deployment.group() if deployment else ''}/embeddings"


class OpenAIBaseEncoder(RequestEncoder):
    """The part of a request to a service of the table that does not depend on its messages."""

    def __init__(self, service: ServiceSpec, options: RequestOptions, settings: Settings) -> None:
        super().__init__(service.name, options)
        self._service = service
        marks = service.cache_marks
        family = family_behind(service, options.model)
        if marks == "prompt_cache_breakpoint" and not (family and family.has("breakpoints")):
            marks = None  # such models are cached without marks
        self._marks = marks
        self.takes_cache_points: bool = marks is not None
        self._points = options.cache_points
        alone = any(word in options.model for word in service.cache_marks_for)
        self._marks_alone = settings.cache == "auto" and marks not in (None, "prompt_cache_breakpoint") and alone
        self._left_out = model_limits(service, options.model, settings.thinking)
        self._loose = settings.strict is False
        self._only_thinks = "thinking" in model_limits(service, options.model, False)
        self._has_efforts = family is not None and bool(family.efforts)
        self._effort = effort_for(service, options.model, settings.thinking)

    def _mark(self, encoded: dict[str, Any], name: str, types: tuple[str, ...], run_by_service: int) -> None:
        """Mark what the service is to cache: in the tools, and in the messages in the field `name`."""
        from ..cache_marks import MOST, Rules, mark_messages

        breakpoints = self._marks == "prompt_cache_breakpoint"

        def can_mark(block: Mapping[str, Any]) -> bool:
            return block.get("type") in types

        rules = Rules(
            can_mark,
            tools=self._marks == "cache_control",
            ordered=not breakpoints,
            most=None if breakpoints else MOST,
            ttls=("5m",) if self._marks == "message_cache_control" else ("5m", "1h"),
        )
        tools: list[dict[str, Any]] = self.fields.get("tools", [])
        choice = self.fields.get("tool_choice")
        marked = mark_messages(
            self.provider,
            rules,
            "prompt_cache_breakpoint" if breakpoints else "cache_control",
            tools,
            encoded[name],
            self._points,
            text=types[0],
            run_by_service=run_by_service if tools else 0,
            automatic=self._marks_alone,
            free=bool(tools) and choice in (None, "auto"),
        )
        encoded[name] = marked.messages
        if marked.tools != tools:
            encoded["tools"] = marked.tools
        if breakpoints and marked.an_hour:
            encoded["prompt_cache_options"] = {"ttl": _LIFETIMES[-1]}

    def _note_effort(self, thinking: bool | str | int) -> None:
        """Add a note if the model has another effort than what `thinking` says."""
        if thinking is not True and self._effort not in (None, thinking_effort(thinking)):
            self.notes.append(f"thinking={thinking!r} (the nearest effort, {self._effort!r}, was sent)")

    @abstractmethod
    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        """Return the definition of a tool."""

    @abstractmethod
    def _forcing(self, name: str) -> Any:
        """Return the `tool_choice` that requires this tool."""

    @abstractmethod
    def _part(self, part: Part) -> dict[str, Any]:
        """Return a part of a user message."""

    def _content(self, parts: Sequence[Part]) -> Any:
        """Return the content of a user message: text, or a list of parts."""
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        return "".join(texts) if len(texts) == len(parts) else [self._part(part) for part in parts]

    def _tools(self, options: RequestOptions, thinking: bool) -> None:
        """Add the tools, and which of them may or must be called."""
        tools, choice, service = options.tools, options.tool_choice, self._service
        forced = self.required_tool(choice)
        if tools and not service.tools:
            raise BadRequest(f"{service.name} takes no tools: leave them out, or use another service")
        if not tools:
            return
        as_auto = service.forced == "auto" or (not service.forced_while_thinking and (thinking or self._only_thinks))
        if forced and (as_auto or service.forced == "required"):
            tools = tuple(tool for tool in tools if tool.name == forced)
        self.fields["tools"] = [self._tool(tool) for tool in tools]
        if as_auto and (forced or choice == "required"):
            self.notes.append("tool_choice")
        elif forced and service.forced == "object":
            self.fields["tool_choice"] = self._forcing(self.names.sent[forced])
        elif choice is not None:
            self.fields["tool_choice"] = "required" if forced or choice == "any" else choice
        if service.parallel_flag and "parallel_tool_calls" not in self._left_out:
            self.fields["parallel_tool_calls"] = options.parallel

    def _service_settings(self, settings: Settings) -> None:
        """Add the settings that both protocols have under one name, and note those of Ollama."""
        if settings.service_tier is not None and self._service.service_tier:
            self.fields["service_tier"] = settings.service_tier
        elif settings.service_tier is not None:
            self.notes.append("service_tier")
        retention = settings.prompt_cache_retention
        if retention in _LIFETIMES and self._marks == "prompt_cache_breakpoint":
            self.fields["prompt_cache_options"] = {"ttl": retention}
        elif retention is not None and self._service.cache_retention and retention not in self._left_out:
            self.fields["prompt_cache_retention"] = retention
        else:
            self.note_settings(settings, "prompt_cache_retention")
        if self._service.cache_key and settings.prompt_cache_key is not None:
            self.fields["prompt_cache_key"] = settings.prompt_cache_key
        else:
            self.note_settings(settings, "prompt_cache_key")
        self.note_settings(settings, "keep_alive", "num_ctx", *(() if self._service.strict else ("strict",)))

    def _alternatives(self, settings: Settings) -> int | None:
        """Return the number of alternatives of each token to ask for; None if log probabilities are left out."""
        if "logprobs" not in self._left_out:
            return top_logprobs(settings.logprobs)
        self.note_settings(settings, "logprobs")
        return None

    def _strict(self, name: str, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """Return the schema to send, and True if it is strict. Add a note if it cannot be made strict."""
        if not self._service.strict or self._loose:
            return schema, False
        adapted = openai_strict(schema)
        if adapted.loose is None:
            return adapted.schema, True
        self.notes.append(f"a strict schema of {name} ({adapted.loose})")
        return schema, False


_LIFETIMES = ("30m", "12h")
"""The least that they keep what is cached, as a request may say (ibid.)."""


_PROTOCOLS = frozenset(("tools", "chat", "responses"))
"""What rules say about the protocols of OpenAI itself, which is not so at another address."""


def family_behind(service: ServiceSpec, model: str) -> ModelFamily | None:
    """Return the row of a model of a service, or of the model behind a deployment."""
    return listed_family(service.models_of or service.name, service.base_model or model, own=service.own)


def effort_for(service: ServiceSpec, model: str, thinking: bool | str | int | None) -> str | None:
    """Return the effort of a model that is nearest to `thinking`, of two the higher one. None without a setting.

    A model that is to think does so.
    """
    if thinking is None:
        return None
    family = family_behind(service, model)
    wanted, taken = thinking_effort(thinking), family.efforts.split() if family else []
    if not taken or wanted in taken or wanted not in EFFORTS:
        return wanted
    return nearest_effort(wanted, [effort for effort in taken if effort != "none"])


def model_limits(service: ServiceSpec, model: str, thinking: bool | str | int | None) -> frozenset[str]:
    """Return the fields that a service, or this model of it, rejects."""
    family = family_behind(service, model)
    found = frozenset(service.drops)
    if family is not None:
        found |= family.limits(effort_for(service, model, thinking))
    return found if service.api == "responses" else found - _PROTOCOLS
