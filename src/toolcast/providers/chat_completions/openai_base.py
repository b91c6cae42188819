"""What OpenAI's two protocols have in common, for any service that speaks one of them.

Which tools are offered, whether one can be forced, what a model does not take and which schemas can be strict follows
from the service's row in `compatible`. How each of it is written is the protocol's own.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ...credentials import Secret, SecretURL
from ...errors import BadRequest
from ...messages import Part, TextPart
from ...settings import Settings
from ...tool_spec import ToolSpec
from ..base import RequestOptions
from ..http_adapter import Address, HTTPAdapter, RequestEncoder, effort, endpoint
from ..schemas.strict import openai_strict
from .services import ServiceSpec


class OpenAIBaseAdapter(HTTPAdapter):
    """The wire to one service of the table, at one address, with one key.

    `base_url` may end in a slash, carry a query, or be the full address of the protocol's `path`. `headers` go with
    every request, over the wire's own.
    """

    path: ClassVar[str]

    def __init__(
        self,
        service: ServiceSpec,
        *,
        api_key: Secret | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str | Secret] | None = None,
    ) -> None:
        names = (*service.key_env, *service.bearer_env)
        url = endpoint(base_url or service.base_url, self.path)
        super().__init__(Address(service.name, SecretURL(url), api_key, headers or {}, service.key_header, names))
        self._service = service


class OpenAIBaseEncoder(RequestEncoder):
    """One request to a service of the table, but for its messages."""

    def __init__(self, service: ServiceSpec, terms: RequestOptions, settings: Settings) -> None:
        super().__init__(service.name, terms)
        self._service = service
        self._left_out = frozenset(_left_out(service, terms.model, settings.thinking))

    @abstractmethod
    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        """A tool, as it is offered."""

    @abstractmethod
    def _forcing(self, name: str) -> Any:
        """The choice of the one tool with this name."""

    @abstractmethod
    def _part(self, part: Part) -> dict[str, Any]:
        """A part of what the user says."""

    def _content(self, parts: Sequence[Part]) -> Any:
        """What the user says: text, or its parts."""
        texts = [part.text for part in parts if isinstance(part, TextPart)]
        return "".join(texts) if len(texts) == len(parts) else [self._part(part) for part in parts]

    def _tools(self, terms: RequestOptions, thinking: bool) -> None:
        """Offer the tools, and say which of them may or must be called."""
        tools, choice, service = terms.tools, terms.tool_choice, self._service
        forced = self.forced(choice)
        if tools and not service.tools:
            raise BadRequest(f"{service.name} takes no tools: leave them out, or use another service")
        if not tools:
            return
        as_auto = service.forced == "auto" or (thinking and not service.forced_while_thinking)
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
            self.fields["parallel_tool_calls"] = terms.parallel

    def _strict(self, name: str, schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
        """The schema as it is sent, and whether it is strict. Where it could not be made so, that is noted."""
        if not self._service.strict:
            return schema, False
        adapted = openai_strict(schema)
        if adapted.loose is None:
            return adapted.schema, True
        self.notes.append(f"a strict schema of {name} ({adapted.loose})")
        return schema, False


def _left_out(service: ServiceSpec, model: str, thinking: bool | str | int | None) -> Iterator[str]:
    yield from service.drops
    name = model.rpartition("/")[2]
    off = thinking is not None and effort(thinking) == "none"
    on = {"always": True, "unless_off": not off, "if_on": bool(thinking), "if_off": off}
    for rule in service.rules:
        if on[rule.when] and re.match(rule.models, name):
            yield from rule.fields
