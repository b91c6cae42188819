"""line_source.py: lines of pipes, files, terminals and other streams, each for its own question."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from hypothesis import given, strategies as st

from toolcast.experiments import operators as module
from toolcast.experiments.operators import DescriptorLines, LineSource, StreamLines, line_source
from toolcast.transport.cancel_handle import CancelHandle

posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot wait for a descriptor")
SOON = 0.0


class Pipe:
    """A pipe with a writer that may take its time."""

    def __init__(self) -> None:
        reading, self.writing = os.pipe()
        self.stream = os.fdopen(reading, encoding="utf-8")

    def write(self, data: bytes) -> None:
        os.write(self.writing, data)

    def end(self) -> None:
        os.close(self.writing)
        self.writing = -1

    def close(self) -> None:
        self.stream.close()
        if self.writing >= 0:
            self.end()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


class Slow(io.StringIO):
    """A stream without a descriptor, whose lines come when they are given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Semaphore(0)
        self._given: list[str | Exception] = []
        self._there = threading.Semaphore(0)

    def give(self, line: str | Exception) -> None:
        self._given.append(line)
        self._there.release()

    def readline(self, size: int | None = -1, /) -> str:
        self.asked.release()
        assert self._there.acquire(timeout=30)
        line = self._given.pop(0)
        if isinstance(line, Exception):
            raise line
        return line


def asked(lines: LineSource, seconds: float | None = 10) -> str:
    """What the next question is answered."""
    lines.begin()
    return lines.next(seconds)


# Where the lines come from.


@posix
def test_what_can_be_waited_for_is_read_by_its_descriptor(pipe: Pipe, tmp_path: Path) -> None:
    assert isinstance(line_source(pipe.stream), DescriptorLines)
    with (tmp_path / "answers").open("w+") as file:
        assert isinstance(line_source(file), DescriptorLines)


