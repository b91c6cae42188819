"""`toolcast logs`: the saved sessions as a table, or one of them as text.

Reading takes no lease, so that a session may be open in another process meanwhile; deleting a session needs its lease.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import datetime

from ..agents.engine.session_state import SessionState, fold
from ..citations import describe_citation
from ..errors import ToolcastError
from ..json_text import json_text
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
from ..stores.sqlite import SQLiteStore
from .data_dir import data_dir, sessions_file
from .output import format_table

_FIRST_WORDS = 60
_COLUMNS = ("SESSION", "BEGUN", "TURNS", "TOKENS", "FIRST WORDS")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast logs`."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the id of a session, or the beginning of it")
    parser.add_argument(
        "--json",
        action="store_true",
        help="the records of the session as JSON lines; without SESSION the rows of the table",
    )
    parser.add_argument("--delete", action="store_true", help="delete the session")
    parser.add_argument("--home", metavar="DIR", help="the directory with the sessions; default: $TOOLCAST_HOME")


def run(arguments: argparse.Namespace) -> int:
    """Print the table, print one session, or delete it, and return the exit code."""
    if arguments.delete and arguments.session is None:
        print(
            "toolcast logs: --delete needs the full id of the session to delete; `toolcast logs` lists the ids",
            file=sys.stderr,
        )
        return 2
    with _store(arguments) as store:
        if arguments.session is None:
            _print_table(store, as_json=arguments.json)
            return 0
        id = _find_session(arguments.session, store.ids(), exact=arguments.delete)
        if arguments.delete:
            store.delete(id)
        elif arguments.json:
            print(*(json.dumps(record, ensure_ascii=False) for record in store.read(id)), sep="\n")
        else:
            print(*_conversation_lines(fold(store.read(id))), sep="\n")
    return 0


def _store(arguments: argparse.Namespace) -> SQLiteStore:
    """Return the store of the data directory.

    Raises:
        ToolcastError: No session has been saved there yet.
    """
    file = sessions_file(data_dir(arguments.home))
    if not file.exists():
        raise ToolcastError(
            f"no sessions found in {file.parent}: start one with `toolcast chat`, or name another directory with --home"
        )
    return SQLiteStore(file)


def _find_session(wanted: str, ids: list[str], *, exact: bool) -> str:
    """Return the id that is `wanted` or, unless `exact`, begins with it.

    Raises:
        ToolcastError: No id matches, or several do.
    """
    found = [id for id in ids if id == wanted] or [id for id in ids if id.startswith(wanted) and not exact]
    if len(found) == 1:
        return found[0]
    problem = f"{len(found)} sessions begin with {wanted!r}" if found else f"no session {wanted!r}"
    raise ToolcastError(f"{problem}: `toolcast logs` lists them")


def _print_table(store: SQLiteStore, *, as_json: bool) -> None:
    rows = [_table_row(id, store) for id in reversed(store.ids())]
    if as_json:
        print(*(json.dumps(row, ensure_ascii=False) for row in rows), sep="\n", end="\n" if rows else "")
    elif rows:
        print(*format_table([_COLUMNS, *(tuple(map(str, row.values())) for row in rows)]), sep="\n")


def _table_row(id: str, store: SQLiteStore) -> dict[str, str | int]:
    """Return the table's row of one session; that of a damaged session has the error in place of the first message."""
    try:
        state = fold(store.read(id))
    except ToolcastError as error:
        return {"session": id, "begun": "?", "turns": 0, "tokens": 0, "first_words": _one_line(str(error))}
    first = next((message.text for message in state.history if message.role == "user" and message.text), "")
    return {
        "session": id,
        "begun": _format_time(state.opened),
        "turns": state.turns,
        "tokens": state.usage.total_tokens,
        "first_words": _one_line(first),
    }


def _conversation_lines(state: SessionState) -> Iterator[str]:
    """Yield a session as lines of text."""
    started = _format_time(state.opened)
    yield f"session {state.id}, begun {started}, turns: {state.turns}, tokens: {state.usage.total_tokens}"
    for message in state.history:
        for head, text in _message_texts(message):
            yield f"\n{head}:\n{_printable(text)}"
    if state.end is None and state.turns:
        yield "\n(the last turn is unfinished)"


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
    line = _printable(" ".join(text.split()))
    return line if len(line) <= _FIRST_WORDS else f"{line[: _FIRST_WORDS - 1]}…"


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
    except (ValueError, OverflowError, OSError):  # a damaged log may contain any number
        return "?"


def _printable(text: str) -> str:
    """Return `text` without control characters, which could move the cursor: models and tools have written it."""
    return "".join(character if character.isprintable() or character in "\n\t" else "\ufffd" for character in text)
