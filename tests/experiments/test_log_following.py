"""log_reading.py: what was appended is returned once, wherever the log is cut, torn, truncated or replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import pytest
from hypothesis import given, strategies as st

from support.run_logs import whole_run
from toolcast.experiments.log_events import LogEvent
from toolcast.experiments.log_reading import BOM, LogError, LogFollower, read_log


def line(sequence: int, run_id: str = "first", text: str = "") -> bytes:
    event: dict[str, Any] = {
        "timestamp": f"2026-11-22T10:00:{sequence:02}.000000Z",
        "run_id": run_id,
        "cycle_number": 1,
        "event_type": "CYCLE_END",
        "payload": {"final_reflection": text},
        "sequence": sequence,
    }
    return json.dumps(event).encode() + b"\n"


LINES = [line(number, text="é" * number) for number in range(5)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.jsonl"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def sequences(follower: LogFollower) -> list[int]:
    return [event.sequence for event in follower.new_events()]


def test_a_log_is_followed_from_before_it_exists(path: Path) -> None:
    follower = LogFollower(path)
    assert (sequences(follower), follower.exists) == ([], False)
    path.write_bytes(b"")
    assert (sequences(follower), follower.exists) == ([], True)
    append(path, LINES[0] + LINES[1])
    assert sequences(follower) == [0, 1]
    assert sequences(follower) == []
    append(path, LINES[2])
    assert sequences(follower) == [2]
    assert follower.restarts == 0


def test_every_cut_of_a_log(path: Path) -> None:
    whole = b"".join(LINES)
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        follower = LogFollower(path)
        before = sequences(follower)
        assert before == list(range(whole[:cut].count(b"\n")))
        append(path, whole[cut:])
        assert before + sequences(follower) == [0, 1, 2, 3, 4]
        assert follower.restarts == 0


@given(st.lists(st.integers(0, sum(map(len, LINES))), max_size=12))
def test_any_pieces_of_a_log(cuts: list[int]) -> None:
    whole = b"\r\n" + BOM.join([b"", *LINES[:1]]) + b" \n" + b"".join(LINES[1:])
    whole = whole.removeprefix(b"\r\n") if len(cuts) % 2 else BOM + b"\n" + b"".join(LINES)
    with TemporaryDirectory() as folder:
        path = Path(folder, "a.jsonl")
        follower, found = LogFollower(path), list[int]()
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(whole)], strict=True):
            append(path, whole[start:end])
            found += sequences(follower)
        assert found == [0, 1, 2, 3, 4]


def test_the_same_events_as_those_of_a_reader(tmp_path: Path) -> None:
    log = whole_run(tmp_path / "run.jsonl")
    whole, found, follower = log.read_bytes(), list[LogEvent](), LogFollower(tmp_path / "b.jsonl")
    for start in range(0, len(whole), 997):
        append(follower.path, whole[start : start + 997])
        found += follower.new_events()
    assert found == list(read_log(log))


def test_a_torn_line_that_the_writer_takes_back(path: Path) -> None:
    path.write_bytes(LINES[0] + LINES[1][:40])
    follower = LogFollower(path)
    assert sequences(follower) == [0]
    os.truncate(path, len(LINES[0]))
    assert sequences(follower) == []
    append(path, LINES[2])
    assert sequences(follower) == [2]
    append(path, LINES[3][:50])
    assert sequences(follower) == []
    os.truncate(path, len(LINES[0] + LINES[2]))
    append(path, LINES[4])  # between two calls, so that the file never is shorter
    assert (sequences(follower), follower.restarts) == ([4], 0)


def test_a_log_that_is_truncated_begins_anew(path: Path) -> None:
    path.write_bytes(LINES[0] + LINES[1])
    follower = LogFollower(path)
    assert sequences(follower) == [0, 1]
    path.write_bytes(b"")
    assert (sequences(follower), follower.restarts) == ([], 1)
    append(path, line(0, "second"))
    assert [event.run_id for event in follower.new_events()] == ["second"]
    assert follower.restarts == 1


def test_a_log_that_is_written_anew_between_two_calls(path: Path) -> None:
    path.write_bytes(LINES[0] + LINES[1])
    follower = LogFollower(path)
    assert sequences(follower) == [0, 1]
    path.write_bytes(b"".join(line(number, "second") for number in range(4)))  # longer than before, the file the same
    assert [(event.run_id, event.sequence) for event in follower.new_events()] == [("second", n) for n in range(4)]
    assert follower.restarts == 1


def test_a_log_that_is_rotated(path: Path) -> None:
    path.write_bytes(LINES[0] + LINES[1])
    follower = LogFollower(path)
    assert sequences(follower) == [0, 1]
    path.rename(path.with_suffix(".old"))
    assert (sequences(follower), follower.exists, follower.restarts) == ([], False, 0)
    path.write_bytes(LINES[0] + LINES[1] + LINES[2])  # the same lines, in another file
    assert (sequences(follower), follower.exists, follower.restarts) == ([0, 1, 2], True, 1)


def test_lines_of_the_published_format_are_numbered(path: Path) -> None:
    published = {key: value for key, value in json.loads(LINES[0]).items() if key != "sequence"}
    follower = LogFollower(path)
    for number in range(3):
        append(path, json.dumps(published).encode() + b"\n\n")
        assert sequences(follower) == [number]


def test_a_line_that_is_no_event_is_an_error_once(path: Path) -> None:
    path.write_bytes(LINES[0] + b"nonsense\n" + LINES[1])
    follower = LogFollower(path)
    found = follower.new_events()
    assert next(found).sequence == 0
    with pytest.raises(LogError, match=r"a\.jsonl, line 2: not JSON"):
        next(found)
    assert sequences(follower) == [1]
    assert sequences(follower) == []


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="cannot be read"):
        list(LogFollower(tmp_path).new_events())


class CountedFile:
    """A file that counts the bytes that are read from it."""

    def __init__(self, file: IO[bytes], read: list[int]) -> None:
        self._file, self._counts = file, read

    def __enter__(self) -> CountedFile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def seek(self, offset: int) -> int:
        return self._file.seek(offset)

    def read(self, size: int) -> bytes:
        return self._counted(self._file.read(size))

    def readline(self) -> bytes:
        return self._counted(self._file.readline())

    def _counted(self, data: bytes) -> bytes:
        self._counts.append(len(data))
        return data


def test_the_cost_is_that_of_what_was_appended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"".join(line(0, text="x" * 10_000) for _ in range(200)))
    follower, counts, usual = LogFollower(path), list[int](), Path.open
    monkeypatch.setattr(Path, "open", lambda self, *a, **b: CountedFile(usual(self, *a, **b), counts))
    assert len(sequences(follower)) == 200
    counts.clear()
    with usual(path, "ab") as file:
        file.write(LINES[1])
    assert sequences(follower) == [1]
    assert sum(counts) <= len(LINES[1]) + 200
    counts.clear()
    assert (sequences(follower), counts) == ([], [])
