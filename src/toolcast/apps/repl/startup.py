"""From the command line of `toolcast chat` to a `Repl` that can run: which model, tools, session and screen.

What cannot be had is one line, before anything was asked. Only where nobody has named a session, a store that cannot
be written is no reason to refuse: then the conversation is kept nowhere, and a note says so.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from textwrap import shorten
from typing import Final, TextIO

from ...errors import ToolcastError
from ...llms.base import FunctionCallingLLM
from ...llms.model_registry import choose_chat_llm, split_provider
from ...states import Observer
from ...stores.memory import MemoryStore
from ...stores.sqlite import SQLiteStore
from ...stores.store import Store
from ...toolbox.fetch import fetch_tool
from ...toolbox.files import file_tools
from ...toolbox.questions import question_tool
from ...toolbox.shell_command import command_tool
from ...tools.callable_tool import CallableTool
from ..cli_errors import command_words
from ..data_dir import home, prompt_history_file, sessions_file
from ..pull_command import load_in_sight
from .commands import COMMANDS, completions
from .conversation import Kit, OpenConversation
from .debug_log import log_failure, log_loop, log_turn, logging_to
from .modes import MODES
from .repl import Repl
from .screen import PlainScreen, Screen
from .tool_files import tools_of

_NAMED: Final = 120
"""Characters of the ids that an error names."""


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
    debug: bool = False
    lines: bool = False

    def first_model(self) -> FunctionCallingLLM:
        """The LLM to begin with."""
        return choose_chat_llm(self.model, self.host, self.token)

    def other_model(self, name: str) -> FunctionCallingLLM:
        """The LLM of that name. The host and the token were given for one provider, and no other gets them."""
        same = split_provider(name)[0] == (split_provider(self.model)[0] if self.model else "ollama")
        return choose_chat_llm(name, self.host if same else None, self.token if same else None)


@dataclass(frozen=True, slots=True)
class Terminal:
    """The three streams, and the variables that say what may be written to them."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]

    @property
    def takes_codes(self) -> bool:
        """Whether a person looks at it, through a terminal that can be written over. `NO_COLOR` is only of colours."""
        is_dumb = self.environ.get("TERM", "dumb") == "dumb"
        return self.stdin.isatty() and self.stdout.isatty() and not is_dumb


@contextmanager
def opened(options: ReplOptions, terminal: Terminal) -> Generator[Repl]:
    """The REPL that `options` ask for. What it opens is closed in the end. `ToolcastError` says what is missing."""

    def log_engine(turn: str, state: str) -> None:
        log_turn(repl.conversation.engine, state)

    kit = _kit(options, can_ask=terminal.stdin.isatty(), observer=log_engine if options.debug else None)
    load_in_sight(kit.llm, terminal.stderr)
    place = home(environ=terminal.environ)
    with ExitStack() as closing:
        closing.enter_context(logging_to(terminal.stderr if options.debug else None))
        store, remark = _store(place, closing, must_be=options.session is not None)
        screen = _screen(terminal, place, by_line=options.lines)
        repl = Repl(
            OpenConversation(kit, store, options.session and _session_id(options.session, store, terminal)),
            screen,
            model=options.other_model,
            observer=log_loop if options.debug else None,
            failed=log_failure if options.debug else None,
        )
        for line in filter(None, (remark, *(_greeting(repl) if screen.is_interactive else ()))):
            screen.note(line)
        if terminal.takes_codes and isinstance(screen, PlainScreen):
            screen.note("pip install 'toolcast[cli]' gives you colours, Markdown, completion and a history.")
        if options.session and screen.is_interactive:
            repl.show_where_it_was_left()
        yield repl


def _greeting(repl: Repl) -> tuple[str, ...]:
    kit = repl.conversation.kit
    known = kit.llm.metadata
    small = "This model is too small for the built-in tools; --mode build offers them all the same."
    return (
        f"toolcast {version('toolcast')}: {known.model_name} of {known.provider}, mode {kit.mode.name}.",
        small if kit.is_bare else "",
        "/help lists the commands, Ctrl-D leaves.",
    )


def _kit(options: ReplOptions, *, can_ask: bool, observer: Observer | None) -> Kit:
    root = str(Path.cwd())
    return Kit(
        options.first_model(),
        wanted=MODES[options.mode] if options.mode else None,
        builtin=_builtin_tools(root, can_ask=can_ask),
        own=tools_of(options.tools) if options.tools else (),
        system=options.system,
        root=root,
        can_ask=can_ask,
        observer=observer,
    )


def _builtin_tools(root: str, *, can_ask: bool) -> tuple[CallableTool, ...]:
    asking = (question_tool(),) if can_ask else ()
    return (*file_tools(root), command_tool(root), fetch_tool(), *asking)


def _store(place: Path, closing: ExitStack, *, must_be: bool) -> tuple[Store, str]:
    """Where sessions are kept, and what there is to say of it."""
    try:
        return closing.enter_context(SQLiteStore(sessions_file(place))), ""
    except ToolcastError as error:
        if must_be:
            raise
        return MemoryStore(), f"This conversation is kept nowhere: {command_words(error)}"


def _session_id(wanted: str, store: Store, terminal: Terminal) -> str:
    """Return the id of the session to go on with, which may begin with `wanted`, or `wanted` for a new one.

    Raises `ToolcastError` where several begin so, or nobody is there to see which one it is.
    """
    ids = store.ids()
    found = [wanted] if wanted in ids else [id for id in ids if id.startswith(wanted)]
    if not found or found == [wanted] or (len(found) == 1 and terminal.stdin.isatty()):
        return found[0] if found else wanted
    named = shorten(", ".join(found), _NAMED, placeholder=" ...")
    raise ToolcastError(f"no session is called {wanted!r}; give the whole id with --session: {named}")


def _screen(terminal: Terminal, place: Path, *, by_line: bool) -> Screen:
    if not terminal.takes_codes or not all(map(find_spec, ("rich", "prompt_toolkit"))):
        return PlainScreen(terminal.stdin, terminal.stdout, terminal.stderr, by_line=by_line)
    from .prompt_input import Prompt, ReplCompleter
    from .rich_screen import RichScreen
    from .terminal_input import Keyboard

    summaries = {name: command.summary for name, command in COMMANDS.items()}
    prompt = Prompt(prompt_history_file(place), ReplCompleter(summaries, completions))
    return RichScreen(prompt, Keyboard(terminal.stdin), terminal.stdout)
