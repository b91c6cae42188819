"""The slash commands of the REPL: the table `COMMANDS`.

A command is one line: a name that begins with a slash, and at most one argument. `/etc/hosts` is not a command, so a
message may begin with a path. A command that fails raises `ToolcastError`, which the loop shows.

The text of `/help`: names and summaries in columns that fit the terminal, and the table of keys.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count as numbers_from
from pathlib import Path
from textwrap import shorten, wrap
from typing import Final, Protocol, TypeVar

from ...agents.engine.history import estimate_tokens
from ...agents.sessions.session import Session
from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.local.llama_cpp import LlamaCpp
from ...llms.named_llms import providers
from ...messages import Message, system
from ...text.terminal_text import exposed
from ...tools.callable_tool import CallableTool
from ...values.usage import Usage
from ..call_log import clean_title
from ..config_file import resolve_alias
from ..file_mentions import typed_text
from ..model_list import ProviderModels, check_model, lists_model
from ..output import command_line_text
from ..session_index import SessionEntry, is_empty
from ..transcript_export import export_conversation, export_format
from .choices import Choice
from .clipboard import Clipboard
from .file_changes import called_commands, called_paths
from .modes import MODES
from .open_session import OpenConversation
from .picker import ListRow, PickedRow
from .screen import Screen

KEYS: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "Writing a message": [
        ("@FILE", "put the content of a file, a list of a folder or an image into the message"),
        ("Tab", "complete a command, its argument or a path"),
        ("Alt-Enter, Ctrl-J", "begin a new line, as a \\ at the end of the line does"),
        ("Ctrl-V", "insert the image in the clipboard"),
        ("Ctrl-R", "search the earlier messages; Up and Down go through them"),
        ("Ctrl-X Ctrl-E", "write the message in $EDITOR"),
        ("Ctrl-O", "show the tool calls of the last answer in full"),
        ("Ctrl-C", "clear the input, which Up brings back; leave if it is empty"),
        ("Ctrl-D", "leave, as an empty line, exit and quit do"),
        ("Ctrl-Z", "stop the program; fg continues it"),
    ],
    "While an answer arrives": [
        ("Ctrl-C, Esc", "stop the answer; what was queued is back at the prompt"),
        ("Enter", "queue what was typed; it is shown, and Backspace takes it back"),
    ],
    "When a tool call needs approval": [
        ("y", "run the call"),
        ("n", "do not run it, and tell the model why"),
        ("a", "run it, and calls like it for the rest of the session"),
        ("e", "edit it first, in $EDITOR if there is one"),
        ("d", "show all of it"),
        ("o", "with several calls: decide one by one"),
        ("Esc, Ctrl-C", "do not run it, and end the turn"),
    ],
    "In a list": [
        ("Up, Down, Enter", "choose a row; a number chooses it too"),
        ("Letters", "search"),
        ("Ctrl-R, Ctrl-X", "rename or delete the session"),
        ("Esc", "close the list"),
    ],
}
"""The keys by situation."""

_NARROW: Final = 60
"""Columns below which a summary has a line of its own."""
_LONGEST_KEY: Final = 14
"""Columns of names that leave enough space beside them in a narrow terminal."""
_WIDE: Final = 100
_INDENT: Final = "  "


def format_help(sections: Mapping[str, Sequence[tuple[str, str]]], columns: int) -> str:
    """Return the sections, wrapped to `columns`, with the names in a column of their own if there is space for two."""
    columns = max(40, min(columns, _WIDE))
    widest = _column(row for rows in sections.values() for row in rows)
    lines: list[str] = []
    for title, rows in sections.items():
        width = widest if columns >= _NARROW else _column(rows)
        lines += ["", title] if lines else [title]
        for name, summary in rows:
            if width > (_LONGEST_KEY if columns < _NARROW else columns // 2):
                lines += wrap(name, columns, initial_indent=_INDENT, subsequent_indent=_INDENT)
                lines += wrap(summary, columns, initial_indent=_INDENT * 3, subsequent_indent=_INDENT * 3)
            else:
                first = f"{_INDENT}{name:{width}}"
                lines += wrap(summary, columns, initial_indent=first, subsequent_indent=" " * len(first))
    return "\n".join(lines)


def _column(rows: Iterable[tuple[str, str]]) -> int:
    """Return the width of the column of names."""
    return max(len(name) for name, _ in rows) + 2


T = TypeVar("T")

_SHOWN_COMMAND: Final = 100
"""Characters of a command that are shown."""
_COMMAND_LINE: Final = re.compile(r"(/[A-Za-z]+)(?:[ \t]+(.*))?")
_SHOWN: Final = 60  # characters of a message in a note
_LONGEST_STEM: Final = 60
_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")


class CommandContext(Protocol):
    """The part of `Repl` that commands use."""

    conversation: OpenConversation
    screen: Screen
    model: Callable[[str], FunctionCallingLLM]
    models: Callable[[], Sequence[ProviderModels]]
    clipboard: Clipboard

    @property
    def session(self) -> Session:
        """The open session."""
        ...

    def ask(self, message: Message) -> None:
        """Run a turn that answers `message`."""
        ...

    def ask_typed(self, text: str) -> None:
        """Run a turn that answers a typed text, with the files that it mentions."""
        ...

    def open_session(self, id: str) -> None:
        """Continue with another saved session."""
        ...

    def fail(self, message: str, hint: str = "") -> None:
        """Show an error."""
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
    repl.screen.note(_columns({"Commands": rows, **KEYS}))


def _columns(sections: Mapping[str, Sequence[tuple[str, str]]]) -> str:
    """Return the sections in columns that fit the terminal."""
    return format_help(sections, shutil.get_terminal_size().columns)


def _clear(repl: CommandContext, argument: str) -> None:
    old = repl.session.id
    has_messages = bool(repl.conversation.engine.history)
    repl.conversation.begin()
    kept = f"; the old one is saved as session {old}" if has_messages else ""
    repl.screen.note(f"New conversation: session {repl.session.id}{kept}.")


def _context(repl: CommandContext, argument: str) -> None:
    engine = repl.conversation.engine
    parts = [("instructions", estimate_tokens([system(repl.conversation.setup.instructions)]))]
    parts += [(_count(engine.tools, "tool"), sum(map(_size, engine.tools)) // 4)]
    for role in dict.fromkeys(message.role for message in engine.history):
        messages = [message for message in engine.history if message.role == role]
        parts.append((_count(messages, f"{role} message"), estimate_tokens(messages)))
    # Until a service has counted them, the tokens are the sum of the estimates.
    used = engine.conversation.context_tokens or sum(tokens for _, tokens in parts)
    size = repl.conversation.status.context_window
    has = f"{used:,} tokens" if size is None else f"{used:,} of {size:,} tokens ({100 * used / size:.0f} %)"
    widest = max(len(f"{tokens:,}") for _, tokens in parts)
    title = f"The context has {has}. Estimates of its parts:"
    repl.screen.note(_columns({title: [(f"{tokens:>{widest},}", noun) for noun, tokens in parts]}))


def _compact(repl: CommandContext, argument: str) -> None:
    before = repl.session.status.tokens_used
    repl.screen.note("The model summarizes the oldest messages ... (Ctrl-C stops it, and changes nothing)")
    if not repl.conversation.compact():
        raise ToolcastError("nothing to compact: the conversation is too short")
    after = repl.session.status.tokens_used
    repl.screen.note(f"The oldest messages are a summary now: {before:,} tokens before, about {after:,} after.")


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things):,} {noun}{'' if len(things) == 1 else 's'}"


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
    name = argument or (_pick_model(repl) if repl.screen.is_interactive else "")
    if name:
        llm = check_model(_name_with_provider(repl, name), make=repl.model)
        repl.conversation.use(replace(repl.conversation.setup, llm=llm))
    known = repl.conversation.setup.llm.metadata
    repl.screen.note(f"The model is {known.model_name} ({known.provider}).")


def _name_with_provider(repl: CommandContext, name: str) -> str:
    """Return the name of a model with the provider in use, if that lists it and the name has no provider."""
    llm = repl.conversation.setup.llm
    provider = llm.metadata.provider
    if provider not in providers() or provider == "ollama" or resolve_alias(name) != name:
        return name
    has_provider = name.partition(":")[0] in providers()
    return f"{provider}:{name}" if not has_provider and lists_model(llm, name) else name


def _pick_model(repl: CommandContext) -> str:
    """Return the model that the user chooses from those of all providers, within seconds; an empty name if none."""
    known = repl.conversation.setup.llm.metadata
    # The provider in use comes first.
    listed = sorted(repl.models(), key=lambda each: each.provider != known.provider)
    for each in listed:
        if each.error:
            repl.screen.note(f"{each.provider}: {' '.join(command_line_text(each.error).split())}")
    current = f"{known.provider}:{known.model_name}"
    choices = [ListRow(name, name, "in use" if name == current else "") for each in listed for name in each.models]
    if not choices:
        return ""

    def find(query: str) -> list[ListRow]:
        words = query.lower().split()
        return [choice for choice in choices if all(word in choice.text.lower() for word in words)]

    chosen = repl.screen.pick("Models", find, {})
    return "" if chosen is None else chosen.value


def _sessions(repl: CommandContext, argument: str) -> None:
    now = repl.conversation.engine.llm.clock.time()

    def find(query: str) -> list[ListRow]:
        entries = repl.conversation.index.entries(f"{argument} {query}")
        return [_session_choice(repl, entry, now) for entry in entries if not is_empty(entry)]

    chosen: PickedRow | None = None
    while find(""):
        chosen = repl.screen.pick("Sessions", find, {"c-r": "rename", "c-x": "delete"}, chosen)
        if chosen is None:
            return
        if chosen.action == "open":
            repl.open_session(chosen.value)
            return
        try:
            (_rename_session if chosen.action == "rename" else _delete_session)(repl, chosen.value)
        except ToolcastError as error:
            repl.fail(str(error))
    repl.screen.note("No saved sessions were found.")


def _session_choice(repl: CommandContext, entry: SessionEntry, now: float) -> ListRow:
    count = f"{entry.messages:,} message{'' if entry.messages == 1 else 's'}"
    # The name of the folder is shown only where it is another one.
    folder = entry.directory if entry.directory != repl.conversation.setup.root else ""
    is_open = "open" if entry.id == repl.session.id else ""
    parts = ("damaged" if entry.problem else count, Path(folder).name, is_open or time_ago(now - entry.updated))
    return ListRow(entry.id, entry.title or entry.id, ", ".join(filter(None, parts)))


def time_ago(seconds: float) -> str:
    """Return a time in the past for a person."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size):,} {unit} ago"
    return "just now"


