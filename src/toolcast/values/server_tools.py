"""Tools that the provider runs: `WebSearch`, `CodeExecution`, `ImageGeneration`, `FileSearch`, `URLContext`, ...

They stand beside a program's own tools in `tools=[...]`. The provider calls and runs them inside of one response;
what they did is in the message as `ServerToolPart`s. The adapters translate them (providers/server_tool_forms.py), and
raise `BadRequest` before sending for a tool, or an option of one, that the service does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields
from hashlib import blake2b
from typing import Any, ClassVar, Final, Literal, NamedTuple, cast

from ..errors import BadRequest
from ..lazy.lazy_dataclasses import dataclass
from ..messages import CachePoint, ToolCallPart
from .credentials import Secret, SecretURL
from .option_types import require, require_optional
from .tool_spec import ToolCachePoint

_SEQUENCES: Any = (list, tuple, set, frozenset)  # typed as Any, so that isinstance does not narrow to unknown types
ContextSize = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class ServerTool:
    """The base class of tools that the provider runs.

    Attributes:
        extra: Further fields of the provider's own definition of the tool, in its names; they override the others.
    """

    kind: ClassVar[str]
    """The name of the tool in messages, events and errors."""

    extra: Mapping[str, Any] | None = field(default=None, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        require_optional("extra", self.extra, Mapping, "a mapping")

    @property
    def label(self) -> str:
        """The class and what distinguishes the tool from others of its class, for errors."""
        return type(self).__name__

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The credentials in the tool, which are sent in the body of a request."""
        return ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data of the options that are set, with `***` in place of each credential.

        `extra` is the caller's data.
        """
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {"kind": self.kind, **{name: _plain(value) for name, value in values.items() if value}}


@dataclass(frozen=True, slots=True)
class WebSearch(ServerTool):
    """A search of the web.

    Attributes:
        max_uses: The most searches in one response. Anthropic.
        allowed_domains: The only domains to search, such as `"example.com"`. Anthropic, OpenAI, xAI, Groq.
        blocked_domains: The domains to leave out. Anthropic, Google on Vertex AI, Groq, OpenAI, xAI.
        country: The country of the user as a two-letter ISO code. Anthropic, OpenAI.
        region: The region or state of the user. Anthropic, OpenAI.
        city: The city of the user. Anthropic, OpenAI.
        timezone: The IANA time zone of the user. Anthropic, OpenAI.
        context_size: The amount of text from the results that the model reads. OpenAI.
    """

    kind: ClassVar[str] = "web_search"

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    country: str | None = None
    region: str | None = None
    city: str | None = None
    timezone: str | None = None
    context_size: ContextSize | None = None

    def __post_init__(self) -> None:
        ServerTool.__post_init__(self)
        _check_count("max_uses", self.max_uses)
        _check_domains(self)
        for name in ("country", "region", "city", "timezone"):
            require_optional(name, getattr(self, name), str, "str")
        if self.context_size not in (None, "low", "medium", "high"):
            raise ValueError(f"context_size={self.context_size!r}: expected 'low', 'medium' or 'high'")

    @property
    def location(self) -> dict[str, str]:
        """The parts of the user's location that are set, by name."""
        found = {name: getattr(self, name) for name in ("city", "region", "country", "timezone")}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class CodeExecution(ServerTool):
    """An interpreter of Python, and of shell commands where the provider has them, in the provider's sandbox.

    Attributes:
        container: The id of a container to use again. None: a new one. Anthropic, OpenAI.
        file_ids: The ids of uploaded files that are in the container. OpenAI.
    """

    kind: ClassVar[str] = "code_execution"

    container: str | None = None
    file_ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        ServerTool.__post_init__(self)
        require_optional("container", self.container, str, "str")
        _set_texts(self, "file_ids")
        if self.container is not None and self.file_ids:
            raise ValueError(
                "CodeExecution: expected container= or file_ids=, got both; a new container gets the files"
            )


