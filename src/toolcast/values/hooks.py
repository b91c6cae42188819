"""Hooks: a class of callbacks for every call, `toolcast.hooks` to add them, and their dispatch.

A hook observes: it gets frozen values, cannot change a call, and an exception that it raises is logged, once for each
of its methods, and has no other effect. Hooks are collected when a call begins: those of the process, of the context
(`with toolcast.hooks(...)`), and those passed to the objects that take part in it (an orchestrator, an engine, an LLM).
A call without hooks has no dispatcher, so that it costs one check per call, and nothing per event.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import replace
from inspect import iscoroutinefunction
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from ..events import ChatResponse
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, ToolCallPart
from .http_request import HTTPRequest
from .option_types import require
from .output_mode import OutputMode
from .secret_patterns import mask_secrets
from .server_tools import ServerTool
from .settings import Settings
from .states import Trace
from .tool_spec import ToolChoice, ToolSpec
from .usage import Usage

if TYPE_CHECKING:
    from .turn import Turn  # of agents, which a structured call does not load

logger: Final = logging.getLogger("toolcast")

Operation: TypeAlias = Literal["chat", "structured", "turn"]
"""`chat`: one response of a model. `structured`: a call of a `ToolOrchestratingLLM`, with its further attempts. `turn`:
a turn of an `Engine`."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CallInfo:
    """The operation that a hook is called for.

    Attributes:
        id: The id of the operation, unique in the process.
        operation: `"chat"`, `"structured"` or `"turn"`.
        provider: The provider of the model.
        model: The name of the model.
        attempt: The number of the request within the operation, from 1, as `Attempt.number` has it. In `error` and
            `end` it is that of the last request, in `tool_start` and `tool` that of the request whose answer called the
            tool; in `state` and in the methods of a turn it is 1.
        parent: The id of the operation that this one is part of: the turn of a request, or, as `turn id/tool call id`,
            the tool call that started it; None for an operation of its own.
        name: The name of the output type's tool in a structured call.
        session: The id of the `Session` whose turn it is, or whose turn it is part of; empty without one.
        cached: True if the answer to the request is from the cache of a `CachedLLM`: nothing was sent.
    """

    id: str
    operation: Operation
    provider: str = ""
    model: str = ""
    attempt: int = 1
    parent: str | None = None
    name: str = ""
    session: str = ""
    cached: bool = False


class HookedTool(Protocol):
    """The output of a tool that has ended, as a hook gets it: a `ToolOutput`."""

    @property
    def content(self) -> str:
        """The text that the model reads."""
        ...

    @property
    def tool_name(self) -> str:
        """The name of the tool."""
        ...

    @property
    def is_error(self) -> bool:
        """True if the call failed."""
        ...

    @property
    def error(self) -> Exception | None:
        """The error of a failed call."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class RequestInfo:
    """One request to a model, as a hook gets it.

    Attributes:
        messages: The messages, with the system prompt.
        settings: The merged settings.
        tool_choice: The tool choice.
        mode: The output mode; None is the LLM's default.
        stream: True for a streamed response.
        server_tools: The tools that the provider runs. Their credentials are `Secret`s.
    """

    messages: tuple[Message, ...]
    settings: Settings
    tool_choice: ToolChoice
    mode: OutputMode | None
    stream: bool
    _tools: Sequence[NamedSpec] = ()
    _http: HTTPRequest | None = None
    server_tools: tuple[ServerTool, ...] = ()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that the model may call, as copies: their schemas are shared by all calls."""
        return tuple([ToolSpec(tool.name, tool.description, deepcopy(dict(tool.parameters))) for tool in self._tools])

    @property
    def http(self) -> HTTPRequest | None:
        """The encoded HTTP request without credentials: headers that may be secret are `***`. None without HTTP."""
        request = self._http
        if request is None:
            return None
        body = request.mask(request.body.decode("utf-8", "replace")).encode()
        shown = {name: value if isinstance(value, str) else "***" for name, value in request.headers.items()}
        return replace(request, headers=shown, body=body, secret_url=None, secrets=())

    @property
    def url(self) -> str | None:
        """The URL of the HTTP request, without credentials; None without HTTP. Cheaper than `http`, a copy."""
        return None if self._http is None else self._http.url

    @property
    def hidden_tools(self) -> frozenset[str]:
        """The names of the tools whose types hide their input, so that their arguments are not to be shown."""
        return frozenset([tool.name for tool in self._tools if getattr(tool, "hides_input", False)])

    def mask(self, text: str) -> str:
        """Return `text` without the credentials of the HTTP request, and without what looks like one."""
        return mask_secrets(text) if self._http is None else self._http.mask(text)

    def __repr__(self) -> str:
        names = ", ".join([tool.name for tool in self._tools])
        return f"RequestInfo(messages={len(self.messages)}, tools=[{names}], stream={self.stream})"


