"""event_log.py: the lines of a log, with concurrent writers and interrupted writes."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest
from hypothesis import given, strategies as st

from support import warm_python
from support.process import Process
from toolcast.errors import ToolcastError
from toolcast.experiments import event_log
from toolcast.experiments.event_log import JsonlLogger, LogError, LogTaken, read_log
from toolcast.experiments.log_events import EventType

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks, limits and signals of POSIX")
FIVE = {"timestamp", "run_id", "cycle_number", "event_type", "payload"}
PUBLISHED: dict[str, Any] = {
    "timestamp": "2025-11-02T10:00:00Z",
    "run_id": "run",
    "cycle_number": 1,
    "event_type": "CYCLE_START",
    "payload": {},
}
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from(["\u2028", "\x85", "\n", "\r\n", "\ufeff", "\x00", '"', "\\u2028", "é\u2029"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=3)
EVENTS = st.tuples(st.sampled_from(get_args(EventType)), st.integers(0, 99), OBJECTS, OBJECTS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "run.jsonl"


def opened(path: Path, *times: float, run_id: str = "run") -> JsonlLogger:
    """A writer, with these as the times of its lines, where they matter."""
    return JsonlLogger(path, run_id, now=iter(times).__next__) if times else JsonlLogger(path, run_id)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, by the standard library alone. Each ends with a newline."""
    text = path.read_bytes()
    assert text == b"" or text.endswith(b"\n")
    return [json.loads(line) for line in text.decode().splitlines()]  # splits at U+2028 too


def names_in(folder: Path) -> list[str]:
    """What is in a folder; on Windows the files of locks stay, and do not count."""
    return [inner.name for inner in folder.iterdir() if sys.platform != "win32" or inner.suffix != ".lock"]


def open_files() -> int:
    listing = Path("/proc/self/fd")
    return len(list(listing.iterdir())) if listing.exists() else 0


def three_lines(path: Path) -> bytes:
    """The content of a log of three lines, written anew."""
    path.unlink(missing_ok=True)
    with opened(path, 1.0, 2.0, 3.0) as log:
        log.log_event("RUN_START", payload={"config": {"text": "ä\u2028\n\U0001f600"}})
        log.log_event("CYCLE_START", 1)
        log.log_event("TOOL_CALL", 1, {"output": '{"timestamp": 1}\n'}, {"seconds": 0.5})
    return path.read_bytes()


# What stands in a line


def test_x2_every_line_has_the_five_keys_and_stands_in_the_log_at_once(path: Path) -> None:
    with opened(path) as log:
        for number, event_type in enumerate(get_args(EventType)):
            event = log.log_event(event_type, number, {"a": 1})
            line = lines_of(path)[-1]
            assert line == event.to_dict() and set(line) == FIVE | {"schema_version", "sequence"}
            assert (line["sequence"], line["schema_version"], line["run_id"]) == (number, 1, "run")
            assert log.next_sequence == number + 1
    assert [event.event_type for event in read_log(path)] == list(get_args(EventType))


def test_a_line_as_bytes(path: Path) -> None:
    assert three_lines(path).splitlines(keepends=True) == [
        b'{"timestamp":"1970-01-01T00:00:01.000000Z","run_id":"run","cycle_number":0,"event_type":"RUN_START",'
        b'"payload":{"config":{"text":"\xc3\xa4\\u2028\\n\xf0\x9f\x98\x80"}},"schema_version":1,"sequence":0}\n',
        b'{"timestamp":"1970-01-01T00:00:02.000000Z","run_id":"run","cycle_number":1,"event_type":"CYCLE_START",'
        b'"payload":{},"schema_version":1,"sequence":1}\n',
        b'{"timestamp":"1970-01-01T00:00:03.000000Z","run_id":"run","cycle_number":1,"event_type":"TOOL_CALL",'
        b'"payload":{"output":"{\\"timestamp\\": 1}\\n"},"schema_version":1,"sequence":2,"measures":{"seconds":0.5}}\n',
    ]


