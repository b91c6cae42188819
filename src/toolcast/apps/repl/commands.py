"""What can be typed in place of a question: the table `COMMANDS`.

A command is one line: its name, which begins with a slash, and at most one argument. `/etc/hosts` is none, so a path
can be asked about. A command that fails raises `ToolcastError`, which the loop tells.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Final, TypeVar

from ...agents.engine.history import estimate_tokens
from ...errors import ToolcastError
from ...llms.provider_llms import LlamaCpp, providers
from ...messages import Message, system, user
from ...terminal_text import exposed
from ...tools.callable_tool import CallableTool
from .modes import MODES

if TYPE_CHECKING:
    from .repl import Repl

T = TypeVar("T")

_TYPED: Final = re.compile(r"(/[A-Za-z]+)(?:[ \t]+(.*))?")
_SHOWN: Final = 60  # characters of a question that is named


@dataclass(frozen=True, slots=True)
class Command:
    """A row: what argument it `takes`, a `summary` for /help, what it does, and how the argument may be completed.

    `words` are some that it takes, None: it takes a path.
    """

    takes: str
    summary: str
    run: Callable[[Repl, str], object]
    words: Sequence[str] | None = ()


def completions(name: str) -> Sequence[str] | None:
    """Words that the command of that name takes as its argument; None where it takes a path."""
    return COMMANDS[name].words if name in COMMANDS else ()


def typed_command(said: str) -> tuple[str, str] | None:
    """The name of the command and its argument, where `said` is one; there may be no such command."""
    found = _TYPED.fullmatch(said.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


def _help(repl: Repl, argument: str) -> None:
    rows = [(f"{name} {command.takes}".strip(), command.summary) for name, command in COMMANDS.items()]
    rows += [("!COMMAND", "run a command of your own (in the modes verify and auto)")]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:{width}}  {summary}" for name, summary in rows]
    repl.screen.note("\n".join([*lines, "An empty line, exit, quit or Ctrl-D leaves; Ctrl-C ends an answer."]))


def _clear(repl: Repl, argument: str) -> None:
    old = repl.session.id
    was_said = bool(repl.conversation.engine.history)
    repl.conversation.begin()
    kept = f"; what was said is kept in the session {old}" if was_said else ""
    repl.screen.note(f"A new conversation begins, the session {repl.session.id}{kept}.")


def _context(repl: Repl, argument: str) -> None:
    engine, status = repl.conversation.engine, repl.session.status
    limit = "" if status.tokens_max is None else f" of {status.tokens_max:,} ({status.token_percent:.0f} %)"
    parts = [("instructions", estimate_tokens([system(repl.conversation.kit.instructions)]))]
    parts += [(f"{len(engine.tools)} tools", sum(map(_size, engine.tools)) // 4)]
    for role, count in Counter(message.role for message in engine.history).items():
        tokens = estimate_tokens(message for message in engine.history if message.role == role)
        parts.append((f"{count} of role {role}", tokens))
    rows = [f"  {tokens:>9,}  {what}" for what, tokens in parts]
    repl.screen.note("\n".join([f"The history takes {status.tokens_used:,} tokens{limit}. About:", *rows]))


def _size(tool: CallableTool) -> int:
    return len(tool.name) + len(tool.description) + len(json.dumps(tool.parameters))


def _mode(repl: Repl, argument: str) -> None:
    kit = repl.conversation.kit
    if argument:
        kit = replace(kit, wanted=_one_of(MODES, argument.lower(), "mode"))
        repl.conversation.use(kit)
    rows = [f"{'*' if mode is kit.mode else ' '} {mode.name:6}  {mode.summary}" for mode in MODES.values()]
    repl.screen.note("\n".join(rows))


def _model(repl: Repl, argument: str) -> None:
    if argument:
        repl.conversation.use(replace(repl.conversation.kit, llm=repl.model(argument)))
    known = repl.conversation.kit.llm.metadata
    repl.screen.note(f"The model is {known.model_name}, of {known.provider}.")


def _tools(repl: Repl, argument: str) -> None:
    engine = repl.conversation.engine
    rows = [exposed(f"{tool.name}: {tool.description.partition(chr(10))[0]}") for tool in engine.tools]
    mode = repl.conversation.kit.mode
    repl.screen.note("\n".join([f"Mode {mode.name}: {mode.summary}.", *(rows or ["No tools are offered."])]))


def _undo(repl: Repl, argument: str) -> None:
    question = repl.conversation.rollback()
    if question is None:
        raise ToolcastError("there is no turn to take back")
    repl.screen.note(f"Taken back: {_named(question)}")


def _retry(repl: Repl, argument: str) -> None:
    question = repl.conversation.rollback()
    if question is None:
        raise ToolcastError("there is no question to ask again")
    repl.screen.note(f"Asked again: {_named(question)}")
    repl.ask(question)


def _edit(repl: Repl, argument: str) -> None:
    question = repl.conversation.last_question
    if question is None:
        raise ToolcastError("there is no question to change")
    said = (repl.screen.read("edit> ", question.text) or "").strip()
    if not said:
        repl.screen.note("All stays as it is.")
        return
    repl.conversation.rollback()
    repl.ask(user(said))


def _cost(repl: Repl, argument: str) -> None:
    engine = repl.conversation.engine
    usage = engine.usage
    cached = f" ({usage.cache_read_tokens:,} of them from a cache)" if usage.cache_read_tokens else ""
    free = isinstance(engine.llm, LlamaCpp)
    money = "It runs on this machine, and costs nothing." if free else "What they cost is not known here."
    repl.screen.note(f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out. {money}")


def _save(repl: Repl, argument: str) -> None:
    path = _path(argument, "/save FILE")
    repl.conversation.save(path)
    repl.screen.note(f"{len(repl.conversation.engine.history)} messages are in {path}.")


def _load(repl: Repl, argument: str) -> None:
    path = _path(argument, "/load FILE")
    repl.conversation.load(path)
    count = len(repl.conversation.engine.history)
    repl.screen.note(f"{count} messages of {path} are the history now, in the session {repl.session.id}.")


def _exit(repl: Repl, argument: str) -> None:
    repl.leave()


def _path(argument: str, usage: str) -> Path:
    if not argument:
        raise ToolcastError(f"which file? {usage}")
    return Path(argument.strip("\"'")).expanduser()


def _one_of(known: Mapping[str, T], name: str, what: str) -> T:
    """What has that name, or an error that says which names there are."""
    if name not in known:
        raise ToolcastError(f"there is no {what} {name!r}: there are {', '.join(known)}")
    return known[name]


def _named(question: Message) -> str:
    return shorten(question.text, _SHOWN, placeholder=" ...") or "(no text)"


_PROVIDERS: Final = tuple([f"{provider}:" for provider in providers()])

COMMANDS: Final[Mapping[str, Command]] = {
    "/help": Command("", "this list", _help),
    "/clear": Command("", "begin anew; what was said stays in the store", _clear),
    "/context": Command("", "how full the model's context is, and with what", _context),
    "/mode": Command("[NAME]", "the modes, or another one: plan, build, verify, auto", _mode, words=tuple(MODES)),
    "/model": Command("[NAME]", "the model, or another one, with the history kept", _model, words=_PROVIDERS),
    "/tools": Command("", "the tools that the model is offered", _tools),
    "/undo": Command("", "take the last question back, and all that followed", _undo),
    "/retry": Command("", "ask the last question anew", _retry),
    "/edit": Command("", "change the last question, and ask it anew", _edit),
    "/cost": Command("", "the tokens so far", _cost),
    "/save": Command("FILE", "write the conversation to a file, as JSON", _save, words=None),
    "/load": Command("FILE", "go on with a conversation that was saved", _load, words=None),
    "/exit": Command("", "leave", _exit),
}
"""The commands by their names."""
