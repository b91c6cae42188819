"""Start-up of `toolcast chat`: choose model, tools, session and screen, and build a `Repl` from them.

Anything missing is reported as one line before the first request. A store that cannot be written is an error only if a
session was named; otherwise the conversation stays in memory, and a note is shown.

The log of `toolcast chat --debug` on stderr: requests and their sizes, states, tracebacks; no message texts.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Final, TextIO

from ...agents.engine.engine import Engine
from ...agents.engine.history import estimate_tokens
from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.model_registry import split_provider
from ...stores.memory_store import MemoryStore
from ...stores.sqlite_store import SQLiteStore
from ...stores.store import Store
from ...text.live_display import can_redraw
from ...toolbox.fetch import fetch_tool
from ...toolbox.file_access import file_tools
from ...toolbox.questions import question_tool
from ...toolbox.shell_command import command_tool
from ...tools.callable_tool import CallableTool
from ...values.states import Observer
from ..api_keys import choose_chat_llm
from ..config_file import data_dir, prompt_history_file, resolve_alias, sessions_file
from ..mcp.chat_servers import open_servers
from ..mcp.server_approval import ApprovalTerminal
from ..model_list import list_models
from ..output import command_line_text
from ..pull_command import load_with_progress
from ..session_index import SessionIndex
from .clipboard import Clipboard
from .file_changes import ChangeJournal
from .modes import MODES
from .open_session import GENERATED_ID, ChatSetup, OpenConversation
from .printed_text import PrintedText
from .repl import Repl
from .screen import PlainScreen, Screen
from .slash_commands import COMMANDS, completions
from .tool_files import load_tools

logger: Final = logging.getLogger("toolcast")

_PER_EVENT_STATES: Final = frozenset(("streaming_response", "routing", "thinking", "tool_execution", "content_output"))
"""States of the loop that occur with every event: too many for a log."""


@contextmanager
def logging_to(stream: TextIO | None) -> Generator[None]:
    """Send the library's log to `stream`, or with None discard it, because a log line would disturb the screen."""
    handler = logging.NullHandler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    if stream is not None:
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before[1]
        logger.setLevel(before[0])  # the attribute alone would leave what the logger has cached


def log_turn(engine: Engine, state: str) -> None:
    """Log a state of a turn, and the size of the request that starts with it."""
    logger.debug("turn: %s", state)
    if state == "streaming":
        known, history = engine.llm.metadata, engine.history
        logger.debug(
            "request to %s %s: %d messages, about %d tokens, %d tools",
            *(known.provider, known.model_name, len(history), estimate_tokens(history), len(engine.tools)),
        )


def log_loop(id: str, state: str) -> None:
    """Log a state of the loop."""
    if state not in _PER_EVENT_STATES:
        logger.debug("repl: %s", state)


def log_failure(error: BaseException) -> None:
    """Log the traceback of an error."""
    logger.debug("%s", "".join(traceback.format_exception(error)).rstrip())


_SHOWN_IDS: Final = 120
"""Characters of the ids that an error message lists."""


@dataclass(frozen=True, slots=True)
class ReplOptions:
    """The command line of `toolcast chat`."""

    model: str | None = None
    host: str | None = None
    token: str | None = None
    tools: str | None = None
    mode: str | None = None
    system: str = ""
    session: str | None = None
    continues: bool = False
    """Resume the session that was used last in this directory, or else anywhere."""
    resume: bool = False
    """Choose the session to resume from a list."""
    debug: bool = False
    lines: bool = False
    no_mcp: bool = False
    prompt: str | None = None
    """The only message; None is a conversation."""

    def first_model(self) -> FunctionCallingLLM:
        """Return the LLM to start with."""
        return choose_chat_llm(self.model, self.host, self.token)

    def other_model(self, name: str) -> FunctionCallingLLM:
        """Return the LLM of that name. Host and token belong to one provider, so no other provider gets them."""
        name = resolve_alias(name)
        same = split_provider(name)[0] == (split_provider(self.model)[0] if self.model else "ollama")
        return choose_chat_llm(name, self.host if same else None, self.token if same else None)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The three standard streams, and the environment variables that describe the terminal."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]

    @property
    def takes_codes(self) -> bool:
        """True if a person uses a terminal that understands escape codes. `NO_COLOR` concerns colours only."""
        return self.stdin.isatty() and can_redraw(self.stdout, self.environ)