def test_the_event_has_what_was_given_and_the_log_what_json_holds(path: Path) -> None:
    given = {"bytes": b"b", "half": "\ud800", "nan": float("nan"), "keys": {1: {2}}}
    with opened(path) as log:
        event = log.log_event("ERROR", 1, given, {"seconds": float("inf"), "at": (1, 2)})
        log.log_event("ERROR", 1, {"only": "\udfff"}, {"half": "\ud83d\ude00"})
    assert event.payload is given and event.measures["at"] == (1, 2)
    first, second = lines_of(path)
    assert first["payload"] == {"bytes": "b", "half": "\ufffd", "nan": None, "keys": {"1": [2]}}
    assert first["measures"] == {"seconds": None, "at": [1, 2]}
    assert second["payload"] == {"only": "\ufffd"} and second["measures"] == {"half": "\U0001f600"}


def test_a_payload_that_cannot_even_be_looked_at_leaves_an_object(path: Path) -> None:
    class Closed(dict[str, Any]):
        def items(self) -> Any:
            raise OSError("closed")

    with opened(path) as log:
        log.log_event("ERROR", 1, Closed(a=1))
    assert lines_of(path)[0]["payload"] == {"value": "<Closed that cannot be written: OSError>"}


@given(st.lists(EVENTS, min_size=1, max_size=6), st.lists(st.floats(0, 4e9), min_size=6, max_size=6))
def test_x2_what_was_written_is_read_back(events: list[Any], clock: list[float]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        with opened(path, *clock) as log:
            logged = [log.log_event(*event) for event in events]
        assert list(read_log(path)) == logged
        lines = lines_of(path)
    assert [(e.event_type, e.cycle_number, e.payload, e.measures) for e in logged] == events
    assert [json.dumps(line["payload"]) for line in lines] == [json.dumps(payload) for _, _, payload, _ in events]
    assert [line["sequence"] for line in lines] == list(range(len(events)))
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)


# Time


def test_x2_time_never_goes_back_not_even_when_the_log_is_taken_up_again(path: Path) -> None:
    with opened(path, 100.5, 99, 101) as log:
        stamps = [log.log_event("CYCLE_START").timestamp for _ in range(3)]
    with opened(path, 50, 102.000001) as log:
        stamps += [log.log_event("CYCLE_START").timestamp for _ in range(2)]
    assert stamps == [
        f"1970-01-01T00:01:{second}Z" for second in ("40.500000", "40.500000", "41.000000", "41.000000", "42.000001")
    ]
    assert [event.timestamp for event in read_log(path)] == stamps


def test_the_usual_clock_is_the_systems(path: Path) -> None:
    before = datetime.now(UTC)
    with opened(path) as log:
        stamp = log.log_event("CYCLE_START").timestamp
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", stamp)
    assert before.replace(microsecond=0) <= datetime.fromisoformat(stamp) <= datetime.now(UTC)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("1970-01-01T00:00:10Z", "1970-01-01T00:00:10.000000Z"),
        ("1970-01-01T02:00:10.5+02:00", "1970-01-01T00:00:10.500000Z"),
        ("1970-01-01T00:00:10.25", "1970-01-01T00:00:10.250000Z"),
        ("1970-01-01T00:00:01Z", "1970-01-01T00:00:05.000000Z"),
        ("yesterday", "1970-01-01T00:00:05.000000Z"),
        ("0001-01-01T00:00:00+14:00", "1970-01-01T00:00:05.000000Z"),
    ],
)
def test_time_goes_on_from_what_another_program_has_written(path: Path, theirs: str, ours: str) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps(PUBLISHED | {"timestamp": theirs}) + "\n")
    with opened(path, 5.0) as log:
        assert log.log_event("CYCLE_START").timestamp == ours


# Opening


def test_a_log_goes_on_where_it_ended(path: Path) -> None:
    whole = three_lines(path)
    with opened(path) as log:
        assert (log.next_sequence, log.recovered_bytes) == (3, 0)
        assert log.log_event("CYCLE_START", 2).sequence == 3
    assert path.read_bytes().startswith(whole)


