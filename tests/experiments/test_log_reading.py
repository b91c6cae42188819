"""log_reading.py: logs of this project and of others, and the errors for invalid lines."""

from __future__ import annotations

import json
import sys
import tracemalloc
from collections.abc import Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import ToolcastError
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.log_reading import LogError, LogMissing, read_log

PUBLISHED: dict[str, Any] = {
    "timestamp": "2025-11-02T10:00:00.123456Z",
    "run_id": "theirs",
    "cycle_number": 1,
    "event_type": "CYCLE_START",
    "payload": {},
}
OURS = PUBLISHED | {"schema_version": 1, "sequence": 7, "measures": {"seconds": 0.5}}


def written(path: Path, *lines: bytes | dict[str, Any], end: bytes = b"\n") -> Path:
    """A log at `path`: each line as it is, or an object as JSON."""
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(text + end for text in texts))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def test_an_event_is_what_its_line_reports(path: Path) -> None:
    (event,) = read_log(written(path, OURS))
    assert event == LogEvent("CYCLE_START", 1, {}, {"seconds": 0.5}, "theirs", "2025-11-02T10:00:00.123456Z", 7)
    assert event.to_dict() == OURS


def test_lines_of_the_published_format_are_numbered_as_they_come(path: Path) -> None:
    assert [event.sequence for event in read_log(written(path, PUBLISHED, PUBLISHED, PUBLISHED))] == [0, 1, 2]
    assert [event.sequence for event in read_log(written(path, PUBLISHED, b"", OURS))] == [0, 7]


def test_what_other_programs_leave_in_a_file(path: Path) -> None:
    text = json.dumps(PUBLISHED).encode()
    written(path, b"\xef\xbb\xbf" + text, b"", b" \t", text, text, end=b"\r\n")
    assert len(list(read_log(path))) == 3
    path.write_bytes(b"\n\n" + text)
    assert len(list(read_log(str(path)))) == 1


@pytest.mark.parametrize("text", ['"\\ud800"', "[" * 400 + "]" * 400, "NaN", "1" * 400, '"\\u2028\u2028"'])
def test_what_only_python_reads_is_read(path: Path, text: str) -> None:
    line = json.dumps(PUBLISHED).replace('"payload": {}', f'"payload": {{"a": {text}}}').encode()
    (event,) = read_log(written(path, line))
    assert json.dumps(event.payload["a"]) == json.dumps(json.loads(text))


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in OURS.items() if name != key}


