"""Tool calls as chat-completions services stream them: fragments with an index, an id, or neither.

A fragment belongs to a call by its index, else by its id, else to the last call. Of several calls with one index, it
belongs to the one with its id. A call begins when its name is
complete, and ends only with the response: arguments that parse may still continue, since `{}` may be followed by more.

Fragments are concatenated. Some services send snapshots instead (each repeats all text before it), or the whole text
once more at the end. Comparing texts cannot detect that, because legal fragments may repeat each other; only a
concatenation that no JSON text can begin with is proof. So text is scanned only while a repetition is possible: as long
as every fragment extends the previous one, which ends with the second fragment of a normal call, and if an object
begins right after the end of another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from jiter import from_json

from ...errors import LimitExceeded
from ...events import Event, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart
from ...parsing.json_stream import JSONStream, JSONStreamError
from ...text.text_buffer import JOIN_THRESHOLD, Block, pack, unpack
from ...values.tool_spec import ToolNames

MOST_CALLS = 1000
"""The most tool calls in one response; more are an error of the model."""

WRAPPERS = frozenset(("parallel", "multi_tool_use.parallel", "multi_tool_use_parallel"))
"""The names of a tool that models invent to wrap several calls in its arguments."""


class ToolCalls:
    """The tool calls of one response.

    Args:
        names: The names of the tools offered.
        before: The number of earlier calls in the messages: a call without an id becomes `call_N`, counted over all
            messages.
    """

    def __init__(self, names: ToolNames, before: int = 0) -> None:
        self._names = names
        self._before = before
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._ids: set[str] = set()
        self._last: _Call | None = None

    def __bool__(self) -> bool:
        return bool(self._calls)

    def take(self, entries: Any, out: list[Event]) -> Sequence[object]:
        """Read the `tool_calls` of one delta, or of a whole message. Return the entries that are no objects."""
        odd: Sequence[object] = ()
        for place, entry in enumerate(cast("list[object]", entries) if isinstance(entries, list) else [entries]):
            if not isinstance(entry, dict):
                odd = odd if entry is None else (*odd, entry)
                continue
            found = cast("dict[str, Any]", entry)
            last = self._last
            if last is not None and (text := _fragment(found, last.index)):
                if self.add(text):
                    out.append(ToolCallDelta(last.id, text))
                else:
                    self._grow(last, text, out)
            else:
                self._entry(_Entry(found), out, beside=place > 0)
        return odd

    def add(self, text: str) -> bool:
        """Add `text` if it certainly is the next fragment of the last call; return False otherwise."""
        last = self._last
        if last is None or not (last.plain and last.started):
            return False
        pieces = last.pieces
        if text[0] == "{" and pieces[-1].rstrip().endswith("}"):  # perhaps a second object after a complete one
            return False
        pieces.append(text)
        if len(pieces) >= JOIN_THRESHOLD:
            last.pack()
        return True

    def take_legacy(self, function: Any, out: list[Event]) -> None:
        """Read a `function_call`, the predecessor of `tool_calls`: one call, without an id."""
        self._entry(_Entry({"index": 0, "function": function}), out)

    def finish(self, out: list[Event], *, cut: bool = False) -> bool:
        """End all calls. Return True if there was one.

        `cut`: the model was stopped by a limit, so a call may be incomplete.
        """
        before = len(out)
        for call in self._calls:
            arguments = call.whole()
            if call.wrapper and (inner := unwrapped(arguments)) is not None:
                for name, parameters in inner:
                    self._add_whole(name, parameters, out)
                continue
            if not (call.wire_id or call.name or call.pieces):  # nothing has arrived
                continue
            if not call.started:
                self._start(call, out)
            call.blocks, call.pieces = [], [arguments]  # not twice in memory
            truncated = cut and not is_json(arguments)
            out.append(
                ToolCallDone(
                    call.id,
                    call.own_name,
                    arguments if truncated or arguments.strip() else "{}",
                    truncated,
                    call.opaque,
                )
            )
        return len(out) > before

    def _entry(self, entry: _Entry, out: list[Event], *, beside: bool = False) -> None:
        """Read one entry. `beside`: it is not the first one in its list."""
        call = None if beside and _is_apart(self._last, entry) else self._find(entry)
        if call is None:
            call = self._add(entry)
        self._last = call
        if entry.id and not call.wire_id:
            call.wire_id = entry.id
            self._by_id.setdefault(entry.id, call)
        if entry.opaque:
            call.opaque = entry.opaque
        if entry.name and not call.started:
            call.name = entry.name if entry.name.startswith(call.name) else call.name + entry.name
            call.wrapper = call.name in WRAPPERS and call.name not in self._names.offered
        if entry.arguments:
            self._grow(call, entry.arguments, out)
        elif not call.started and call.name in self._names.complete:
            self._start(call, out)

    def _find(self, entry: _Entry) -> _Call | None:
        """Return the call that `entry` continues, or None if it begins a new one."""
        if entry.index is not None:
            call = self._by_id.get(entry.id)
            if call is None or call.index != entry.index:
                call = self._by_index.get(entry.index)
            if call is None and not entry.name and entry.id:
                call = self._by_id.get(entry.id)
        elif entry.id in self._by_id:
            call = self._by_id[entry.id]
        else:
            call = self._last
            if entry.id and call is not None and call.wire_id:
                return None
        return None if call is None or _is_another(call, entry) else call

    def _add(self, entry: _Entry) -> _Call:
        if len(self._calls) >= MOST_CALLS:
            raise LimitExceeded(f"the model made more than {MOST_CALLS} tool calls in one answer")
        call = _Call(entry.index)
        self._calls.append(call)
        if entry.index is not None:
            self._by_index[entry.index] = call
        if entry.id:
            call.wire_id = entry.id
            self._by_id[entry.id] = call
        return call

    def _add_whole(self, name: str, parameters: str, out: list[Event]) -> None:
        call = _Call(None)
        call.name = name
        self._start(call, out)
        out += [ToolCallDelta(call.id, parameters), ToolCallDone(call.id, call.own_name, parameters)]

    def _start(self, call: _Call, out: list[Event]) -> None:
        """Announce the call, once, with an id that no other call of this response has."""
        call.started = True
        call.id = call.wire_id
        number = self._before + len(self._ids)
        while not call.id or call.id in self._ids:
            number += 1
            call.id = f"call_{number}"
        self._ids.add(call.id)
        # gpt-oss leaks channel tokens into names; others prepend the namespace of their prompt format.
        name = call.name.partition("<|")[0].strip()
        if name not in self._names.offered and name.removeprefix("functions.") in self._names.offered:
            name = name.removeprefix("functions.")
        call.own_name = self._names.original(name)
        out.append(ToolCallStart(call.id, call.own_name))
        if call.pieces:
            out.append(ToolCallDelta(call.id, "".join(call.pieces)))

    def _grow(self, call: _Call, text: str, out: list[Event]) -> None:
        if call.started:
            call.grow(text, out)
            return
        if not call.wrapper and call.name:
            self._start(call, out)
        call.grow(text, out if call.started else [])


class _Entry:
    """One item of a delta's `tool_calls`, normalized."""

    __slots__ = ("arguments", "id", "index", "name", "opaque")

    def __init__(self, entry: dict[str, Any]) -> None:
        function = entry.get("function") or entry.get("custom") or entry
        found = cast("dict[str, Any]", function if isinstance(function, dict) else {})
        index, id, name = entry.get("index"), entry.get("id"), found.get("name")
        self.index: int | None = index if index is None or type(index) is int else _whole_number(index)
        self.id: str = id if type(id) is str else _text(id)
        self.name: str = name if type(name) is str else _text(name)
        arguments = found.get("arguments")
        if arguments is None or arguments == "":
            arguments = found.get("input")
        if arguments is not None and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
        self.arguments: str = arguments or ""
        extra = entry.get("extra_content")
        self.opaque: Mapping[str, Any] | None = {"extra_content": extra} if extra else None


