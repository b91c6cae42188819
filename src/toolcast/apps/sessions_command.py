"""`toolcast logs`: the saved sessions as a table, or one of them as text.

A session is only read, so that it may be open in another process meanwhile; only to delete one it must be free.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import datetime

from ..agents.engine.session_state import SessionState, fold
from ..errors import ToolcastError
from ..messages import Message, TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from ..stores.sqlite import SQLiteStore
from .data_dir import home, sessions_file
from .tables import aligned

_WORDS = 60
_COLUMNS = ("SESSION", "BEGUN", "TURNS", "TOKENS", "FIRST WORDS")


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    parser.add_argument("session", nargs="?", metavar="SESSION", help="the id of a session, or its beginning")
    parser.add_argument("--json", action="store_true", help="the records, one a line; without SESSION the table's rows")
    parser.add_argument("--delete", action="store_true", help="delete the session")
    parser.add_argument("--home", metavar="DIR", help="where the sessions are; default: $TOOLCAST_HOME")


def run(arguments: argparse.Namespace) -> int:
    """The exit code; what is wanted is printed."""
    if arguments.delete and arguments.session is None:
        print("toolcast logs: --delete wants the id of the session", file=sys.stderr)
        return 2
    with _store(arguments) as store:
        if arguments.session is None:
            _print_table(store, as_json=arguments.json)
            return 0
        id = _found(arguments.session, store.ids(), whole=arguments.delete)
        if arguments.delete:
            store.delete(id)
        elif arguments.json:
            print(*(json.dumps(record, ensure_ascii=False) for record in store.read(id)), sep="\n")
        else:
            print(*_conversation(fold(store.read(id))), sep="\n")
    return 0


def _store(arguments: argparse.Namespace) -> SQLiteStore:
    """The store of the home. Raises `ToolcastError` where none was made yet."""
    file = sessions_file(home(arguments.home))
    if not file.exists():
        raise ToolcastError(f"there are no sessions in {file.parent}: `toolcast chat` begins one; --home names a place")
    return SQLiteStore(file)


def _found(wanted: str, ids: list[str], *, whole: bool) -> str:
    """The id that `wanted` is or, unless it must be `whole`, begins. Raises `ToolcastError` for none, or several."""
    found = [id for id in ids if id == wanted] or [id for id in ids if id.startswith(wanted) and not whole]
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} sessions begin with {wanted!r}" if found else f"there is no session {wanted!r}"
    raise ToolcastError(f"{what}: `toolcast logs` lists them")


def _print_table(store: SQLiteStore, *, as_json: bool) -> None:
    rows = [_row(id, store) for id in reversed(store.ids())]
    if as_json:
        print(*(json.dumps(row, ensure_ascii=False) for row in rows), sep="\n", end="\n" if rows else "")
    elif rows:
        print(*aligned([_COLUMNS, *(tuple(map(str, row.values())) for row in rows)]), sep="\n")


def _row(id: str, store: SQLiteStore) -> dict[str, str | int]:
    """What stands in the table of one session. One that is damaged stands there too, and says so."""
    try:
        state = fold(store.read(id))
    except ToolcastError as error:
        return {"session": id, "begun": "?", "turns": 0, "tokens": 0, "first_words": _short(str(error))}
    first = next((message.text for message in state.history if message.role == "user" and message.text), "")
    return {
        "session": id,
        "begun": _when(state.opened),
        "turns": state.turns,
        "tokens": state.usage.total_tokens,
        "first_words": _short(first),
    }


def _conversation(state: SessionState) -> Iterator[str]:
    """A session as lines of text."""
    yield f"session {state.id}, begun {_when(state.opened)}, turns: {state.turns}, tokens: {state.usage.total_tokens}"
    for message in state.history:
        for head, text in _said(message):
            yield f"\n{head}:\n{_printable(text)}"
    if state.end is None and state.turns:
        yield "\n(the last turn has not ended)"


def _said(message: Message) -> Iterator[tuple[str, str]]:
    """What a message says, part by part: who or what it is, and the text."""
    for part in message.parts:
        match part:
            case TextPart():
                yield message.role, part.text
            case ThinkingPart():
                yield "thinking", part.text
            case ToolCallPart():
                yield f"calls {part.name}", part.arguments
            case ToolResultPart():
                yield f"{part.name or 'tool'} {'fails' if part.is_error else 'gives'}", part.content
            case _:
                yield message.role, f"[{type(part).__name__.removesuffix('Part').lower()}]"


def _short(text: str) -> str:
    line = _printable(" ".join(text.split()))
    return line if len(line) <= _WORDS else f"{line[: _WORDS - 1]}…"


def _when(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")
    except (ValueError, OverflowError, OSError):  # a log may hold any number
        return "?"


def _printable(text: str) -> str:
    """`text` without what would move the cursor or colour the terminal: models and tools have written it."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\ufffd" for sign in text)
