"""The slash commands of the REPL: the table `COMMANDS`.

A command is one line: a name that begins with a slash, and at most one argument. `/etc/hosts` is not a command, so a
message may begin with a path. A command that fails raises `ToolcastError`, which the loop shows.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Final, Protocol, TypeVar

from ...agents.engine.history import estimate_tokens
from ...agents.sessions.session import Session
from ...errors import ToolcastError
from ...lazy_dataclasses import dataclass
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import LlamaCpp, providers
from ...messages import Message, system, user
from ...terminal_text import exposed
from ...tools.callable_tool import CallableTool
from ...usage import Usage
from .conversation import OpenConversation
from .modes import MODES
from .screen import Screen

T = TypeVar("T")

_COMMAND_LINE: Final = re.compile(r"(/[A-Za-z]+)(?:[ \t]+(.*))?")
_SHOWN: Final = 60  # characters of a message in a note


class CommandContext(Protocol):
    """The part of `Repl` that commands use."""

    conversation: OpenConversation
    screen: Screen
    model: Callable[[str], FunctionCallingLLM]

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    def ask(self, message: Message) -> None:
        """Run a turn that answers `message`."""
        ...

    def leave(self) -> None:
        """End the loop after the current command."""
        ...


@dataclass(frozen=True, slots=True)
class Command:
    """A row of the table: its `argument` and `summary` for /help, function, and `values` that complete the argument.

    `values` is None if the argument is a path.
    """

    argument: str
    summary: str
    run: Callable[[CommandContext, str], object]
    values: Sequence[str] | None = ()


def completions(name: str) -> Sequence[str] | None:
    """Return values that complete the argument of the command, or None if it is a path."""
    return COMMANDS[name].values if name in COMMANDS else ()


def typed_command(text: str) -> tuple[str, str] | None:
    """Return the name and the argument if `text` has the form of a command, even of an unknown one."""
    found = _COMMAND_LINE.fullmatch(text.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


def _help(repl: CommandContext, argument: str) -> None:
    rows = [(f"{name} {command.argument}".strip(), command.summary) for name, command in COMMANDS.items()]
    rows += [("!COMMAND", "run a shell command (in the modes verify and auto)")]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {summary}" for name, summary in rows]
    repl.screen.note("\n".join([*lines, "An empty line, exit, quit or Ctrl-D leaves; Ctrl-C cancels an answer."]))


def _clear(repl: CommandContext, argument: str) -> None:
    old = repl.session.id
    has_messages = bool(repl.conversation.engine.history)
    repl.conversation.begin()
    kept = f"; the old one is saved as session {old}" if has_messages else ""
    repl.screen.note(f"New conversation: session {repl.session.id}{kept}.")


def _context(repl: CommandContext, argument: str) -> None:
    engine, status = repl.conversation.engine, repl.session.status
    limit = "" if status.tokens_max is None else f" of {status.tokens_max:,} ({status.token_percent:.0f} %)"
    parts = [("instructions", estimate_tokens([system(repl.conversation.setup.instructions)]))]
    parts += [(f"{len(engine.tools)} tools", sum(map(_size, engine.tools)) // 4)]
    for role, count in Counter(message.role for message in engine.history).items():
        tokens = estimate_tokens(message for message in engine.history if message.role == role)
        parts.append((f"{count} {role} messages", tokens))
    rows = [f"  {tokens:>9,}  {noun}" for noun, tokens in parts]
    repl.screen.note("\n".join([f"The history has {status.tokens_used:,} tokens{limit}. Estimates:", *rows]))


def _size(tool: CallableTool) -> int:
    return len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters))


def _mode(repl: CommandContext, argument: str) -> None:
    setup = repl.conversation.setup
    if argument:
        setup = replace(setup, wanted=_one_of(MODES, argument.lower(), "mode"))
        repl.conversation.use(setup)
    rows = [f"{'*' if mode is setup.mode else ' '} {mode.name:6}  {mode.summary}" for mode in MODES.values()]
    repl.screen.note("\n".join(rows))


def _model(repl: CommandContext, argument: str) -> None:
    if argument:
        repl.conversation.use(replace(repl.conversation.setup, llm=repl.model(argument)))
    known = repl.conversation.setup.llm.metadata
    repl.screen.note(f"The model is {known.model_name} ({known.provider}).")


def _tools(repl: CommandContext, argument: str) -> None:
    engine = repl.conversation.engine
    rows = [exposed(f"{tool.name}: {tool.description.partition(chr(10))[0]}") for tool in engine.tools]
    mode = repl.conversation.setup.mode
    repl.screen.note("\n".join([f"Mode {mode.name}: {mode.summary}.", *(rows or ["No tools are offered."])]))


def _undo(repl: CommandContext, argument: str) -> None:
    question = repl.conversation.rollback()
    if question is None:
        raise ToolcastError("no turn to remove: the conversation is empty")
    repl.screen.note(f"Removed: {_short_text(question)}")


def _retry(repl: CommandContext, argument: str) -> None:
    question = repl.conversation.rollback()
    if question is None:
        raise ToolcastError("no message to send again: the conversation is empty")
    repl.screen.note(f"Sending again: {_short_text(question)}")
    repl.ask(question)


def _edit(repl: CommandContext, argument: str) -> None:
    question = repl.conversation.last_question
    if question is None:
        raise ToolcastError("no message to edit: the conversation is empty")
    text = (repl.screen.read("edit> ", question.text) or "").strip()
    if not text:
        repl.screen.note("Not changed.")
        return
    repl.conversation.rollback()
    repl.ask(user(text))


def _cost(repl: CommandContext, argument: str) -> None:
    engine = repl.conversation.engine
    usage = engine.usage
    cached = f" ({usage.cache_read_tokens:,} of them from a cache)" if usage.cache_read_tokens else ""
    free = isinstance(engine.llm, LlamaCpp)
    money = "The model runs on this machine; it costs nothing." if free else _money(usage)
    repl.screen.note(f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out. {money}")


def _money(usage: Usage) -> str:
    """Return the cost of `usage` for a reader: an estimate."""
    if (cost := usage.cost) is not None:
        return f"About ${cost:.4f}, as an estimate."
    if usage.known_cost:
        return f"At least ${usage.known_cost:.4f}, as an estimate; the price of the others is unknown."
    return "Their price is unknown."


def _save(repl: CommandContext, argument: str) -> None:
    path = _path(argument, "/save FILE")
    repl.conversation.save(path)
    repl.screen.note(f"Saved {len(repl.conversation.engine.history)} messages to {path}.")


def _load(repl: CommandContext, argument: str) -> None:
    path = _path(argument, "/load FILE")
    repl.conversation.load(path)
    count = len(repl.conversation.engine.history)
    repl.screen.note(f"Loaded {count} messages from {path} into session {repl.session.id}.")


def _exit(repl: CommandContext, argument: str) -> None:
    repl.leave()


def _path(argument: str, usage: str) -> Path:
    if not argument:
        raise ToolcastError(f"the file name is missing: {usage}")
    return Path(argument.strip("\"'")).expanduser()


def _one_of(known: Mapping[str, T], name: str, noun: str) -> T:
    """Return the value of that name.

    Raises:
        ToolcastError: There is no such name; the message lists those there are.
    """
    if name not in known:
        raise ToolcastError(f"unknown {noun} {name!r}: expected one of {', '.join(known)}")
    return known[name]


def _short_text(question: Message) -> str:
    return shorten(question.text, _SHOWN, placeholder=" ...") or "(no text)"


_PROVIDERS: Final = tuple([f"{provider}:" for provider in providers()])

COMMANDS: Final[Mapping[str, Command]] = {
    "/help": Command("", "this list", _help),
    "/clear": Command("", "start a new conversation; the old one stays saved", _clear),
    "/context": Command("", "the tokens in the model's context, by part", _context),
    "/mode": Command("[NAME]", "list the modes, or switch: plan, build, verify, auto", _mode, values=tuple(MODES)),
    "/model": Command(
        "[NAME]", "show the model, or switch to another one and keep the history", _model, values=_PROVIDERS
    ),
    "/tools": Command("", "the tools that the model is offered", _tools),
    "/undo": Command("", "remove the last message, and its answer", _undo),
    "/retry": Command("", "send the last message again", _retry),
    "/edit": Command("", "edit the last message, and send it again", _edit),
    "/cost": Command("", "the tokens used so far, and their estimated cost", _cost),
    "/save": Command("FILE", "write the conversation to a file, as JSON", _save, values=None),
    "/load": Command("FILE", "continue with a saved conversation", _load, values=None),
    "/exit": Command("", "leave", _exit),
}
"""The commands by name."""