def _rename_session(repl: CommandContext, id: str) -> None:
    before = _entry(repl, id).title
    title = repl.screen.read("title> ", before)
    if title is None or not title.strip() or title.strip() == before:
        return
    if id == repl.session.id:
        repl.conversation.rename(title)
    else:
        repl.conversation.index.rename(id, title)
    repl.screen.note(f"Renamed: {clean_title(title)}")


def _delete_session(repl: CommandContext, id: str) -> None:
    if id == repl.session.id:
        raise ToolcastError("this session is open: begin another one with /clear, and delete it then")
    name = _entry(repl, id).title or id
    if _confirm(repl, f"Delete {clean_title(name)!r} and its messages?"):
        repl.conversation.index.delete(id)
        repl.screen.note(f"Deleted: {clean_title(name)}")


def _entry(repl: CommandContext, id: str) -> SessionEntry:
    found = (entry for entry in repl.conversation.index.entries() if entry.id == id)
    return next(found, SessionEntry(id))


def _confirm(repl: CommandContext, question: str) -> bool:
    """Return True if the user agrees."""
    try:
        answer = repl.screen.choose(question, (Choice("y", "yes"), Choice("n", "no")))
    except KeyboardInterrupt:
        return False
    return answer is not None and answer.key == "y"


def _rename(repl: CommandContext, argument: str) -> None:
    if not argument:
        raise ToolcastError("the title is missing: /rename TITLE")
    repl.conversation.rename(argument)
    repl.screen.note(f"The title of this session is: {repl.conversation.title}")


