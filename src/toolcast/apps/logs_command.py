"""`toolcast logs`: the saved sessions of chats, of the page and of `toolcast get`, as a list, or one of them as text.

Reading takes no lease, so that a session may be open in another process meanwhile; deleting a session needs its lease.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from ..agents.engine.session_state import SessionState, fold, read_details
from ..errors import ToolcastError
from ..messages import (
    AudioPart,
    CachePoint,
    ImagePart,
    Message,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    describe_media,
)
from ..stores.sqlite_store import SQLiteStore
from ..text.json_text import json_text
from ..values.citations import describe_citation
from .call_log import GET_MODE
from .command_parser import positive_int
from .config_file import data_dir, sessions_file
from .output import fit, fitted_table
from .session_index import SessionEntry, SessionIndex

_SHOWN: Final = 50
_SQLITE: Final = b"SQLite format 3\0"
_LATEST: Final = "last"
_TITLE: Final = 60
"""Columns of a title where the output is no terminal."""
_LEAST_TITLE: Final = 20
_COLUMNS: Final = ("SESSION", "BEGUN", "KIND", "END", "MODEL", "TURNS", "TOKENS", "COST", "TITLE")
_LEFT_OUT: Final = ("TURNS", "MODEL", "KIND", "COST", "TOKENS", "END")
"""The columns that are left out, in this order, where the terminal is too narrow for all."""
_ENDS: Final[Mapping[str, str]] = {
    "": "unfinished",
    "approval": "waits",
    "cancelled": "stopped",
    "content_filter": "refused",
    "empty": "empty",
    "error": "failed",
    "max_tokens": "cut off",
    "refusal": "refused",
    "stopped": "limit",
}
"""The words for the ends of a turn; every other one is `done`."""
_EXAMPLES: Final = """examples:
  toolcast logs                        the last sessions and calls
  toolcast logs last                   the newest one, as text
  toolcast logs --search 'build fail'  those that have both words
  toolcast logs --db other.db --json   all of another file, as JSON lines"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast logs`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "session", nargs="?", metavar="SESSION", help="the id of a session, the beginning of it, or 'last'"
    )
    parser.add_argument(
        "-n", "--last", type=positive_int, metavar="N", help=f"list the last N sessions; default: {_SHOWN}, as JSON all"
    )
    parser.add_argument("--search", metavar="WORDS", help="list the sessions that contain all of these words")
    parser.add_argument(
        "--json",
        action="store_true",
        help="the records of the session as JSON lines; without SESSION the rows of the list",
    )
    parser.add_argument("--delete", action="store_true", help="delete the session")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--db", metavar="FILE", type=Path, help="the file of any SQLiteStore; default: that of the commands"
    )
    where.add_argument("--home", metavar="DIR", help="the directory with the sessions; default: $TOOLCAST_HOME")


def run(arguments: argparse.Namespace) -> int:
    """Print the list, print one session, or delete it, and return the exit code."""
    if arguments.delete and arguments.session is None:
        print(
            "toolcast logs: --delete needs the full id of the session to delete; `toolcast logs` lists the ids",
            file=sys.stderr,
        )
        return 2
    with _store(arguments) as store:
        if arguments.session is None:
            _print_list(store, arguments)
            return 0
        id = _find_session(arguments.session, store, exact=arguments.delete)
        if arguments.delete:
            store.delete(id)
        elif arguments.json:
            print(*(json.dumps(record, ensure_ascii=False) for record in store.read(id)), sep="\n")
        else:
            records = store.read(id)
            print(*_conversation_lines(fold(records), read_details(records)), sep="\n")
    return 0


def _store(arguments: argparse.Namespace) -> SQLiteStore:
    """Return the store of the data directory, or of the file that is named.

    Raises:
        ToolcastError: There is no store.
    """
    named: Path | None = arguments.db
    file = Path(os.path.expanduser(named)) if named is not None else sessions_file(data_dir(arguments.home))
    if file.is_file() and file.stat().st_size:
        with file.open("rb") as opened:
            if opened.read(len(_SQLITE)) == _SQLITE:
                return SQLiteStore(file)
        raise ToolcastError(f"{file} is no SQLite database: name the file of a SQLiteStore, such as sessions.db")
    if named is None:
        raise ToolcastError(
            f"no sessions found in {file.parent}: start one with `toolcast chat`, or name another directory with --home"
        )
    problem = "is empty" if file.is_file() else "is a directory" if file.is_dir() else "does not exist"
    raise ToolcastError(f"{file} {problem}: name the file of a SQLiteStore, such as sessions.db")


def _find_session(wanted: str, store: SQLiteStore, *, exact: bool) -> str:
    """Return the id that is `wanted` or, unless `exact`, begins with it, or is the last used one.

    Raises:
        ToolcastError: No id matches, or several do.
    """
    ids = store.ids()
    found = [id for id in ids if id == wanted] or [id for id in ids if id.startswith(wanted) and not exact]
    if not found and wanted == _LATEST and not exact:
        with SessionIndex(store) as index:
            found = [entry.id for entry in index.entries(calls=True)[:1]]
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} sessions begin with {wanted!r}" if found else f"no session {wanted!r}"
    raise ToolcastError(f"{problem}: `toolcast logs` lists them")


def _print_list(store: SQLiteStore, arguments: argparse.Namespace) -> None:
    with SessionIndex(store) as index:
        entries = index.entries(arguments.search or "", calls=True)
    shown = entries[: arguments.last or (None if arguments.json else _SHOWN)]
    if arguments.json:
        rows = (json.dumps(_json_row(entry), ensure_ascii=False) for entry in shown)
        print(*rows, sep="\n", end="\n" if shown else "")
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in _list_lines(shown, width):
        print(line)
    if arguments.search and not shown:
        print(f"toolcast logs: no session contains {arguments.search!r}", file=sys.stderr)
    elif len(shown) < len(entries) and arguments.last is None:
        print(
            f"toolcast logs: {len(entries) - len(shown)} older ones are left out; --last N lists more", file=sys.stderr
        )