@contextmanager
def open_repl(options: ReplOptions, terminal: Terminal) -> Generator[Repl]:
    """Yield the REPL for `options`, and close its resources at the end.

    Raises:
        ToolcastError: A model, a tool file or a session is missing.
    """

    def log_engine(turn: str, state: str) -> None:
        log_turn(repl.conversation.engine, state)

    setup = _chat_setup(options, can_ask=terminal.stdin.isatty(), observer=log_engine if options.debug else None)
    load_with_progress(setup.llm, terminal.stderr)
    data = data_dir(environ=terminal.environ)
    with ExitStack() as closing:
        printed = PrintedText()
        closing.enter_context(logging_to(printed.stream(terminal.stderr) if options.debug else None))
        if not options.no_mcp:
            asking = ApprovalTerminal(terminal.stdin, terminal.stderr)
            setup = setup.with_servers(closing.enter_context(open_servers(setup.tool_names, asking, terminal.environ)))
        resumes = options.continues or options.resume or options.session is not None
        store, warning = _store(data, closing, required=resumes)
        clipboard = Clipboard(terminal.environ, terminal.stdout if terminal.takes_codes else None)
        closing.callback(clipboard.close)
        screen = _screen(terminal, data, clipboard, printed, by_line=options.lines)
        if not isinstance(screen, PlainScreen):
            closing.enter_context(redirect_stdout(printed.stream(terminal.stdout)))
            closing.enter_context(redirect_stderr(printed.stream(terminal.stderr)))
        repl = Repl(
            OpenConversation(setup, store, _resumed_id(options, store, setup.root, terminal)),
            screen,
            model=options.other_model,
            models=partial(list_models, make=options.other_model),
            clipboard=clipboard,
            observer=log_loop if options.debug else None,
            on_error=log_failure if options.debug else None,
        )
        is_dialog = screen.is_interactive and options.prompt is None
        for line in filter(None, (warning, *(_greeting(repl) if is_dialog else ()))):
            screen.note(line)
        if options.prompt is None and terminal.takes_codes and isinstance(screen, PlainScreen):
            screen.note("For colours, Markdown, completion and a history: pip install 'toolcast[cli]'")
        if resumes and is_dialog:
            COMMANDS["/sessions"].run(repl, "") if options.resume else repl.show_resumed_session()
        yield repl


def _greeting(repl: Repl) -> tuple[str, ...]:
    setup = repl.conversation.setup
    known = setup.llm.metadata
    small = "This model is too small for the built-in tools; --mode build offers them anyway."
    return (
        f"toolcast {version('toolcast')}: {known.model_name} of {known.provider}, mode {setup.mode.name}.",
        small if setup.is_bare else "",
        "/help lists the commands, Ctrl-D leaves.",
    )


def _chat_setup(options: ReplOptions, *, can_ask: bool, observer: Observer | None) -> ChatSetup:
    root = str(Path.cwd())
    journal = ChangeJournal(root)
    return ChatSetup(
        options.first_model(),
        wanted=MODES[options.mode] if options.mode else None,
        builtin=_builtin_tools(root, journal, can_ask=can_ask),
        user_tools=load_tools(options.tools) if options.tools else (),
        system=options.system,
        root=root,
        can_ask=can_ask,
        observer=observer,
        journal=journal,
    )


def _builtin_tools(root: str, journal: ChangeJournal, *, can_ask: bool) -> tuple[CallableTool, ...]:
    asking = (question_tool(),) if can_ask else ()
    return (*file_tools(root, on_change=journal.add), command_tool(root), fetch_tool(), *asking)


def _store(data: Path, closing: ExitStack, *, required: bool) -> tuple[Store, str]:
    """Return the store of the sessions, and a warning if there is only one in memory."""
    try:
        return closing.enter_context(SQLiteStore(sessions_file(data))), ""
    except ToolcastError as error:
        if required:
            raise
        return MemoryStore(), f"This conversation will not be saved: {command_line_text(error)}"


def _resumed_id(options: ReplOptions, store: Store, root: str, terminal: Terminal) -> str | None:
    """Return the id of the session to resume, or of a new one that the user has named; None for any new one.

    Raises:
        ToolcastError: There is no such session, or it cannot be chosen.
    """
    if options.resume and not (terminal.stdin.isatty() and options.prompt is None):
        raise ToolcastError("--resume needs a terminal to choose at, and no PROMPT; name a session with --session ID")
    if options.continues:
        with SessionIndex(store) as index:
            latest = index.latest(root)
        if latest is None:
            raise ToolcastError("there is no session to continue yet: begin one without --continue")
        return latest.id
    return options.session and _session_id(options.session, store, terminal)


def _session_id(wanted: str, store: Store, terminal: Terminal) -> str:
    """Return the id of the session to resume, which may begin with `wanted`, or `wanted` for a new session.

    Raises:
        ToolcastError: Several ids begin with `wanted`, or one does and no person is there to notice a wrong match, or
            none does, though it looks like a generated id.
    """
    ids = store.ids()
    found = [wanted] if wanted in ids else [id for id in ids if id.startswith(wanted)]
    if found == [wanted] or (len(found) == 1 and terminal.stdin.isatty()):
        return found[0]
    if found:
        named = shorten(", ".join(found), _SHOWN_IDS, placeholder=" ...")
        begin = f"{len(found)} sessions begin" if len(found) > 1 else "a session begins"
        raise ToolcastError(f"no session has the id {wanted!r}, and {begin} with it; pass a full id: {named}")
    if GENERATED_ID.match(wanted):
        raise ToolcastError(f"no session has the id {wanted!r}: `toolcast chat --resume` and `toolcast logs` list them")
    return wanted


def _screen(terminal: Terminal, data: Path, clipboard: Clipboard, printed: PrintedText, *, by_line: bool) -> Screen:
    if not terminal.takes_codes or not all(map(find_spec, ("rich", "prompt_toolkit"))):
        return PlainScreen(terminal.stdin, terminal.stdout, terminal.stderr, by_line=by_line)
    from .prompt_input import Prompt, ReplCompleter
    from .rich_screen import RichScreen
    from .terminal_input import TerminalEcho

    summaries = {name: command.summary for name, command in COMMANDS.items()}
    prompt = Prompt(prompt_history_file(data), ReplCompleter(summaries, completions), paste_image=clipboard.save_image)
    return RichScreen(prompt, TerminalEcho(terminal.stdin, terminal.stdout), terminal.stdout, printed)