@pytest.mark.parametrize(
    ("line", "reported"),
    [
        (b"no json", r"not JSON \(Expecting value, column 1\)"),
        (b'{"timestamp": "2025', r"not JSON \(Unterminated string starting at, column 15\)"),
        (b'{"a": "\xff"}', r"not JSON \(no UTF-8 from byte 8 on\)"),
        (b"\0\0\0\0", r"not JSON \(Expecting value, column 1\)"),
        (b'{"a": ' + b"1" * 5000 + b"}", r"not JSON \(.*4300"),
        (b"[" * 100_000, r"not JSON \(nested too deeply\)"),
        (b"[1, 2]", r"not an object, but \[1, 2\]"),
        (b"null", "not an object, but None"),
        (b"[" * 800 + b"]" * 800, r"not an object, but \[\[\[\[\[\[\[\.\.\.\]"),
        *((without(key), f"it has no '{key}'") for key in PUBLISHED),
        (OURS | {"timestamp": 5}, "'timestamp' is 5, and must be text"),
        (OURS | {"run_id": None}, "'run_id' is None, and must be text"),
        (OURS | {"event_type": ["x" * 500]}, r"'event_type' is \['x+\.\.\.x+'\], and must be text"),
        (OURS | {"cycle_number": True}, "'cycle_number' is True, and must be a whole number"),
        (OURS | {"cycle_number": "1"}, "'cycle_number' is '1', and must be a whole number"),
        (OURS | {"payload": [1]}, r"'payload' is \[1\], and must be an object"),
        (OURS | {"measures": 1}, "'measures' is 1, and must be an object"),
        (OURS | {"sequence": 1.5}, "'sequence' is 1.5, and must be a whole number"),
        (OURS | {"schema_version": "1"}, "'schema_version' is '1', and must be a whole number"),
        (OURS | {"schema_version": 2}, r"written by a newer toolcast \(schema_version 2\): upgrade"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_x12_a_bad_line_is_named(path: Path, line: Any, reported: str) -> None:
    written(path, OURS, b"", line, OURS)
    events = read_log(path)
    assert next(events).sequence == 7
    with pytest.raises(
        LogError, match=rf"a\.jsonl, line 3: {reported}.*\. Repair or remove the line by hand"
    ) as raised:
        next(events)
    assert (raised.value.path, raised.value.line) == (path, 3)
    assert isinstance(raised.value, ToolcastError) and isinstance(raised.value, ValueError)


@given(
    st.lists(st.sampled_from([json.dumps(OURS).encode(), b"\n", b"{", b"\xef\xbb\xbf"]) | st.binary(max_size=9)),
    st.booleans(),
)
def test_any_garbage_is_read_or_is_the_one_error(pieces: list[bytes], tolerant: bool) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        path.write_bytes(b"".join(pieces))
        try:
            events = list(read_log(path, tolerate_torn=tolerant))
        except LogError as error:
            assert error.path == path
            assert error.line is None or 1 <= error.line <= path.read_bytes().count(b"\n") + 1
        else:
            assert events and all(event.run_id == "theirs" for event in events)


def test_a_torn_last_line_is_an_error_or_passed_over(path: Path) -> None:
    written(path, OURS, OURS)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(LogError, match=r"line 2: not JSON .*; it is cut off, as by a kill, and resuming its run"):
        list(read_log(path))
    assert len(list(read_log(path, tolerate_torn=True))) == 1
    path.write_bytes(whole[:-1])  # nothing but its end is missing
    assert len(list(read_log(path))) == len(list(read_log(path, tolerate_torn=True))) == 2


def test_only_the_last_line_may_be_torn(path: Path) -> None:
    for bad in (written(path, b'{"timest', OURS), written(path, OURS, b'{"timest')):
        with pytest.raises(LogError):
            list(read_log(bad, tolerate_torn=True))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b'{"timest'])
def test_x12_a_log_without_events_is_an_error(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LogError, match=r"a\.jsonl is empty: no run has written to it") as raised:
        list(read_log(path, tolerate_torn=True))
    assert raised.value.line is None


def test_x12_a_missing_log_is_both_errors(path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"a\.jsonl: there is no such log") as raised:
        next(read_log(path))
    assert isinstance(raised.value, LogMissing) and isinstance(raised.value, LogError)
    assert raised.value.path == path


def test_what_cannot_be_read_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(LogError, match=r"a\.jsonl cannot be read: .*Permission denied") as raised:
        next(read_log(path))
    assert isinstance(raised.value.__cause__, PermissionError)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows reports another error for a folder")
def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"cannot be read: .*directory"):
        next(read_log(tmp_path))


def test_a_reading_that_is_left_off_closes_its_file(path: Path) -> None:
    listing = Path("/proc/self/fd")
    before = len(list(listing.iterdir())) if listing.exists() else 0
    events = read_log(written(path, OURS, OURS))
    next(events)
    assert isinstance(events, Generator)
    events.close()
    assert not listing.exists() or len(list(listing.iterdir())) == before


def test_memory_stays_flat(path: Path) -> None:
    line = json.dumps(OURS | {"payload": {"output": "x" * 1000}}).encode() + b"\n"

    def peak(lines: int) -> int:
        path.write_bytes(line * lines)
        tracemalloc.start()
        assert sum(1 for _ in read_log(path)) == lines
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(10)
    assert peak(5_000) < peak(500) + 100_000