def _tools(repl: CommandContext, argument: str) -> None:
    tools, mode = repl.conversation.engine.tools, repl.conversation.setup.mode
    title = f"Mode {mode.name}: {mode.summary}."
    rows = [(exposed(tool.name), exposed(tool.description.partition("\n")[0])) for tool in tools]
    repl.screen.note(_columns({title: rows}) if rows else f"{title}\nNo tools are offered.")


def _mcp(repl: CommandContext, argument: str) -> None:
    servers = repl.conversation.setup.servers
    repl.screen.note("MCP servers are off: --no-mcp." if servers is None else servers.overview)


def _details(repl: CommandContext, argument: str) -> None:
    repl.screen.show_details()


def _undo(repl: CommandContext, argument: str) -> None:
    _restore_files(repl)
    question = repl.conversation.rollback()
    if question is None:
        raise _no_question(repl, "no turn to remove")
    repl.screen.note(f"Removed: {_short_text(question)}")


def _no_question(repl: CommandContext, missing: str) -> ToolcastError:
    """Return the error that the conversation has no question: it is empty, or only the summary of one."""
    has = "has only a summary of its messages" if repl.conversation.engine.history else "is empty"
    return ToolcastError(f"{missing}: the conversation {has}")


def _restore_files(repl: CommandContext) -> None:
    """Offer to restore the files that the last turn has changed, and name what stays: other files, and commands."""
    conversation, journal = repl.conversation, repl.conversation.setup.journal
    question = conversation.last_question
    changes = journal.changes(question) if journal and question else []
    restorable = [change for change in changes if journal and journal.can_restore(change)]
    names = ", ".join(change.path for change in restorable)
    kept = dict.fromkeys([*(change.path for change in changes), *called_paths(conversation.last_exchange)])
    if journal and restorable and repl.screen.is_interactive:
        choices = [Choice("y", f"yes, restore {names}"), Choice("n", "no, keep the changes")]
        answer = repl.screen.choose("That turn has changed files. Restore what they were before?", choices)
        if answer is not None and answer.key == "y":
            for change in restorable:
                journal.restore(change)
                kept.pop(change.path)
            repl.screen.note(f"Restored: {exposed(names)}")
    if kept:
        verb = "keeps its" if len(kept) == 1 else "keep their"
        repl.screen.note(exposed(f"{', '.join(kept)} {verb} changes."))
    for command in called_commands(conversation.last_exchange):
        repl.screen.note(
            exposed(f"What this command did stays: {shorten(command, _SHOWN_COMMAND, placeholder=' ...')}")
        )