class _Call:
    """One call and its arguments so far.

    Attributes:
        plain: The arguments certainly are fragments. Until then `scan` checks the concatenation against the grammar.
        snapshot: Each fragment certainly is all of the arguments.
        again: A second object that follows the complete first one.
        blocks: Old fragments, joined.
    """

    __slots__ = (
        "again",
        "blocks",
        "id",
        "index",
        "name",
        "newest",
        "opaque",
        "own_name",
        "pieces",
        "plain",
        "scan",
        "scanned",
        "snapshot",
        "started",
        "wire_id",
        "wrapper",
    )

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.wire_id = ""
        self.name = ""
        self.own_name = ""  # the tool's, once the call has started
        self.started = False
        self.wrapper = False
        self.opaque: Mapping[str, Any] | None = None
        self.blocks: list[Block] = []
        self.pieces: list[str] = []
        self.plain = False
        self.snapshot = False
        self.newest = ""
        self.again: list[str] | None = None
        self.scan: JSONStream | None = None
        self.scanned = 0

    def grow(self, text: str, out: list[Event]) -> None:
        """Add one fragment that is not empty."""
        if self.again is not None:
            self.again.append(text)
        elif self.plain:
            if text[0] == "{" and self.pieces[-1].rstrip().endswith("}") and self.is_complete():
                self.again = [text]
                self.plain = False
            else:
                self._append(text, out)
        elif self.snapshot:
            self._replace(text, out)
        elif not self.pieces:
            self._append(text, out)
        elif text.startswith(self.newest):
            self._extend(text, out)
        elif self.pieces == ["{}"] and text.strip():
            # An empty object first, then the real arguments: no text can follow a complete object.
            self._restart(text, out)
        else:
            self.plain = True
            self.grow(text, out)
        self.newest = "" if self.plain else text

    def text(self) -> str:
        """Return all fragments, joined."""
        return unpack(*self.blocks, *self.pieces) if self.blocks else "".join(self.pieces)

    def pack(self) -> None:
        """Join all fragments but the newest: a fragment takes far more memory than its characters."""
        if self.scan is not None:
            self.is_complete()
            self.scanned = 1
        self.blocks.append(pack("".join(self.pieces[:-1])))
        del self.pieces[:-1]

    def is_complete(self) -> bool:
        """Return True if the concatenation is one whole JSON value. Scan only what was not scanned before."""
        fresh = self.text() if self.scan is None else "".join(self.pieces[self.scanned :])
        scan = self.scan = self.scan or JSONStream()
        self.scanned = len(self.pieces)
        try:
            scan.feed(fresh)
        except JSONStreamError:
            return False
        return scan.done

    def whole(self) -> str:
        """Return the arguments, once the response is complete."""
        text = self.text()
        if self.again is not None:
            second = "".join(self.again)
            return text if _same(text, second) else text + second
        if not self.plain and not self.snapshot and len(self.pieces) > 1:
            # Each fragment extends the previous one, and together they are no JSON: the last is a snapshot.
            return self.newest if not is_json(text) and is_json(self.newest) else text
        return text

    def _append(self, text: str, out: list[Event]) -> None:
        self.pieces.append(text)
        out.append(ToolCallDelta(self.id, text))

    def _extend(self, text: str, out: list[Event]) -> None:
        before = len(self.pieces)
        self.pieces.append(text)
        if self._is_possible():
            out.append(ToolCallDelta(self.id, text))
            return
        self.snapshot = True
        if before == 1:
            self.pieces.pop()
            self._replace(text, out)
        else:
            self._restart(text, out)

    def _is_possible(self) -> bool:
        """Return True if some JSON text begins with the concatenation."""
        self.is_complete()
        try:
            cast("JSONStream", self.scan).feed("")
        except JSONStreamError:
            return False
        return True

    def _replace(self, text: str, out: list[Event]) -> None:
        """Replace a snapshot with a newer one."""
        current = "".join(self.pieces)
        if not text.startswith(current):
            self._restart(text, out)
        elif len(text) > len(current):
            out.append(ToolCallDelta(self.id, text[len(current) :]))
            self.pieces = [text]

    def _restart(self, text: str, out: list[Event]) -> None:
        self.pieces = []
        self.scan = None
        self.scanned = 0
        out.append(ToolCallReset(self.id))
        self._append(text, out)


