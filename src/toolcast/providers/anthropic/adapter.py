"""Anthropic's Messages protocol: messages to requests.

Anthropic is strict about the order of messages: roles alternate, tool results come first in the turn after the calls,
thoughts are returned unchanged, blank text is rejected. So messages are converted to blocks, and each block goes into
the turn it belongs to. What a model takes is in its row of model_table.py; a model without one is taken for another
vendor's, behind another server of the same protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import BadRequest, LLMError
from ...messages import (
    AudioPart,
    CachePoint,
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
)
from ...values.credentials import API_KEY_VARIABLES, Secret, SecretURL
from ...values.server_tools import CodeExecution, RemoteMCP
from ...values.settings import NOTHING_SET, Settings
from ...values.tool_spec import ToolChoice, ToolSpec, legal_name
from ..base import RequestInput, RequestOptions, ResponseDecoder
from ..content_parts import (
    FAILED,
    POINT,
    add_turn,
    arguments_object,
    check_parts,
    count_system_messages,
    has_cache_point,
    inline_data,
    point_block,
    unique_ids,
    unsupported_part,
)
from ..http_adapter import (
    CACHE_SETTINGS,
    Endpoint,
    HTTPAdapter,
    RequestEncoder,
    cache_by_options,
    join_url,
    thinking_budget,
    thinking_effort,
)
from ..http_errors import ErrorSource
from ..model_features import claude_family, provider_defaults
from ..schemas.strict import anthropic_schema
from ..tool_calls.json_calls import (
    CallFormat,
    answer_format,
    described,
    instructions,
    response_schema,
    with_instructions,
)
from .decoder import AnthropicDecoder
from .tool_inputs import RenamingDecoder, tool_input

if TYPE_CHECKING:
    from ..batch_codec import BatchCodec
    from ..file_codec import Exchange, FileCodec


class AnthropicAdapter(HTTPAdapter):
    """An adapter for one endpoint of the Messages API.

    Args:
        bearer: A token that is sent as `Authorization: Bearer` if there is no `api_key`.
        base_url: The URL, with or without `/v1`, `/v1/messages`, a slash or a query at its end.
        headers: Additional headers of every request, such as `anthropic-beta`; they override the adapter's own.
        endpoint: Another endpoint, in place of all these.
    """

    fixed_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}
    has_signed_thoughts: ClassVar[bool] = True

    def __init__(
        self,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        bearer: Secret | None = None,
        endpoint: Endpoint | None = None,
    ) -> None:
        key, header = (api_key, "x-api-key") if api_key else (bearer, "authorization")
        url = _messages_url(base_url or "https://api.anthropic.com")
        own = Endpoint("anthropic", url, key, headers or {}, header, API_KEY_VARIABLES["anthropic"])
        super().__init__(endpoint or own)
        self._holds = cache_by_options(_can_hold)
        self._lost_containers: set[str] = set()  # those in which code ran, and that have expired
        self._takes_late_system = True  # until it is refused, by a server of an older protocol for example

    @property
    def service_root(self) -> str:
        """The URL that the paths of batches follow, which ends in `/v1` as a rule."""
        url, mark, query = super().service_root.partition("?")
        return f"{url.removesuffix('/messages')}{mark}{query}"

    def batches(self) -> BatchCodec | None:
        """Return the codec of Message Batches; None if the endpoint has none."""
        from .batches import AnthropicBatches

        return AnthropicBatches(self)

    def files(self) -> FileCodec | None:
        """Return the codec of files; None if the endpoint has none."""
        from .files import AnthropicFiles

        return AnthropicFiles(self)

    @property
    def takes_files(self) -> bool:
        """True if the endpoint has files."""
        return True

    def count_tokens(self, request_input: RequestInput, settings: Settings) -> Exchange[int]:
        """Return the request that counts the input tokens of a request."""
        from ..token_counters import count_adapted, count_by_anthropic

        def count() -> Exchange[int]:
            return count_by_anthropic(self.request(request_input, settings), self.post)

        return count_adapted(count, lambda refusal: self.adapt_to(refusal, request_input, settings))

    def can_hold(self, request_input: RequestInput) -> bool:
        """Return True if the text of a response can be constrained to the schema of these tools."""
        return self._holds(replace(request_input, mode="json_schema"), NOTHING_SET)

    def call_format(self, options: RequestInput | RequestOptions) -> CallFormat | None:
        """Return the format of tool calls in the text of a response."""
        return answer_format(options)

    def encoder(self, options: RequestOptions, settings: Settings) -> AnthropicRequestEncoder:
        """Return the encoder of requests with these options and settings."""
        encoder = self._encoder(options, settings)
        encoder.lost_containers = self._lost_containers
        encoder.takes_late_system = encoder.takes_late_system and self._takes_late_system
        return encoder

    def _encoder(self, options: RequestOptions, settings: Settings) -> AnthropicRequestEncoder:
        return AnthropicRequestEncoder(options, settings, own=self.is_at("anthropic.com"))

    def adapt_to(self, refusal: LLMError, request_input: RequestInput, settings: Settings) -> bool:
        """Leave out of all requests what the service has refused, if nothing depends on it. Return True for that."""
        if "container" in str(refusal).lower():
            parts = [part for message in request_input.messages for part in message.server_tools]
            found = [part.raw["id"] for part in parts if part.raw and _is_container(part)]
            self._lost_containers.update(found)
            if found:
                return True
        if not _REFUSED_ROLE.search(str(refusal)):
            return super().adapt_to(refusal, request_input, settings)
        self._takes_late_system = False
        self.forget_encoders()
        return True

    def protocol_decoder(self, source: ErrorSource, request_input: RequestInput) -> ResponseDecoder:
        """Return the decoder of the protocol's events."""
        keys = {tool.name: keys for tool in request_input.tools if (keys := tool_input(tool).keys)}
        decoder = AnthropicDecoder(source, request_input)
        return RenamingDecoder(decoder, keys) if keys else decoder