def _retry(repl: CommandContext, argument: str) -> None:
    _restore_files(repl)
    question = repl.conversation.rollback()
    if question is None:
        raise _no_question(repl, "no message to send again")
    repl.screen.note(f"Sending again: {_short_text(question)}")
    repl.ask(question)


def _edit(repl: CommandContext, argument: str) -> None:
    question = repl.conversation.last_question
    if question is None:
        raise _no_question(repl, "no message to edit")
    text = (repl.screen.read("edit> ", typed_text(question)) or "").strip()
    if not text:
        repl.screen.note("Not changed.")
        return
    _restore_files(repl)
    repl.conversation.rollback()
    repl.ask_typed(text)


def _copy(repl: CommandContext, argument: str) -> None:
    answers = [message.text for message in repl.conversation.engine.history if message.role == "assistant"]
    text = next((text for text in reversed(answers) if text.strip()), None)
    if text is None:
        raise ToolcastError("no answer to copy: the conversation has none")
    what = "the last answer"
    if argument:
        blocks = code_blocks(text)
        if not argument.isdecimal() or not 0 < int(argument) <= len(blocks):
            has = f"1 to {len(blocks)}" if blocks else "none"
            raise ToolcastError(f"no code block {argument!r}: the last answer has {has}")
        text, what = blocks[int(argument) - 1], f"code block {int(argument)}"
    repl.screen.note(f"Copied {what} ({len(text):,} characters) by {repl.clipboard.copy(text)}.")