def _fragment(entry: dict[str, Any], index: int | None) -> str:
    """Return the text of the commonest entry, `{"index": 0, "function": {"arguments": "..."}}`; "" for any other."""
    function = entry.get("function")
    if len(entry) != 2 or not isinstance(function, dict) or entry.get("index", entry) != index:
        return ""
    found = cast("dict[str, Any]", function)
    text = found.get("arguments")
    return text if type(text) is str and len(found) == 1 else ""


def _is_apart(before: _Call | None, entry: _Entry) -> bool:
    """Return True if `entry`, which follows `before` in one list and has no index, is a call of its own."""
    if before is None or entry.index is not None or not entry.name:
        return False
    return bool(before.pieces) or not entry.id or entry.id != before.wire_id


def _is_another(call: _Call, entry: _Entry) -> bool:
    """Return True if `entry`, whose index or id is that of `call`, begins a new call nevertheless.

    Some services give every call the index 0, or none. Others repeat id and name with every fragment, or give every
    fragment a new id. So a new id is a new call only together with a name, and the name of a call that has begun is one
    only if that call cannot continue, because its arguments are complete.
    """
    if not entry.name or (entry.id and entry.id == call.wire_id):
        return False
    new_id = bool(entry.id and call.wire_id)
    if not call.name or not (call.started or call.pieces):
        return new_id
    if entry.name != call.name:
        return True
    if not call.pieces:
        return new_id
    if not entry.arguments:
        return new_id and call.is_complete()
    return (
        entry.arguments.lstrip().startswith("{") and call.is_complete() and (new_id or entry.arguments != call.text())
    )


def unwrapped(arguments: str) -> list[tuple[str, str]] | None:
    """Return the calls inside an invented tool, as names and arguments; None if there are none."""
    try:
        uses = from_json(arguments.encode())["tool_uses"]
        return [
            (
                str(use["recipient_name"]).removeprefix("functions."),
                json.dumps(use["parameters"], ensure_ascii=False),
            )
            for use in uses
        ] or None
    except (ValueError, KeyError, TypeError):
        return None


def is_json(text: str | bytes) -> bool:
    """Return True if `text` is one whole JSON value, as jiter parses it."""
    try:
        from_json(text.encode("utf-8", "replace") if isinstance(text, str) else text)
    except ValueError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    try:
        return bool(from_json(one.encode()) == from_json(other.encode()))
    except ValueError:
        return False


def _whole_number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