class NamedSpec(Protocol):
    """A tool of a request: a `ToolSpec` or a `CallableTool`."""

    @property
    def name(self) -> str:
        """The name."""
        ...

    @property
    def description(self) -> str:
        """The description for the model."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        ...


class Hooks:
    """Callbacks for calls: subclass it with the methods that you need. All of them are sync, and must not block.

    They are called in the thread or task of the call. Values are frozen. An exception is logged and ignored.
    """

    def state(self, call: CallInfo, state: str) -> None:
        """Observe a state of a structured call or a turn (`toolcast.values.states`)."""

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        """Observe a request that is about to be sent, or that a `WrapperLLM` answers: each attempt of each call."""

    def first_token(self, call: CallInfo, seconds: float) -> None:
        """Observe the first content of a streamed response, `seconds` after its own request was begun.

        Earlier attempts and the waits between them are not part of `seconds`.
        """

    def response(self, call: CallInfo, response: ChatResponse, seconds: float) -> None:
        """Observe a response, `seconds` after its own request was begun: the `Attempt.seconds` of a complete one.

        It is complete, except for a streamed one that is rejected before its end, as its arguments cannot become valid:
        that one is as far as it has arrived, without tokens if the service reports them at the end.
        """

    def retry(self, call: CallInfo, error: Exception, wait: float) -> None:
        """Observe an attempt that failed with `error`, and is repeated in `wait` seconds."""

    def error(self, call: CallInfo, error: BaseException) -> None:
        """Observe the error that ended an operation; for a cancelled one the exception that cancelled it."""

    def end(self, call: CallInfo, usage: Usage, seconds: float) -> None:
        """Observe the end of an operation: after `response` or `error`, or of a stream that is closed before its end.

        `usage` is the sum over all its requests, and `seconds` the time from the beginning of the operation, with all
        attempts and waits.
        """

    def tool_start(self, call: CallInfo, tool_call: ToolCallPart) -> AbstractContextManager[object] | None:
        """Observe a tool that starts.

        Returns:
            None, or a context manager that is entered around the tool, in the thread or task that runs it.
        """

    def tool(self, call: CallInfo, tool_call: ToolCallPart, output: HookedTool, seconds: float) -> None:
        """Observe the result of a tool call; one that was not run (denied, or invalid) has 0 seconds."""

    def turn_start(self, call: CallInfo, messages: tuple[Message, ...]) -> None:
        """Observe a turn of an agent that starts with `messages`."""

    def turn(self, call: CallInfo, turn: Turn[Any]) -> None:
        """Observe a turn of an agent that has ended, in whichever way."""


_here: ContextVar[tuple[Hooks, ...]] = ContextVar("toolcast_hooks", default=())
_operation: ContextVar[str | None] = ContextVar("toolcast_operation", default=None)
_process: list[Hooks] = []
_removing = Lock()
_logged: set[tuple[type[Hooks], str]] = set()
_numbers = count(1)


class HookHandle:
    """Hooks of the process, until `remove`; also a context manager."""

    def __init__(self, added: tuple[Hooks, ...]) -> None:
        self._added = added

    def remove(self) -> None:
        """Remove the hooks. Idempotent."""
        with _removing:  # else another thread may remove between the search of an index and its use
            added, self._added = self._added, ()
            for hook in added:
                del _process[max(index for index, each in enumerate(_process) if each is hook)]

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class _Registry:
    """The hooks of contexts and of the process, of which `toolcast.hooks` is the only instance."""

    def __repr__(self) -> str:
        return f"hooks({len(_here.get())} in this context, {len(_process)} in the process)"

    @contextmanager
    def __call__(self, *hooks: Hooks) -> Generator[None]:
        """Add hooks inside a `with` block: in this thread or task, and in those that are started from it."""
        token = _here.set((*_here.get(), *as_hooks(hooks)))
        try:
            yield
        finally:
            _here.reset(token)

    def add(self, *hooks: Hooks) -> HookHandle:
        """Add hooks for the process, until `remove` of the handle that is returned."""
        added = as_hooks(hooks)
        _process.extend(added)
        return HookHandle(added)


hooks: Final = _Registry()
"""`with toolcast.hooks(my_hooks):` for a context, `toolcast.hooks.add(my_hooks)` for the process."""


def as_hooks(given: Sequence[Hooks] | Hooks | None) -> tuple[Hooks, ...]:
    """Return the hooks that a caller passed as `hooks=`, one or several; raise `TypeError` for anything else."""
    found: tuple[object, ...] = tuple(given) if isinstance(given, (list, tuple)) else (given,)
    for hook in () if given is None else found:
        require("hooks", hook, Hooks, "an instance of a subclass of toolcast.Hooks, or a list of them")
        for name in vars(Hooks):
            if iscoroutinefunction(getattr(hook, name)):
                kind = type(hook).__name__
                raise TypeError(f"hooks: {kind}.{name} is async, and hooks are called without await: write it with def")
    return () if given is None else cast("tuple[Hooks, ...]", found)


def collect_hooks(*own: tuple[Hooks, ...]) -> tuple[Hooks, ...]:
    """Return the hooks of the process, of this context, and `own`, each once."""
    if not (_process or any(own) or _here.get()):
        return ()
    found = {id(hook): hook for group in (_process, _here.get(), *own) for hook in group}
    return tuple(found.values())


def current_operation() -> str | None:
    """Return the id of the turn or tool call that runs this code, as `CallInfo.parent` has it; None outside of one."""
    return _operation.get()


class LastRequest:
    """The last request of an operation: its number, the time when it was begun, and whether a cache answers it."""

    __slots__ = ("attempt", "began", "cached")

    def __init__(self) -> None:
        self.attempt: int = 1
        self.began: float = 0.0
        self.cached: bool = False


class CallHooks:
    """The hooks of one operation, which calls each of them with the operation's `CallInfo`.

    All dispatchers of an operation share its `last_request`.
    """

    __slots__ = ("hooks", "info", "last_request")

    def __init__(self, found: tuple[Hooks, ...], info: CallInfo, last_request: LastRequest | None = None) -> None:
        self.hooks: tuple[Hooks, ...] = found
        self.info: CallInfo = info
        self.last_request: LastRequest = LastRequest() if last_request is None else last_request

    def child(self, operation: Operation, origin: Mapping[str, Any], more: tuple[Hooks, ...] = ()) -> CallHooks:
        """Return the dispatcher of an operation that is part of this one, with further hooks."""
        info = _call_info(operation, origin, parent=self.info.id, session=self.info.session)
        return CallHooks((*self.hooks, *self._others(more)), info)

    def with_hooks(self, more: tuple[Hooks, ...]) -> CallHooks:
        """Return the dispatcher of the same operation with further hooks."""
        others = self._others(more)
        return CallHooks((*self.hooks, *others), self.info, self.last_request) if others else self

    def only(self, more: tuple[Hooks, ...]) -> CallHooks | None:
        """Return a dispatcher of the same operation for those of `more` that are not among its hooks; None for none."""
        others = self._others(more)
        return CallHooks(others, self.info, self.last_request) if others else None

    def _others(self, more: tuple[Hooks, ...]) -> tuple[Hooks, ...]:
        known = {id(hook) for hook in self.hooks}
        return tuple([hook for hook in more if id(hook) not in known])

    def begin_request(self, attempt: int, began: float, *, cached: bool = False) -> CallHooks:
        """Return the dispatcher for the request of this number, which was begun at the time `began`."""
        last = self.last_request
        last.attempt, last.began, last.cached = attempt, began, cached
        return self.for_last_request()

    def for_last_request(self) -> CallHooks:
        """Return the dispatcher for the last request of the operation."""
        last = self.last_request
        return CallHooks(self.hooks, replace(self.info, attempt=last.attempt, cached=last.cached), last)

    def emit(self, method: str, *values: Any) -> None:
        """Call a method of every hook, in order; log an exception."""
        for hook in self.hooks:
            self._call(hook, method, values)

    def observer(self) -> Callable[[str, str], object] | None:
        """Return an observer that calls the hooks' `state`; None if no hook overrides it: states are then not built."""
        found = tuple([hook for hook in self.hooks if type(hook).state is not Hooks.state])
        if not found:
            return None

        def notify(call_id: str, state: str) -> None:
            for hook in found:
                self._call(hook, "state", (state,))

        return notify

    @contextmanager
    def within(self, tool: str | None = None) -> Generator[None]:
        """Run the block as part of the operation, or of its tool call with the id `tool`."""
        token = _operation.set(self.info.id if tool is None else f"{self.info.id}/{tool}")
        try:
            yield
        finally:
            _operation.reset(token)

    @contextmanager
    def around_calls(self) -> Generator[None]:
        """Run the block as part of the operation, whose hooks observe the calls in it as well."""
        with self.within(), hooks(*self.hooks):
            yield

    def observe_states(self, trace: Trace) -> None:
        """Let the hooks that override `state` observe `trace`."""
        if (observer := self.observer()) is not None:
            trace.add_observer(observer)

    @contextmanager
    def around_tool(self, tool_call: ToolCallPart) -> Generator[None]:
        """Call `tool_start`, and run the block as part of the tool call, inside of the returned context managers."""
        with self.within(tool_call.id), ExitStack() as stack:
            for hook in self.hooks:
                self._enter(stack, hook, tool_call)
            yield

    def _enter(self, stack: ExitStack, hook: Hooks, tool_call: ToolCallPart) -> None:
        manager = self._call(hook, "tool_start", (tool_call,))
        if manager is None:
            return
        try:
            manager.__enter__()
        except Exception as error:  # the user's hook: logged, none of the call's business
            _log_once(hook, "tool_start", error)
            return
        stack.callback(self._leave, hook, manager)

    def _leave(self, hook: Hooks, manager: AbstractContextManager[object]) -> None:
        try:
            manager.__exit__(None, None, None)
        except Exception as error:  # the user's hook: logged, none of the call's business
            _log_once(hook, "tool_start", error)

    def _call(self, hook: Hooks, method: str, values: tuple[Any, ...]) -> Any:
        try:
            return getattr(hook, method)(self.info, *values)
        except Exception as error:  # the user's hook: logged, none of the call's business
            _log_once(hook, method, error)
            return None


def begin_operation(
    operation: Operation, origin: Mapping[str, Any], hooks: tuple[Hooks, ...], **more: str
) -> CallHooks:
    """Return the dispatcher of an operation that begins now.

    Args:
        operation: The kind of operation.
        origin: The provider and the model.
        hooks: Its hooks, from `collect_hooks`; those of its parts may be all that there is.
        **more: Further attributes of its `CallInfo`.
    """
    return CallHooks(hooks, _call_info(operation, origin, parent=_operation.get(), **more))


def _call_info(operation: Operation, origin: Mapping[str, Any], **more: Any) -> CallInfo:
    id = more.pop("id", None) or f"{operation}-{next(_numbers)}"
    return CallInfo(id, operation, origin["provider"], origin["model"], **more)


def _log_once(hook: Hooks, method: str, error: Exception) -> None:
    key = (type(hook), method)
    if key not in _logged:
        _logged.add(key)
        name, kind = f"{type(hook).__name__}.{method}", type(error).__name__
        logger.error("the hook %s raised %s; later errors of it are not logged", name, kind, exc_info=error)