def test_any_other_stream_is_read_in_a_thread(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(line_source(io.StringIO()), StreamLines)
    assert isinstance(line_source(cast("TextIO", object())), StreamLines)
    monkeypatch.setattr(module.os, "name", "nt")
    assert isinstance(line_source(pipe.stream), StreamLines)


def test_a_closed_stream_has_no_lines() -> None:
    stream = io.StringIO()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        asked(line_source(stream))


# Lines.

TEXTS = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"))


@posix
@given(lines=st.lists(TEXTS), ends=st.sampled_from(["\n", "\r\n"]), last=TEXTS)
def test_lines_are_given_as_they_are(lines: list[str], ends: str, last: str) -> None:
    pipe = Pipe()
    try:
        pipe.write("".join([*(line + ends for line in lines), last]).encode())
        pipe.end()
        source = line_source(pipe.stream)
        assert [asked(source) for _ in lines] == lines
        if last:
            assert asked(source) == last
        for _ in range(2):
            with pytest.raises(EOFError, match="the input has ended"):
                asked(source)
    finally:
        pipe.close()


@given(lines=st.lists(TEXTS), last=TEXTS)
def test_lines_of_a_stream_are_given_as_they_are(lines: list[str], last: str) -> None:
    source = line_source(io.StringIO("".join([*(f"{line}\n" for line in lines), last]), newline=""))
    assert [asked(source) for _ in lines] == lines
    if last:
        assert asked(source) == last
    for _ in range(2):
        with pytest.raises(EOFError, match="the input has ended"):
            asked(source)


@posix
def test_a_line_may_come_in_pieces(pipe: Pipe) -> None:
    source, got = line_source(pipe.stream), list[str]()
    thread = threading.Thread(target=lambda: got.append(asked(source, None)))
    thread.start()
    for piece in (b"on", b"e l", b"ine\r", b"\nmore"):
        pipe.write(piece)
    thread.join(30)
    assert got == ["one line"]


@posix
def test_bytes_that_are_no_text_do_not_end_it(pipe: Pipe) -> None:
    pipe.write(b"a\xffb\n")
    assert asked(line_source(pipe.stream)) == "a\ufffdb"


@posix
def test_other_encodings(pipe: Pipe) -> None:
    pipe.stream.reconfigure(encoding="latin-1")
    pipe.write(b"a\xffb\n")
    assert asked(line_source(pipe.stream)) == "aÿb"


@posix
def test_a_line_without_end_is_cut(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 4)
    pipe.write(b"abcdefgh")
    assert asked(line_source(pipe.stream)) == "abcdefgh"


# What comes too late, or too early.


@posix
def test_answers_that_stand_ready_in_a_pipe_are_used(pipe: Pipe) -> None:
    pipe.write(b"one\ntwo\n")
    source = line_source(pipe.stream)
    assert [asked(source), asked(source)] == ["one", "two"]


@posix
def test_what_comes_too_late_does_not_answer_the_next_question(pipe: Pipe) -> None:
    source = line_source(pipe.stream)
    with pytest.raises(TimeoutError, match="there was no answer within 0 seconds"):
        asked(source, SOON)
    pipe.write(b"late\nand more\n")
    source.begin()
    pipe.write(b"in time\n")
    assert source.next(10) == "in time"
    pipe.write(b"early\n")
    assert asked(source) == "early"


@posix
@pytest.mark.parametrize("late", [[b"la"], [b"la", b"te"], [b"one\nla"]])
def test_the_rest_of_a_line_that_had_begun_is_late_too(pipe: Pipe, late: list[bytes]) -> None:
    source = line_source(pipe.stream)
    with pytest.raises(TimeoutError):
        asked(source, SOON)
    for piece in late:
        pipe.write(piece)
        with pytest.raises(TimeoutError):
            asked(source, SOON)
    source.begin()
    pipe.write(b" is the rest\nin time\n")
    assert source.next(10) == "in time"


@posix
def test_what_was_read_of_a_line_before_the_time_was_up_is_late(pipe: Pipe) -> None:
    source = line_source(pipe.stream)
    pipe.write(b"la")
    with pytest.raises(TimeoutError):
        asked(source, 0.01)
    source.begin()
    pipe.write(b"te\nin time\n")
    assert source.next(10) == "in time"


@posix
def test_an_input_that_ended_too_late_has_ended(pipe: Pipe) -> None:
    source = line_source(pipe.stream)
    with pytest.raises(TimeoutError):
        asked(source, SOON)
    pipe.write(b"late\n")
    pipe.end()
    with pytest.raises(EOFError):
        asked(source)


def test_a_late_line_of_a_stream_is_left_out() -> None:
    stream = Slow()
    source = StreamLines(stream)
    with pytest.raises(TimeoutError, match="within 0 seconds"):
        asked(source, SOON)
    assert source._reading is not None
    stream.give("late\n")
    assert source._reading.job.wait(30)
    stream.give("in time\r\n")
    assert asked(source) == "in time"


def test_the_thread_that_still_reads_serves_the_next_question() -> None:
    stream = Slow()
    source = StreamLines(stream)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            asked(source, SOON)
    stream.give("in time\n")
    assert asked(source, None) == "in time"
    assert stream.asked.acquire(blocking=False)
    assert not stream.asked.acquire(blocking=False)


def test_a_stream_that_fails_reports_it() -> None:
    stream = Slow()
    stream.give(OSError("unplugged"))
    source = StreamLines(stream)
    with pytest.raises(OSError, match="unplugged"):
        asked(source)
    stream.give("again\n")
    assert asked(source) == "again"


# A line that is cut.


@pytest.mark.parametrize("kind", [pytest.param("pipe", marks=posix), "stream"])
@pytest.mark.parametrize("seconds", [None, 60])
def test_a_question_that_is_taken_back_is_not_waited_for(pipe: Pipe, kind: str, seconds: float | None) -> None:
    stream = Slow()
    source = line_source(pipe.stream if kind == "pipe" else cast("TextIO", stream))
    line = CancelHandle()
    with line:
        threading.Thread(target=line.break_off).start()
        with pytest.raises(ConnectionError, match="the question was taken back"):
            asked(source, seconds)
    stream.give("\n")


@posix
def test_an_answer_that_is_there_counts_though_the_line_is_cut(pipe: Pipe) -> None:
    pipe.write(b"there\n")
    line = CancelHandle()
    line.break_off()
    with line:
        assert asked(line_source(pipe.stream)) == "there"


def test_a_line_that_is_not_cut_changes_nothing() -> None:
    ready, waited = iter([False, False, True]), list[float | None]()

    def is_ready(seconds: float | None) -> bool:
        waited.append(seconds)
        return next(ready)

    with CancelHandle():
        module._Wait(None).until(is_ready)
    assert waited == [module._SLICE] * 3


# A terminal.


@posix
def test_what_was_typed_before_a_question_is_forgotten() -> None:
    import pty

    mine, theirs = pty.openpty()
    stream: Any = os.fdopen(theirs, encoding="utf-8")
    try:
        source = line_source(stream)
        os.write(mine, b"one\nearly\nhalf a li")
        shown = b""
        while b"half a li" not in shown:  # then the terminal has got it
            shown += os.read(mine, 1000)
        source.begin()
        os.write(mine, b"in time\nmore\n")
        assert source.next(10) == "in time"
        source.begin()
        os.write(mine, b"again\n\x04")
        assert source.next(10) == "again"
        with pytest.raises(EOFError):
            source.next(10)
    finally:
        stream.close()
        os.close(mine)