def _json_row(entry: SessionEntry) -> dict[str, Any]:
    """Return the row of a session for other programs. A damaged one has its error as `problem`."""
    return {
        "session": entry.id,
        "kind": _kind(entry.mode),
        "title": entry.title,
        "begun": _format_time(entry.begun, "seconds"),
        "updated": _format_time(entry.updated, "seconds"),
        "model": entry.model,
        "mode": entry.mode,
        "directory": entry.directory,
        "messages": entry.messages,
        "turns": entry.turns,
        "tokens": entry.tokens,
        "cost": entry.cost or None,
        "end": entry.end or None,
        "problem": entry.problem,
    }


def _end(end: str) -> str:
    """Return the word for the end of a turn."""
    return _ENDS.get(end, "done")


def _kind(mode: str) -> str:
    return "get" if mode == GET_MODE else "chat"


def _list_lines(entries: list[SessionEntry], width: int | None) -> Iterator[str]:
    """Yield the lines of the list: a table if the terminal is wide enough for one, else some for each session."""
    rows = [_cells(entry) for entry in entries]
    if not rows:
        return
    cut = rows if width is not None else [{**row, "TITLE": fit(row["TITLE"], _TITLE)} for row in rows]
    table = fitted_table(_COLUMNS, cut, left_out=_LEFT_OUT, width=width, least=_LEAST_TITLE)
    yield from table or (fit(line, width or _TITLE) for row in rows for line in _stacked(row))


def _stacked(row: Mapping[str, str]) -> Iterator[str]:
    """Yield a session as lines of their own, for a narrow terminal."""
    yield row["SESSION"]
    facts = (row["BEGUN"], f"{row['TOKENS']} tokens", row["COST"].strip("-"), row["END"].strip("-"))
    yield "  " + ", ".join(filter(None, facts))
    yield from (f"  {row[name]}" for name in ("MODEL", "TITLE") if row[name])


def _cells(entry: SessionEntry) -> Mapping[str, str]:
    """Return the cells of a session; a damaged one has the error in place of the title."""
    return {
        "SESSION": entry.id,
        "BEGUN": "?" if entry.problem else _format_time(entry.begun),
        "KIND": _kind(entry.mode),
        "END": _end(entry.end) if entry.turns else "-",
        "MODEL": _one_line(entry.model),
        "TURNS": str(entry.turns),
        "TOKENS": f"{entry.tokens:,}",
        "COST": _format_cost(entry.cost),
        "TITLE": _one_line(entry.problem or entry.title),
    }


def _format_cost(cost: str) -> str:
    """Return an amount in US dollars with two significant digits; `-` if it is not known."""
    if not cost:
        return "-"
    amount = Decimal(cost)
    return f"${amount:.{max(2, 1 - amount.adjusted())}f}" if amount else "$0.00"


def _conversation_lines(state: SessionState, details: Mapping[str, Any]) -> Iterator[str]:
    """Yield a session as lines of text."""
    cost = state.usage.cost
    facts = [
        f"begun {_format_time(state.opened)}",
        f"turns: {state.turns}",
        f"tokens: {state.usage.total_tokens:,} ({state.usage.input_tokens:,} in, {state.usage.output_tokens:,} out)",
        f"cost: {_format_cost('' if cost is None else str(cost))}",
    ]
    if isinstance(seconds := details.get("seconds"), (int, float)):
        facts.append(f"{seconds:.1f} s")
    yield f"session {state.id}"
    yield ", ".join(facts)
    named = {name: _one_line(str(details[name])) for name in ("model", "mode", "directory") if details.get(name)}
    if named:
        yield ", ".join(f"{name}: {value}" for name, value in named.items())
    for message in state.history:
        last = ""
        for head, text in _message_texts(message):
            # The text of a message and the files that it mentions are one.
            is_same = head == last == message.role
            yield f"\n{_printable(text)}" if is_same else f"\n{head}:\n{_printable(text)}"
            last = head
    end = _end(state.end or "")
    if state.turns and end != "done":
        error = _one_line(str(details.get("error") or ""))
        yield f"\n({'the call' if details.get('mode') == GET_MODE else 'the last turn'}: {end}{error and ': '}{error})"


def _message_texts(message: Message) -> Iterator[tuple[str, str]]:
    """Yield a heading and the text of each part of a message."""
    for part in message.parts:
        match part:
            case TextPart():
                yield message.role, part.text
                if part.citations:
                    yield "sources", "\n".join(dict.fromkeys([describe_citation(each) for each in part.citations]))
            case ImagePart() | AudioPart():
                yield message.role, describe_media(part)
            case ThinkingPart():
                yield "thinking", part.text
            case ToolCallPart():
                yield f"calls {part.name}", part.arguments
            case ToolResultPart():
                yield f"{part.name or 'tool'} {'failed' if part.is_error else 'returned'}", part.content
            case ServerToolPart():
                yield f"{part.name} of the provider", part.error or json_text(part.output or part.input)
            case CachePoint():
                pass
            case _:
                yield message.role, f"[{part.type}]"


def _one_line(text: str) -> str:
    return _printable(" ".join(text.split()))


def _format_time(seconds: float, until: str = "minutes") -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", until)
    except (ValueError, OverflowError, OSError):  # a damaged log may contain any number
        return "?"


def _printable(text: str) -> str:
    """Return `text` without control characters, which could move the cursor: models and tools have written it."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)