def code_blocks(markdown: str) -> list[str]:
    """Return the contents of the fenced code blocks, by the rules of CommonMark for fences."""
    blocks: list[str] = []
    lines: list[str] | None = None
    fence = ""
    for line in markdown.splitlines():
        found = _FENCE.match(line)
        if lines is None:
            if found:
                fence, lines = found[1], []
        elif found and found[1][0] == fence[0] and len(found[1]) >= len(fence) and not found[2].strip():
            blocks.append("\n".join(lines))
            lines = None
        else:
            lines.append(line)
    return blocks if lines is None else [*blocks, "\n".join(lines)]


def _export(repl: CommandContext, argument: str) -> None:
    conversation, known = repl.conversation, repl.conversation.setup.llm.metadata
    if not conversation.engine.history:
        raise ToolcastError("no messages to export: the conversation is empty")
    path = _path(argument, "/export FILE") if argument else _free_path(conversation.title or repl.session.id)
    text = export_conversation(
        conversation.engine.history,
        export_format(path),
        title=conversation.title,
        model=known.model_name,
        session=repl.session.id,
    )
    try:
        if path.exists() and not _confirm(repl, f"{path} exists. Overwrite it?"):
            repl.screen.note("Not written.")
            return
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ToolcastError(f"cannot write {path}: {error.strerror}; choose another file") from error
    repl.screen.note(f"Exported {len(conversation.engine.history)} messages to {path}.")


def _free_path(title: str) -> Path:
    """Return the name of a Markdown file for a title that does not exist yet."""
    stem = "-".join(re.findall(r"\w+", title.lower()))[:_LONGEST_STEM].strip("-") or "conversation"
    names = (f"{stem}{'' if number == 1 else f'-{number}'}.md" for number in numbers_from(1))
    return next(path for path in map(Path, names) if not path.exists())


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
    return Path(os.path.expanduser(argument.strip("\"'")))


def _one_of(known: Mapping[str, T], name: str, noun: str) -> T:
    """Return the value of that name.

    Raises:
        ToolcastError: There is no such name; the message lists those there are.
    """
    if name not in known:
        raise ToolcastError(f"unknown {noun} {name!r}: expected one of {', '.join(known)}")
    return known[name]


def _short_text(question: Message) -> str:
    return shorten(typed_text(question), _SHOWN, placeholder=" ...") or "(no text)"


_PROVIDERS: Final = tuple([f"{provider}:" for provider in providers()])

COMMANDS: Final[Mapping[str, Command]] = {
    "/help": Command("", "this list", _help),
    "/clear": Command("", "start a new conversation; the old one stays saved", _clear),
    "/sessions": Command("[WORDS]", "choose a saved session, search, rename or delete one", _sessions),
    "/rename": Command("TITLE", "give this session a title", _rename),
    "/context": Command("", "the tokens in the model's context, by part", _context),
    "/compact": Command("", "replace the oldest messages by a summary, to make room in the context", _compact),
    "/mode": Command("[NAME]", "list the modes, or switch: plan, build, verify, auto", _mode, values=tuple(MODES)),
    "/model": Command("[NAME]", "choose another model, and keep the history", _model, values=_PROVIDERS),
    "/tools": Command("", "the tools that the model is offered", _tools),
    "/mcp": Command("", "the MCP servers, with their state and their tools", _mcp),
    "/details": Command("", "the tool calls of the last answer, in full (at the prompt also Ctrl-O)", _details),
    "/undo": Command("", "remove the last message, and its answer", _undo),
    "/retry": Command("", "send the last message again", _retry),
    "/edit": Command("", "edit the last message, and send it again", _edit),
    "/cost": Command("", "the tokens used so far, and their estimated cost", _cost),
    "/copy": Command("[N]", "copy the last answer, or its code block number N", _copy),
    "/export": Command("[FILE]", "write the conversation as .md, .json or .html", _export, values=None),
    "/save": Command("FILE", "write the conversation to a file, as JSON", _save, values=None),
    "/load": Command("FILE", "continue with a saved conversation", _load, values=None),
    "/exit": Command("", "leave", _exit),
}
"""The commands by name."""