@dataclass(frozen=True, slots=True)
class ImageGeneration(ServerTool):
    """A generator of images, which the model calls with a prompt. The images are in the message as `ImagePart`s.

    Attributes:
        model: The model that makes the images, such as `"gpt-image-2"`. None: the service's choice.
        size: The size, such as `"1024x1536"`, or `"auto"`.
        quality: The quality: `"low"`, `"medium"`, `"high"` or `"auto"`.
        background: The background: `"transparent"`, `"opaque"` or `"auto"`.
        output_format: The format: `"png"`, `"jpeg"` or `"webp"`.
        compression: The compression of JPEG and WebP, from 0 to 100.
        partial_images: The number of previews in a stream, from 0 to 3: `ImageOutput` events with `partial`.
        action: `"generate"`, `"edit"` or `"auto"`.
        moderation: The strictness of the filter: `"auto"` or `"low"`.
        input_fidelity: The fidelity to images of the conversation: `"low"` or `"high"`.
    """

    kind: ClassVar[str] = "image_generation"

    model: str | None = None
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    output_format: str | None = None
    compression: int | None = None
    partial_images: int | None = None
    action: str | None = None
    moderation: str | None = None
    input_fidelity: str | None = None

    def __post_init__(self) -> None:
        ServerTool.__post_init__(self)
        for name in ("compression", "partial_images"):
            require_optional(name, getattr(self, name), int, "int")
        for each in fields(self):
            if each.name not in ("compression", "partial_images", "extra"):
                require_optional(each.name, getattr(self, each.name), str, "str")
        if self.compression is not None and not 0 <= self.compression <= 100:
            raise ValueError(f"compression={self.compression}: expected 0 to 100")
        if self.partial_images is not None and not 0 <= self.partial_images <= 3:
            raise ValueError(f"partial_images={self.partial_images}: expected 0 to 3")


@dataclass(frozen=True, slots=True)
class FileSearch(ServerTool):
    """A search of files that were uploaded to the provider.

    Attributes:
        stores: The ids of what is searched: OpenAI's vector stores, Google's file search stores, xAI's collections.
        max_results: The most results of one search.
        filter: A condition on the metadata of files, in the provider's form: an object (OpenAI), text (Google).
    """

    kind: ClassVar[str] = "file_search"

    stores: Sequence[str] = ()
    max_results: int | None = None
    filter: Mapping[str, Any] | str | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        ServerTool.__post_init__(self)
        _set_texts(self, "stores")
        if not self.stores:
            raise ValueError("FileSearch: expected stores=[...] with at least one id, got none")
        _check_count("max_results", self.max_results)
        require_optional("filter", self.filter, (str, Mapping), "str, a mapping")


@dataclass(frozen=True, slots=True)
class URLContext(ServerTool):
    """A reader of the web pages whose URLs are in the conversation.

    Attributes:
        max_uses: The most pages in one response. Anthropic.
        allowed_domains: The only domains to read from. Anthropic.
        blocked_domains: The domains not to read from. Anthropic.
        max_content_tokens: The most tokens of one page that the model reads. Anthropic.
    """

    kind: ClassVar[str] = "url_context"

    max_uses: int | None = None
    allowed_domains: Sequence[str] = ()
    blocked_domains: Sequence[str] = ()
    max_content_tokens: int | None = None

    def __post_init__(self) -> None:
        ServerTool.__post_init__(self)
        _check_count("max_uses", self.max_uses)
        _check_count("max_content_tokens", self.max_content_tokens)
        _check_domains(self)