@pytest.mark.slow
def test_cut_at_every_byte_no_line_is_lost_but_the_torn_one(path: Path) -> None:
    whole = three_lines(path)
    ends = [0, *(found.end() for found in re.finditer(b"\n", whole))]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = [end for end in ends if end <= cut or end == cut + 1]  # a line that lacks its end alone is kept
        with opened(path) as log:
            assert path.read_bytes() == whole[: kept[-1]]
            assert log.next_sequence == len(kept) - 1
            assert log.recovered_bytes == max(cut - kept[-1], 0)
            log.log_event("RUN_END")
        assert [line["sequence"] for line in lines_of(path)] == list(range(len(kept)))


@given(st.lists(EVENTS, min_size=1, max_size=4), st.data())
def test_cut_anywhere_it_is_read_up_to_there(events: list[Any], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        with opened(path) as log:
            logged = [log.log_event(*event) for event in events]
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        with opened(path) as log:
            kept = log.next_sequence
            logged[kept:] = [log.log_event("RUN_END")]
        assert list(read_log(path)) == logged
    assert len(logged) >= whole[:cut].count(b"\n") + 1


@pytest.mark.parametrize("size", [1, 4, 10_000])
def test_only_the_end_of_a_long_log_is_looked_at(
    path: Path, monkeypatch: pytest.MonkeyPatch, process: Process, size: int
) -> None:
    with opened(path) as log:
        for _ in range(50):
            log.log_event("TOOL_CALL", 1, {"output": "x" * size})
    read = 0
    real = os.read

    def counted(fd: int, length: int) -> bytes:
        nonlocal read
        read += length
        return real(fd, length)

    monkeypatch.setattr(event_log, "_BLOCK", 1_000)
    process.call("read", counted)
    with opened(path) as log:
        assert log.next_sequence == 50
    assert read < 4 * (size + 1_000)


def test_blank_lines_and_other_line_ends_at_the_end_do_no_harm(path: Path) -> None:
    three_lines(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n") + b"\n \n\r\n")
    with opened(path) as log:
        assert (log.next_sequence, log.recovered_bytes) == (3, 0)
        log.log_event("RUN_END")
    assert [event.sequence for event in read_log(path)] == [0, 1, 2, 3]


def test_a_log_of_blank_lines_is_a_new_one(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\n\n")
    with opened(path) as log:
        assert log.log_event("RUN_START").sequence == 0


def test_a_log_of_one_line_after_a_byte_order_mark(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(PUBLISHED).encode() + b"\n")
    with opened(path) as log:
        assert log.next_sequence == 1


@pytest.mark.parametrize("end", ["\n", "", "\n" + json.dumps(PUBLISHED)[:30]])
def test_a_log_of_the_published_format_is_gone_on_with(path: Path, end: str) -> None:
    path.parent.mkdir()
    path.write_text("\n".join([json.dumps(PUBLISHED)] * 4) + end)
    with opened(path) as log:
        assert log.log_event("CYCLE_START", 2).sequence == 4
    assert [event.sequence for event in read_log(path)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("torn", ["", "torn"])
def test_the_log_of_another_run_is_left_alone(path: Path, torn: str) -> None:
    path.write_bytes(before := three_lines(path) + torn.encode())
    with pytest.raises(LogError, match=r"run\.jsonl is the log of the run 'run', not of 'other': give each run a log"):
        opened(path, run_id="other")
    assert path.read_bytes() == before
    assert names_in(path.parent) == ["run.jsonl"]


@pytest.mark.parametrize("content", ["A letter to my aunt", "{}", '{"time', '{"timestamp":"2026-01-01"', "\0\0\0"])
def test_a_file_that_is_no_log_is_left_alone(path: Path, content: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    if content.startswith('{"time'):
        opened(path).close()
        assert path.read_bytes() == b""
        return
    with pytest.raises(LogError, match=r"run\.jsonl is no log of a run: give the run a file of its own"):
        opened(path)
    assert path.read_text() == content


def test_a_damaged_last_line_is_named(path: Path) -> None:
    path.write_bytes(before := three_lines(path) + b"\nno JSON\n" + b'{"torn')
    with pytest.raises(LogError, match=r"line 5: not JSON \(Expecting value, column 1\)\. Repair") as raised:
        opened(path)
    assert raised.value.line == 5 and path.read_bytes() == before


WHOLE = json.dumps(PUBLISHED).encode()
PIECES = st.sampled_from([WHOLE, b"\n", b"\r\n", b'{"timestamp":"', b"{}", b"\xef\xbb\xbf", b"\0", b'"', b" ", b"\xff"])


@given(st.lists(PIECES | st.binary(max_size=5), max_size=8))
def test_whatever_stands_in_a_file_it_is_gone_on_with_or_left_alone(pieces: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.jsonl")
        path.write_bytes(before := b"".join(pieces))
        try:
            log = opened(path)
        except LogError as error:
            assert error.path == path.resolve() and path.read_bytes() == before
            return
        with log:
            log.log_event("RUN_END")
        after = path.read_bytes()
        kept = after[: after.rstrip(b"\n").rfind(b"\n") + 1]
        assert kept in (before, before + b"\n") or before.startswith(kept)
        assert before[len(kept) :].count(b"\n") == 0
        assert json.loads(after[len(kept) :])["event_type"] == "RUN_END"


# One writer


def test_a_second_writer_is_refused_and_may_come_after_the_first(path: Path) -> None:
    with opened(path) as log:
        log.log_event("RUN_START")
        for other in (path, path.parent / ".." / "logs" / "run.jsonl"):
            with pytest.raises(
                LogTaken, match=r"run\.jsonl is being written already, here in this process: "
            ) as raised:
                opened(other)
            assert raised.value.owner == os.getpid()
            assert isinstance(raised.value, ToolcastError)
        assert (path.parent / "run.jsonl.lock").exists()
    with opened(path) as log:
        assert log.next_sequence == 1
    assert names_in(path.parent) == ["run.jsonl"]


@posix
def test_a_link_to_the_log_is_the_log(path: Path) -> None:
    with opened(path) as log:
        link = path.parent.parent / "link"
        link.symlink_to(log.path)
        with pytest.raises(LogTaken):
            opened(link)


@pytest.mark.parametrize("content", ["", "no number"])
def test_a_lock_without_a_process_id(path: Path, content: str) -> None:
    with opened(path):
        (path.parent / "run.jsonl.lock").write_text(content)
        with pytest.raises(LogTaken, match="is being written already, elsewhere: wait") as raised:
            opened(path)
    assert raised.value.owner is None


def test_closed_twice_and_written_to_after(path: Path) -> None:
    log = opened(path)
    log.close()
    with opened(path):
        log.close()
        with pytest.raises(LogTaken):
            opened(path)
    with pytest.raises(ToolcastError, match=r"run\.jsonl is closed here: open it again"):
        log.log_event("RUN_END")


def test_a_forgotten_writer_lets_others_write(path: Path) -> None:
    opened(path).log_event("RUN_START")
    with opened(path) as log:
        assert log.next_sequence == 1


def test_several_threads_write_whole_lines_in_order(path: Path) -> None:
    with opened(path) as log, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: log.log_event("TOOL_CALL", number, {"n": number}), range(400)))
    lines = lines_of(path)
    assert [line["sequence"] for line in lines] == list(range(400))
    assert sorted(line["payload"]["n"] for line in lines) == list(range(400))


def test_threads_that_change_the_data_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(*args: object, **options: object) -> bytes:
        monkeypatch.undo()
        raise RuntimeError("dictionary changed size during iteration")

    with opened(path) as log:
        monkeypatch.setattr(event_log, "is_plain", changed)
        log.log_event("TOOL_CALL", 1, {"a": b"1"})
    assert lines_of(path)[0]["payload"] == {"a": "1"}


# Other processes


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A process that runs `code`, which finds `path` as its argument."""
    head = (
        "import os, sys; from pathlib import Path; path = Path(sys.argv[1])\n"
        "from toolcast.experiments.event_log import JsonlLogger, LogTaken, read_log\n"
        "from toolcast.errors import ToolcastError\n"
    )
    return warm_python.Popen(
        [sys.executable, "-c", head + code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def running(code: str, path: Path) -> Generator[subprocess.Popen[str]]:
    with python(code, path) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_writer_in_another_process_is_named(path: Path) -> None:
    with running("log = JsonlLogger(path, 'run'); print('ready', flush=True); input()", path) as process:
        assert next_line(process) == "ready"
        with pytest.raises(LogTaken, match=f"is being written already, in process {process.pid}: wait") as raised:
            opened(path)
        assert raised.value.owner == process.pid
        process.kill()
        process.wait()
        opened(path).close()


WRITING = """
import itertools
with JsonlLogger(path, "run") as log:
    for number in itertools.count():
        log.log_event("TOOL_CALL", number, {"output": "é\\u2028" * (number % 5_000)})
        print(number, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_x10_killed_while_it_writes_every_line_is_whole(path: Path, seed: int) -> None:
    written = 0
    for stop in random.Random(seed).sample(range(1, 300), 3):
        with running(WRITING.replace("count()", f"count({written})"), path) as process:
            reported = [int(next_line(process)) for _ in range(stop)]
            process.kill()
            process.wait()
            rest = process.stdout.read().split() if process.stdout else []
        known = int(rest[-1]) if rest else reported[-1]
        events = list(read_log(path, tolerate_torn=True))
        assert len(events) >= known + 1
        with opened(path) as log:
            written = log.next_sequence
        events = list(read_log(path))
        assert [event.payload["output"] for event in events] == ["é\u2028" * (n % 5_000) for n in range(len(events))]
        assert [event.sequence for event in events] == [event.cycle_number for event in events]
        assert len(events) == written


@posix
def test_a_forked_child_writes_nothing_and_leaves_the_log_to_its_parent(path: Path) -> None:
    code = """
log = JsonlLogger(path, "run")
log.log_event("RUN_START")
child = os.fork()
if not child:
    for write in (lambda: log.log_event("ERROR"), lambda: JsonlLogger(path, "run")):
        try:
            write()
        except LogTaken as error:
            print(error.owner == os.getppid(), error, flush=True)
    log.close()
    log.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
log.log_event("RUN_END")
print([event.sequence for event in read_log(path)])
"""
    with running(code, path) as process:
        assert process.stdout is not None
        first, second, last = process.stdout.read().splitlines()
    assert re.fullmatch(rf"True .*run\.jsonl is the log of process {process.pid}, and this is a child .*", first)
    assert re.fullmatch(rf"True .*run\.jsonl is being written already, in process {process.pid}: .*", second)
    assert last == "[0, 1]"


@posix
def test_a_child_closes_what_is_its_own(path: Path, process: Process) -> None:
    # Above, a real child does so; here, in one process, it is looked at.
    log = opened(path)
    with process.as_child():
        with pytest.raises(LogTaken, match=r"and this is a child of it, process -1: open a log of its own here"):
            log.log_event("ERROR")
        before = open_files()
        log.close()
        assert open_files() == max(before - 1, 0)
    with pytest.raises(LogTaken):
        opened(path)
    log.close()
    opened(path).close()


# A disk that fails


class Disk:
    """`os.write`, which for one line takes the given number of bytes, and then raises."""

    def __init__(self) -> None:
        self.takes: Iterator[int | BaseException] = iter(())

    def write(self, fd: int, data: bytes) -> int:
        for taken in self.takes:
            if isinstance(taken, BaseException):
                raise taken
            return self.real(fd, data[:taken])
        return self.real(fd, data)

    real = staticmethod(os.write)


@pytest.fixture
def disk(process: Process) -> Disk:
    disk = Disk()
    process.call("write", disk.write)
    return disk


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_line_that_is_written_in_pieces_is_whole(path: Path, disk: Disk) -> None:
    with opened(path) as log:
        disk.takes = iter([1, 5, 2])
        log.log_event("TOOL_CALL", 1, {"output": "x" * 50})
    assert lines_of(path)[0]["payload"] == {"output": "x" * 50}


@pytest.mark.parametrize("pieces", [[], [0], [7], [7, 1], [7, 0]])
def test_a_line_that_the_disk_has_no_room_for_is_taken_back(path: Path, disk: Disk, pieces: list[int]) -> None:
    with opened(path) as log:
        log.log_event("CYCLE_START", 1)
        before = path.read_bytes()
        disk.takes = iter([*pieces, full()])
        with pytest.raises(
            ToolcastError, match=r"run\.jsonl cannot be written: No space left.*\. Free some space"
        ) as raised:
            log.log_event("CYCLE_START", 2)
        assert isinstance(raised.value.__cause__, OSError)
        assert path.read_bytes() == before
        disk.takes = iter([])
        assert log.log_event("CYCLE_START", 3).sequence == 1
    assert [line["cycle_number"] for line in lines_of(path)] == [1, 3]


def test_a_line_that_could_not_be_taken_back_is_so_by_the_next(
    path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with opened(path) as log:
        log.log_event("CYCLE_START", 1)
        with monkeypatch.context() as broken:
            broken.setattr(os, "ftruncate", fail)
            for _ in range(2):
                disk.takes = iter([9, full()])
                with pytest.raises(ToolcastError, match="cannot be written"):
                    log.log_event("CYCLE_START", 2)
            assert not path.read_bytes().endswith(b"\n")
        disk.takes = iter([])
        assert log.log_event("CYCLE_START", 3).sequence == 1
    assert [line["cycle_number"] for line in lines_of(path)] == [1, 3]


@pytest.mark.parametrize(("taken", "cycles"), [(0, [1, 3]), (20, [1, 3]), (10_000, [1, 2, 3])])
def test_an_interruption_in_the_middle_of_a_line(path: Path, disk: Disk, taken: int, cycles: list[int]) -> None:
    def interrupted(fd: int, data: bytes) -> int:
        disk.real(fd, data[:taken])
        raise KeyboardInterrupt

    with opened(path, *map(float, range(9))) as log:
        log.log_event("CYCLE_START", 1)
        with pytest.MonkeyPatch.context() as pressed:
            pressed.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.log_event("CYCLE_START", 2)
        log.log_event("CYCLE_START", 3)
    lines = lines_of(path)
    assert [line["cycle_number"] for line in lines] == cycles
    assert [line["sequence"] for line in lines] == list(range(len(cycles)))


def test_a_log_that_another_program_has_changed_meanwhile(path: Path) -> None:
    with opened(path) as log:
        log.log_event("CYCLE_START", 1)
        path.write_bytes(b"")
        assert log.log_event("RUN_START").sequence == 0
        path.write_bytes(b"no log")
        with pytest.raises(LogError, match="is no log of a run"):
            log.log_event("RUN_END")
        path.write_bytes(b"")
        log.log_event("RUN_START")
    assert [event.sequence for event in read_log(path)] == [0]


def test_what_another_program_leaves_at_its_end_does_no_harm(path: Path) -> None:
    with opened(path) as log:
        log.log_event("CYCLE_START", 1)
        for left in (b"\n", b'{"half', json.dumps(PUBLISHED).encode()):
            with path.open("ab") as file:
                file.write(left)
            log.log_event("CYCLE_START", 2)
    assert [event.sequence for event in read_log(path)] == [0, 1, 2, 3, 4]


@posix
def test_a_log_that_was_removed_meanwhile(path: Path) -> None:
    with opened(path) as log:
        log.log_event("CYCLE_START", 1)
        path.unlink()
        with pytest.raises(ToolcastError, match=r"run\.jsonl was removed while its run was going on"):
            log.log_event("CYCLE_START", 2)


def test_a_first_line_that_failed_leaves_a_log_that_can_be_begun(path: Path, disk: Disk) -> None:
    with opened(path) as log:
        disk.takes = iter([full()])
        with pytest.raises(ToolcastError):
            log.log_event("RUN_START")
        assert log.log_event("RUN_START").sequence == 0


def test_no_room_for_the_end_of_a_last_line(path: Path, disk: Disk) -> None:
    path.write_bytes(before := three_lines(path)[:-1])
    disk.takes = iter([20, full()])  # the file of the lock is written first
    with pytest.raises(ToolcastError, match="Free some space"):
        opened(path)
    assert path.read_bytes() == before
    opened(path).close()


@posix
def test_a_real_limit_of_the_system(path: Path) -> None:
    code = """
import resource
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (2_500, hard))
with JsonlLogger(path, "run") as log:
    try:
        for number in range(100):
            log.log_event("TOOL_CALL", number, {"output": "x" * 200})
    except ToolcastError as error:
        print(error)
    print(path.read_bytes()[-1:], path.stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    log.log_event("TOOL_CALL", number, {"output": "x" * 200})
print([event.cycle_number for event in read_log(path)] == list(range(number + 1)), number > 3)
"""
    with running(code, path) as process:
        assert process.stdout is not None
        reported, size, last = process.stdout.read().splitlines()
    assert re.search(r"run\.jsonl cannot be written: File too large\. Is its folder there and writable", reported)
    assert size.startswith("b'\\n' 2") and last == "True True"


def test_a_folder_where_the_log_should_be(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(ToolcastError, match=r"run\.jsonl cannot be written: "):
        opened(path)
    assert names_in(path.parent) == ["run.jsonl"]


@pytest.mark.parametrize("name", ["file/run.jsonl", "file/deeper/run.jsonl"])
def test_a_file_where_a_folder_should_be(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        ToolcastError, match=r"run\.jsonl cannot be written: .*One of its folders is a file|Is its folder"
    ):
        opened(tmp_path / name)


def test_a_folder_that_may_not_be_written_to(path: Path, process: Process) -> None:
    real = os.open

    def denied(at: Any, *how: Any) -> int:
        if Path(at).name.startswith("run."):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(at, *how)

    process.call("open", denied)
    with pytest.raises(
        ToolcastError, match=r"run\.jsonl cannot be written: Permission denied\. Is its folder"
    ) as raised:
        opened(path)
    assert isinstance(raised.value.__cause__, PermissionError)
    assert not isinstance(raised.value, LogTaken)


def test_a_claim_that_fails_otherwise_is_reported_as_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise ToolcastError("no claim")

    monkeypatch.setattr(event_log, "claim_file", fail)
    with pytest.raises(ToolcastError, match=r"^no claim$"):
        opened(path)


def test_nothing_stays_open_after_a_failure(path: Path) -> None:
    before = open_files()
    three_lines(path)
    for _ in range(3):
        with pytest.raises(LogError):
            opened(path, run_id="other")
    assert open_files() == before


def test_interrupted_after_a_line_the_next_has_a_number_of_its_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as log:
        append = log._append

        def interrupted(*args: Any) -> None:
            monkeypatch.setattr(log, "_append", append)
            append(*args)
            raise KeyboardInterrupt

        monkeypatch.setattr(log, "_append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            log.log_event("CYCLE_START", 1)
        assert log.log_event("RUN_END").sequence == 1
    assert [event.sequence for event in read_log(path)] == [0, 1]


def test_interrupted_while_it_is_closed_a_log_is_free_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def interrupted() -> Generator[None]:
        raise KeyboardInterrupt
        yield

    with opened(path) as log:
        monkeypatch.setattr(log, "_mutex", interrupted())
        with pytest.raises(KeyboardInterrupt):
            log.close()
        monkeypatch.undo()
        with opened(path) as again:
            assert again.log_event("CYCLE_START", 1).sequence == 0