_REFUSED_ROLE = re.compile(r"(?i)role:? \W?system|system\W? as an input message role")
"""Refusals of a late system message: "role 'system' is not supported on this model", 'Unexpected role "system"'."""


def _messages_url(base_url: str) -> SecretURL:
    versioned = re.match(r"[^?]*/(v1|messages)/*\s*(\?|$)", base_url)
    return SecretURL(join_url(base_url, "/messages" if versioned else "/v1/messages"))


def _called(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields with tools of these names, which were called and are not offered."""
    tools = [{"name": legal_name(name), "input_schema": {"type": "object"}} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


def _can_hold(options: RequestOptions, settings: Settings) -> bool:
    form = answer_format(options)
    return form is None or anthropic_schema(response_schema(form)).loose is None


class AnthropicRequestEncoder(RequestEncoder):
    """The part of a Messages request that does not depend on its messages."""

    protected_fields: ClassVar[tuple[str, ...]] = ("tool_choice", "output_config.format")
    protocol: ClassVar[str] = "anthropic"
    """The row of `FORMS` (server_tool_forms.py) with the tools that the service runs."""
    takes_server_tools: ClassVar[bool] = True
    returns_server_tools: ClassVar[bool] = True
    takes_cache_points: bool = True
    lost_containers: Container[str] = ()

    def __init__(self, options: RequestOptions, settings: Settings, *, own: bool = True) -> None:
        super().__init__("anthropic", options)
        self._points = options.cache_points
        self._marks_alone = settings.cache == "auto"
        self._family = family = claude_family(options.model, own=own)
        self._facts = provider_defaults("anthropic").corrected(family and family.facts)
        self._thinks_by = (family.thinking if family else "") or "budget"
        self.binds_thoughts: bool = self._has("binds_thoughts")
        self.takes_late_system: bool = self._has("late_system")
        self._call_format = answer_format(options)
        self._beside_tools = options.answers > 0
        self._strict = bool(settings.strict and self._facts.strict)
        if settings.strict and not self._strict:
            self.notes.append("strict")
        self._tools = [self._tool(tool) for tool in options.tools]
        self._server_tools = self.server_tools(options, self.protocol)
        self.fields.update({"model": options.model, "max_tokens": 0, "messages": [], "stream": options.stream})
        if self._call_format is not None:
            self.fields["output_config"] = {"format": self._format(self._call_format)}
            forcing = False
            if self._beside_tools:
                self._offer_others(options)
        else:
            forcing = self._choose(options)
        if options.server_tools:
            self._run_by_service(options)
        needed = "tools" not in self.fields and (self._call_format is None or self._beside_tools)
        self.called: Callable[[Sequence[str]], dict[str, Any]] | None = _called if needed else None
        self._sampling(settings, thinks=self._think(settings, forcing=forcing))

    def _has(self, trait: str) -> bool:
        return self._family is not None and self._family.has(trait)

    def encode_messages(self, messages: Sequence[Message]) -> dict[str, Any]:
        """Return the messages and the system prompt."""
        if self._call_format is not None and not self._beside_tools:
            messages = with_instructions(messages, instructions(self._call_format))
        start = count_system_messages(messages)
        encoded: dict[str, Any] = {"messages": self._turns(messages[start:])}
        if self._server_tools or (messages and messages[-1].role != "user"):
            container = None if "container" in self.fields else self._container(messages)
            encoded |= {} if container is None else {"container": container}
        if texts := [block for message in messages[:start] for block in self._blocks(message)]:
            encoded["system"] = texts[0]["text"] if len(texts) == 1 and "text" in texts[0] else texts
        if self._call_format is not None and not self._beside_tools and _has_calls(messages):
            # Calls in the history are rejected if their tools are not defined.
            encoded["tools"] = [*self._tools, *self._server_tools]
            if not self._server_tools:
                encoded["tool_choice"] = {"type": "none"}
        if self._points or self._marks_alone or has_cache_point(messages):
            self._mark(encoded)
        return encoded

    def _container(self, messages: Sequence[Message]) -> str | None:
        """Return the container in which code ran last; without the service's tools, only if code may wait in it.

        It does after `pause_turn`, and for the results of tools that it has called. In a later turn its files are used.
        """
        for message in reversed(messages):
            found = [part.raw["id"] for part in message.server_tools if part.raw and _is_container(part)]
            if found:
                return None if found[-1] in self.lost_containers else str(found[-1])
            if not self._server_tools and all(not isinstance(part, ToolResultPart) for part in message.parts):
                return None
        return None

    def _mark(self, encoded: dict[str, Any]) -> None:
        """Mark what the service is to cache."""
        from ..cache_marks import Rules, add_automatic, find_marks, marked

        rules = Rules(_can_be_marked)
        tools: list[dict[str, Any]] = encoded.get("tools") or self.fields.get("tools") or []
        prompt: Any = encoded.get("system") or []
        system: list[dict[str, Any]] = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        turns: list[dict[str, Any]] = encoded["messages"]
        contents = [turn["content"] for turn in turns]
        run = len(self._server_tools) if tools else 0
        marks = find_marks("Anthropic", rules, tools, system, contents, self._points, run_by_service=run)
        if self._marks_alone:
            choice: dict[str, Any] = encoded.get("tool_choice") or self.fields.get("tool_choice") or {}
            forced = choice.get("type") in ("any", "tool")
            by_role = [(turn["role"], turn["content"]) for turn in turns]
            add_automatic(marks, rules, tools, system, by_role, free=bool(tools) and not forced)
        if any(section == 0 for section, _ in marks):
            encoded["tools"] = marked(tools, 0, marks, "cache_control")
        if any(section == 1 for section, _ in marks):
            encoded["system"] = marked(system, 1, marks, "cache_control")
        elif system:
            encoded["system"] = system[0]["text"] if len(system) == 1 else system
        else:
            encoded.pop("system", None)  # it was a point alone
        for section, turn in enumerate(turns, 2):
            turn["content"] = marked(turn["content"], section, marks, "cache_control")
        encoded["messages"] = _not_empty(turns)

    # -- tools

    def _run_by_service(self, options: RequestOptions) -> None:
        """Add the tools that the service runs."""
        self.fields["tools"] = [*self.fields.get("tools", ()), *self._server_tools]
        for tool in options.server_tools:
            if isinstance(tool, CodeExecution) and tool.container is not None:
                self.fields["container"] = tool.container
        if any(isinstance(tool, RemoteMCP) for tool in options.server_tools):
            from ..server_tool_forms import ANTHROPIC_MCP_BETA, anthropic_servers

            self.fields["mcp_servers"] = anthropic_servers(options.server_tools)
            self.headers["anthropic-beta"] = ANTHROPIC_MCP_BETA
            self.extended.append("mcp_servers")

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        made: dict[str, Any] = {"name": self.names.sent[tool.name]}
        if tool.description:
            made["description"] = tool.description
        made["input_schema"] = schema = tool_input(tool).schema
        if self._strict:
            strict, loose = anthropic_schema(schema)
            if loose is None:
                made |= {"input_schema": strict, "strict": True}
            else:
                self.notes.append(f"a strict schema of {tool.name} ({loose})")
        return made

    def _format(self, form: CallFormat) -> dict[str, Any]:
        schema, loose = anthropic_schema(response_schema(described(form) if self._beside_tools else form))
        if self._facts.json_schema is False:
            loose = f"{self.fields['model']} has no such output"
        if loose:
            raise BadRequest(
                f"the response cannot be constrained to a JSON schema: {loose}. Use mode='tool_call' or 'prompted'."
            )
        return {"type": "json_schema", "schema": schema}

    def _offer_others(self, options: RequestOptions) -> None:
        """Add the tools that may be called before the answer. The system prompt and the tools stay as without it."""
        if others := self._tools[: -options.answers]:
            self.fields["tools"] = others
            choice = "none" if options.answer_now else None
            if sent := self._choice(choice, None, parallel=options.parallel):
                self.fields["tool_choice"] = sent

    def _choose(self, options: RequestOptions) -> bool:
        """Add the tools and the tool choice. Return True if the model must call a tool."""
        choice, forced = options.tool_choice, self.required_tool(options.tool_choice)
        forcing = _forces(choice, forced)
        if not options.tools:
            if forcing:
                raise BadRequest(f"tool_choice={choice!r} needs tools")
            return False
        free = forcing and self._facts.forced_tools is False
        # Other servers of the protocol may ignore the name: only a tool that is offered can be called.
        only_one = self.names.sent[forced] if forced and (free or self._family is None) else None
        self.fields["tools"] = [tool for tool in self._tools if only_one in (None, tool["name"])]
        if free:
            self.notes.append("tool_choice")
            forcing, forced, choice = False, None, "auto"
        # A limit to one tool use would be one to one search, too.
        if sent := self._choice(choice, forced, parallel=options.parallel or bool(options.server_tools)):
            self.fields["tool_choice"] = sent
        return forcing

    def _choice(self, choice: ToolChoice, forced: str | None, *, parallel: bool) -> dict[str, Any]:
        if isinstance(choice, Mapping):
            return dict(choice)
        if choice == "none":
            return {"type": "none"}
        one = {} if parallel else {"disable_parallel_tool_use": True}
        if forced:
            return {"type": "tool", "name": self.names.sent[forced], **one}
        if choice is None:
            return {"type": "auto", **one} if one else {}
        return {"type": "auto" if choice == "auto" else "any", **one}

    # -- settings

    def _think(self, settings: Settings, *, forcing: bool) -> bool:
        """Add the token limit and the thinking configuration. Return True if the model thinks."""
        most = self._facts.max_output
        usual = _USUAL if self._thinks_by == "budget" else _MUCH
        tokens = settings.max_tokens or (min(most or usual, usual) if self._family else _LITTLE)
        self.fields["max_tokens"] = tokens
        thinking = settings.thinking
        if thinking is None or thinking_effort(thinking) == "none":
            self._without_thoughts(explicit=thinking is not None, forcing=forcing)
            return False
        if self._facts.thinking is False or (forcing and not self._facts.forced_while_thinking):
            self.notes.append("thinking")
            self._without_thoughts(explicit=False, forcing=forcing)
            return False
        if self._thinks_by == "effort" or (self._thinks_by == "either" and not thinking_budget(thinking)):
            # Without `display` such thoughts are empty (platform.claude.com/docs/en/build-with-claude/thinking).
            shown = {"display": "summarized"} if self._thinks_by == "effort" else {}
            self.fields["thinking"] = {"type": "adaptive", **shown}
            if thinking is not True:
                config: dict[str, Any] = self.fields.setdefault("output_config", {})
                config["effort"] = "low" if thinking == "minimal" else thinking_effort(thinking)
                if thinking == "minimal":
                    self.notes.append("thinking='minimal' (the least effort, 'low', was sent)")
            return True
        return self._think_within(thinking, settings.max_tokens, tokens)

    def _think_within(self, thinking: bool | str | int, limit: int | None, tokens: int) -> bool:
        """Add a thinking budget that leaves room for the response; disable thinking if there is none."""
        wanted = max(_LEAST, thinking_budget(thinking) or _BUDGETS.get(thinking_effort(thinking), _BUDGETS["high"]))
        if limit is None:
            tokens = min(tokens + wanted, self._facts.max_output or tokens + wanted)
        if wanted >= tokens:
            wanted = tokens // 2
        if wanted < _LEAST:
            self.notes.append(f"thinking (max_tokens={limit} leaves less than {_LEAST} for it)")
            return False
        self.fields["thinking"] = {"type": "enabled", "budget_tokens": wanted}
        self.fields["max_tokens"] = tokens
        return True

    def _without_thoughts(self, *, explicit: bool, forcing: bool) -> None:
        if not ((explicit and self._facts.thinking is not False) or (forcing and self._has("thinks"))):
            return
        off = self._family.off if self._family else "disabled"
        if off == "never":
            self.notes.append("thinking=False (the least effort, 'low', was sent)")
            self.fields.setdefault("output_config", {})["effort"] = "low"
        else:
            self.fields["thinking"] = {"type": off}

    def _sampling(self, settings: Settings, *, thinks: bool) -> None:
        stops = [stop for stop in settings.stop or () if stop.strip()]
        wanted = {
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "stop_sequences": stops or None,
            "seed": settings.seed,
            "service_tier": settings.service_tier,
        }
        left_out = set(self._left_out(settings, thinks))
        for name, value in wanted.items():
            if value is not None and name in left_out:
                self.notes.append(name)
            elif value is not None:
                self.fields[name] = value
        if len(stops) < len(settings.stop or ()):
            self.notes.append("stop")  # a blank stop sequence is rejected
        self.note_settings(settings, "logprobs", "keep_alive", "num_ctx", *CACHE_SETTINGS)

    def _left_out(self, settings: Settings, thinks: bool) -> Iterator[str]:
        yield "seed"
        if thinks or self._thinks_by == "effort":
            yield from ("temperature", "top_k")
        if self._thinks_by == "effort" or (thinks and settings.top_p is not None and settings.top_p < 0.95):
            yield "top_p"
        if self._has("one_of_two") and settings.temperature is not None and not thinks:
            yield "top_p"
        if self._family is not None and (settings.temperature or 0) > 1:
            yield "temperature"

    # -- messages

    def _turns(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return turns of alternating roles.

        A late system message is a turn of its own between a user turn and an answer, if the model takes it. Anywhere
        else it becomes a user message.
        """
        turns: list[dict[str, Any]] = []
        for message in unique_ids(_without_open_calls(messages)):
            role = "assistant" if message.role == "assistant" else "user"
            if message.role == "system" and self.takes_late_system and turns and turns[-1]["role"] != "assistant":
                role = "system"
            blocks = self._blocks(message)
            while blocks and turns and blocks[0]["type"] == POINT:
                turns[-1]["content"].append(blocks.pop(0))  # it belongs to what is before it
            if blocks:
                add_turn(turns, role, blocks)
        if not turns:
            raise _no_content()
        for turn in turns:
            if turn["role"] == "user":
                turn["content"].sort(key=_is_no_result)
        content = turns[-1]["content"]
        last = content[-1] if content[-1]["type"] != POINT else _last_block(content)
        if turns[-1]["role"] == "assistant" and last["type"] == "text":
            last["text"] = last["text"].rstrip()  # an assistant message to continue must not end in white space
        return turns

    def _blocks(self, message: Message) -> list[dict[str, Any]]:
        check_parts(self.provider, message.parts, *_TAKES[message.role])
        blocks: list[dict[str, Any]] = []
        for part in message.parts:
            if (cited := _citations(part)) is not None:
                _cite(blocks, cited)
            elif isinstance(part, TextPart) and part.citations:
                blocks += self._cited(part)
            elif block := self._block(part):
                blocks.append(block)
        return blocks

    def _cited(self, part: TextPart) -> Iterator[dict[str, Any]]:
        """Yield the blocks of a text with citations: the provider wants them on the blocks that they came on."""
        from ..citation_forms import cited_texts

        for text, citations in cited_texts(part, self.provider):
            if text.strip():
                yield {"type": "text", "text": text, **({"citations": citations} if citations else {})}

    def _block(self, part: Part) -> dict[str, Any] | None:
        match part:
            case TextPart():
                return {"type": "text", "text": part.text} if part.text.strip() else None
            case ThinkingPart():
                return _thought(part)
            case ToolCallPart():
                id, name = legal_name(part.id), legal_name(part.name)
                return {"type": "tool_use", "id": id, "name": name, "input": arguments_object(part), **_own(part)}
            case ServerToolPart():
                return None if _is_container(part) else dict(part.raw or {})
            case ToolResultPart():
                return self._result(part)
            case CachePoint():
                return point_block(part)
            case ImagePart():
                return {"type": "image", "source": self._image(part)}
            case DocumentPart():
                title: dict[str, Any] = {"title": part.name} if part.name else {}
                if part.citations:
                    title["citations"] = {"enabled": True}
                return {"type": "document", "source": self._document(part), **title}
            case FileRef():
                return _file(part)
            case _:
                raise unsupported_part(self.provider, part)

    def _result(self, result: ToolResultPart) -> dict[str, Any]:
        is_blank = result.is_error and not (result.images or result.content.strip())
        text = FAILED if is_blank else result.content
        content: Any = text
        if result.images:
            parts: tuple[Part, ...] = (TextPart(text), *result.images)
            content = [block for part in parts if (block := self._block(part))]
        error = {"is_error": True} if result.is_error else {}
        return {"type": "tool_result", "tool_use_id": legal_name(result.call_id), "content": content, **error}

    def _image(self, part: ImagePart) -> dict[str, Any]:
        if (found := inline_data(part)) is None:
            return {"type": "url", "url": part.url}
        kind, data = found
        kind = "image/jpeg" if kind == "image/jpg" else kind
        if kind not in _IMAGES:
            raise unsupported_part(self.provider, part, f"as {kind}: it takes {', '.join(sorted(_IMAGES))}")
        return {"type": "base64", "media_type": kind, "data": data}

    def _document(self, part: DocumentPart) -> dict[str, Any]:
        if part.data is not None and (part.media_type or "").startswith("text/"):
            return {"type": "text", "media_type": "text/plain", "data": part.data.decode("utf-8", "replace")}
        if (found := inline_data(part)) is None:
            return {"type": "url", "url": part.url}
        if found[0] != "application/pdf":
            raise unsupported_part(self.provider, part, "as a document: it takes PDF and text")
        return {"type": "base64", "media_type": found[0], "data": found[1]}


def _no_content() -> BadRequest:
    return BadRequest("no content: Anthropic needs a user message with text or media")


def _not_empty(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the turns that have more than points of the cache. Raise `BadRequest` if there is none."""
    kept = [turn for turn in turns if turn["content"]]
    if not kept:
        raise _no_content()
    return kept


def _file(part: FileRef) -> dict[str, Any]:
    """Return an uploaded file: an image, a document, or a file for the container in which code runs.

    Source: platform.claude.com/docs/en/build-with-claude/files.
    """
    kind = part.media_type or "application/pdf"
    source = {"type": "file", "file_id": part.id}
    if kind.startswith("image/"):
        return {"type": "image", "source": source}
    if kind not in ("application/pdf", "text/plain"):
        return {"type": "container_upload", "file_id": part.id}
    return {"type": "document", "source": source, **({"title": part.name} if part.name else {})}


def _without_open_calls(messages: Sequence[Message]) -> Sequence[Message]:
    """Return `messages` without calls of server tools that have no result, where the service rejects them.

    It continues the last message (`pause_turn`), and code that waits for the result of a tool that it has called.
    """
    last = messages[-1] if messages else None
    parts = [part for message in messages for part in message.server_tools]
    results = {part.call_id for part in parts if part.input is None}
    if all(part.call_id in results for part in parts):
        return messages
    return [
        message
        if message is last or message.tool_calls
        else replace(
            message,
            parts=tuple([p for p in message.parts if not isinstance(p, ServerToolPart) or p.call_id in results]),
        )
        for message in messages
    ]


def _is_container(part: ServerToolPart) -> bool:
    """Return True for the notice of the container in which code runs, which is no block of a message."""
    return part.raw is not None and part.raw.get("type") == "container"


# Thoughts cannot be marked, and blocks of the service's own tools go back unchanged.
_MARKABLE = frozenset(("text", "image", "document", "tool_use", "tool_result"))


def _can_be_marked(block: dict[str, Any]) -> bool:
    return block["type"] in _MARKABLE


def _last_block(content: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the last block of a turn that is no point of the cache; the first block if all are."""
    return next((block for block in reversed(content) if block["type"] != POINT), content[0])


def _is_no_result(block: Mapping[str, Any]) -> bool:
    return bool(block["type"] != "tool_result")


def _own(part: ThinkingPart | ToolCallPart) -> dict[str, Any]:
    """Return the data in a part that the provider wants back; empty for a part of another provider."""
    return dict((part.opaque or {}).get("anthropic") or {})


def _citations(part: Part) -> dict[str, Any] | None:
    """Return the citations of the text before a part, as sessions of the first versions have them; else None."""
    own = _own(part) if isinstance(part, ThinkingPart) else {}
    return own if own.get("type") == "text" else None


def _cite(blocks: list[dict[str, Any]], cited: Mapping[str, Any]) -> None:
    """Attach citations to the end of the last text, as a block of its own; drop them if that text has changed."""
    length = cited.get("characters") or 0
    last = blocks[-1] if blocks else {}
    if last.get("type") != "text" or "citations" in last or not 0 < length <= len(last["text"]):
        return
    before, text = last["text"][:-length], last["text"][-length:]
    if before.strip():
        last["text"] = before
    else:
        blocks.pop()  # blank text is rejected
    blocks.append({"type": "text", "text": text, "citations": cited["citations"]})


def _thought(part: ThinkingPart) -> dict[str, Any] | None:
    """Return a thought, or a block stored in one, unchanged; None without a signature: it is another model's."""
    if own := _own(part):
        return own
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.redacted}
    if part.signature:
        return {"type": "thinking", "thinking": part.text, "signature": part.signature}
    return None


def _forces(choice: ToolChoice, forced: str | None) -> bool:
    if isinstance(choice, Mapping):
        return choice.get("type") in ("any", "tool")
    return forced is not None or choice == "required" or choice == "any"


def _has_calls(messages: Sequence[Message]) -> bool:
    return any(isinstance(part, (ToolCallPart, ToolResultPart)) for message in messages for part in message.parts)


_IMAGES = frozenset(("image/gif", "image/jpeg", "image/png", "image/webp"))
_TAKES: dict[str, tuple[tuple[type, ...], str]] = {
    "system": ((TextPart, CachePoint), "a system message takes only text"),
    "user": (
        (TextPart, ImagePart, AudioPart, VideoPart, DocumentPart, FileRef, ToolResultPart, CachePoint),
        "only the model thinks and calls tools",
    ),
    "assistant": (
        (TextPart, ThinkingPart, ToolCallPart, ServerToolPart, CachePoint),
        "an assistant message takes text, thinking and tool calls",
    ),
    "tool": ((ToolResultPart, CachePoint), "a tool message takes only ToolResultPart"),
}

# The default of `max_tokens`, which is required; more than the rest of the context is rejected.
_LITTLE, _USUAL, _MUCH = 4_096, 16_384, 32_000
# The smallest budget that is accepted, and the budgets of thinking levels.
_LEAST = 1_024
_BUDGETS = {"minimal": _LEAST, "low": 2_048, "medium": 8_192, "high": 16_384}