@dataclass(frozen=True, slots=True)
class RemoteMCP(ServerTool):
    """The tools of an MCP server that the provider connects to.

    What the model writes into a call goes to that server, and its answers go to the model: connect to servers that you
    trust. The credentials are sent to the provider; they are in no repr, log, hook, recording or cache key.

    Attributes:
        name: The name of the server in messages: letters, digits, `_` and `-`.
        url: The https URL of the server.
        token: The token of the server's `Authorization: Bearer`.
        headers: Further HTTP headers for the server; each value counts as a credential. OpenAI, xAI, Groq.
        allowed_tools: The only tools of the server that the model may call. Empty: all of them.
        require_approval: `"always"` (the default): the provider waits for an approval of each call, which an engine
            with `permissions` gives; everywhere else such a call is an error, and was not run. A provider that cannot
            wait for an approval is an error before sending. `"never"`: the provider runs the calls at once.
        description: A description of the server for the model. OpenAI, xAI, Groq.
    """

    kind: ClassVar[str] = "mcp"

    name: str
    url: str | SecretURL
    token: str | Secret | None = None
    headers: Mapping[str, str | Secret] = field(default_factory=dict[str, "str | Secret"], hash=False)
    allowed_tools: Sequence[str] = ()
    require_approval: Literal["always", "never"] = "always"
    description: str | None = None

    def __post_init__(self) -> None:
        # The secrets first: an error below must not show them in a traceback with local variables.
        _protect(self)
        ServerTool.__post_init__(self)
        require("name", self.name, str, "str")
        if not self.name or not all(each.isalnum() or each in "_-" for each in self.name) or not self.name.isascii():
            raise ValueError(f"RemoteMCP(name={self.name!r}): expected letters, digits, '_' and '-'")
        if not isinstance(self.url, SecretURL) or not self.url.reveal().startswith(("https://", "http://")):
            raise ValueError("RemoteMCP(url=...): expected a URL that begins with https://")
        _set_texts(self, "allowed_tools")
        if self.require_approval not in ("always", "never"):
            raise ValueError(f"require_approval={self.require_approval!r}: expected 'always' or 'never'")
        require_optional("description", self.description, str, "str")

    @property
    def label(self) -> str:
        """The class and the name of the server."""
        return f"RemoteMCP({self.name!r})"

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The credentials: the token, the headers, and those in the URL."""
        url = (self.url,) if isinstance(self.url, SecretURL) and self.url.has_secrets else ()
        values = (self.token, *self.headers.values(), *url)
        return tuple([value for value in values if isinstance(value, Secret)])


def _protect(tool: RemoteMCP) -> None:
    """Replace the credentials of a tool by `Secret`s."""
    token, headers, url = cast("tuple[object, object, object]", (tool.token, tool.headers, tool.url))
    if isinstance(token, str):
        object.__setattr__(tool, "token", Secret(token) if token else None)
    elif token is not None and not isinstance(token, Secret):
        raise TypeError(f"token: expected str or None, got {type(token).__name__}")
    if not isinstance(headers, Mapping):
        raise TypeError(f"headers: expected a mapping of names to values, got {type(headers).__name__}")
    kept: dict[str, Secret] = {}
    for name, value in cast("Mapping[object, object]", headers).items():
        if not (isinstance(name, str) and isinstance(value, (str, Secret))):
            raise TypeError("headers: expected str as the name and the value of each header")
        kept[name] = value if isinstance(value, Secret) else Secret(value)
    object.__setattr__(tool, "headers", kept)
    if isinstance(url, str):
        object.__setattr__(tool, "url", SecretURL(url))


APPROVED: Final = "Approved: the provider runs the call."
"""The result of a call that waits for an approval, and gets it: any other result is a denial."""


def waits_for_approval(call: ToolCallPart) -> bool:
    """Return True for a call of a remote MCP server that the provider runs once it is approved.

    Its name is that of the server and of the server's tool, `mcp.docs.search`. It is recognized by the provider's item,
    not by its name, which a tool of the caller may have too.
    """
    return call.opaque is not None and _item(call).get("type") == "mcp_approval_request"


def _item(call: ToolCallPart) -> Mapping[str, Any]:
    """Return the provider's item of a call; empty for a call of another protocol."""
    item: Mapping[str, Any] | None = (call.opaque or {}).get("responses")
    return item or {}


def is_reviewable(call: ToolCallPart) -> bool:
    """Return True if a call that waits for an approval is exactly what the provider will run.

    Its arguments may have been changed since, such as by a redaction.
    """
    item = _item(call)
    return not call.truncated and (item.get("id"), item.get("arguments")) == (call.id, call.arguments)


def unapproved(call: ToolCallPart) -> BadRequest:
    """Return the error for a call that waits for an approval, where it cannot be given."""
    return BadRequest(
        f"the provider asks for an approval of the call {call.name}, which was not run. An Engine with permissions= "
        "can approve it, with the arguments that it has; or accept all calls of this server with RemoteMCP(..., "
        "require_approval='never'), or limit them with allowed_tools="
    )


def credentials_digest(tools: Iterable[ServerTool]) -> str:
    """Return a hash of the credentials in `tools`, the same in each process; empty without any.

    For the keys of caches alone, which are hashed again: with other credentials a server may answer otherwise.
    """
    texts = [secret.reveal() for tool in tools for secret in tool.secrets]
    return blake2b("\0".join(texts).encode(errors="surrogatepass"), digest_size=16).hexdigest() if texts else ""


class SplitTools(NamedTuple):
    """The tools of a request: the caller's own, those that the provider runs, and the points of the cache in them."""

    own: list[Any]
    server_tools: tuple[ServerTool, ...]
    cache_points: tuple[ToolCachePoint, ...]


def split_tools(tools: Iterable[Any] | ServerTool | None) -> SplitTools:
    """Return the caller's own tools, and those that the provider runs.

    Raises:
        ValueError: Two are alike: of one class, or two MCP servers of one name.
        TypeError: `tools` is no list, or one is a class, such as `WebSearch`, in place of `WebSearch()`.
    """
    if tools is None or isinstance(tools, ServerTool):
        raise TypeError(f"tools={tools!r:.100}: expected a list of tools, such as [WebSearch()]; leave it out for none")
    own: list[Any] = []
    found: dict[str, ServerTool] = {}
    points: list[ToolCachePoint] = []
    for tool in tools:
        if isinstance(tool, CachePoint):
            if not own and not found:
                raise ValueError("tools: a CachePoint comes after the tools to cache, and there are none before it")
            points.append(ToolCachePoint(len(own), len(found), tool.ttl))
        elif not isinstance(tool, ServerTool):
            if isinstance(tool, type) and issubclass(tool, (ServerTool, CachePoint)):
                # A class is a tool of one's own: the model would fill in the options of this one.
                raise TypeError(f"tools: expected an object, got the class {tool.__name__}: write {tool.__name__}(...)")
            own.append(tool)
        elif tool.label in found:
            raise ValueError(f"tools: expected one {tool.label}, got two; put the options of both into one")
        else:
            found[tool.label] = tool
    return SplitTools(own, tuple(found.values()), tuple(points))


def _check_count(name: str, value: int | None) -> None:
    require_optional(name, value, int, "int")
    if value is not None and value < 1:
        raise ValueError(f"{name}={value}: expected at least 1")


def _check_domains(tool: WebSearch | URLContext) -> None:
    _set_texts(tool, "allowed_domains")
    _set_texts(tool, "blocked_domains")
    if tool.allowed_domains and tool.blocked_domains:
        raise ValueError(
            f"{type(tool).__name__}: expected allowed_domains= or blocked_domains=, got both; no provider takes both"
        )


def _set_texts(tool: ServerTool, name: str) -> None:
    """Set a field to the tuple of its strings."""
    given: Any = getattr(tool, name)
    values: tuple[Any, ...] = tuple(given) if isinstance(given, _SEQUENCES) else (None,)
    if not all(isinstance(value, str) for value in values):
        raise TypeError(f"{name}: expected a list of str, got {given!r:.100}")
    object.__setattr__(tool, name, values)


def _plain(value: Any) -> Any:
    """Return JSON-compatible data of the value of a field."""
    if isinstance(value, SecretURL):
        return value.shown
    if isinstance(value, Secret):
        return "***"
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in cast("Mapping[str, Any]", value).items()}
    return list(value) if isinstance(value, _SEQUENCES) else value
