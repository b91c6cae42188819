"""The file of a recording: written at once, for its owner alone, and refused where it is damaged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from toolcast.errors import LimitExceeded, Timeout
from toolcast.testing import RecordingError, RecordingMismatch, ReplayNetwork
from toolcast.testing.recording import Exchange, Recording, read_recording, write_recording
from toolcast.testing.request_matching import RecordedRequest
from toolcast.testing.scrubbing import Scrubber
from toolcast.values.http_request import HTTPRequest

REQUEST = RecordedRequest("POST", "https://api.example/v1", {"accept": "a/b"}, b'{"a": "\xc3\xa9"}')


def test_the_file_is_readable(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("what was there")
    path.chmod(0o644)
    done = Exchange(REQUEST, 200, {"content-type": "a/b", "set-cookie": "x"}, ["é".encode(), b"\xc3"], complete=True)
    failed = Exchange(RecordedRequest("GET", "https://api.example/é"))
    assert failed.fails_with(Timeout("late", phase="connect"))
    write_recording(path, [done, failed], Scrubber())
    assert [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] == [
        {"toolcast_recording": 1},
        {
            "request": {
                "method": "POST",
                "url": "https://api.example/v1",
                "headers": {"accept": "a/b"},
                "json": {"a": "é"},
            }
        },
        {"response": {"status": 200, "headers": {"content-type": "a/b"}}},
        {"chunk": "é"},
        {"chunk": {"base64": "ww=="}},
        {"end": "complete"},
        {"request": {"method": "GET", "url": "https://api.example/é", "headers": {}}},
        {"end": {"type": "Timeout", "message": "late", "retryable": True, "phase": "connect"}},
    ]
    assert "é" in path.read_text(encoding="utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    again = read_recording(path)
    assert [each.chunks for each in again] == [["é".encode(), b"\xc3"], []]
    assert isinstance(error := again[1].failure(), Timeout)
    assert error.phase == "connect"


def test_an_error_of_the_program_is_not_recorded() -> None:
    exchange = Exchange(REQUEST)
    assert not exchange.fails_with(ValueError("x"))
    assert exchange.fails_with(LimitExceeded("x"))
    assert exchange.failure() is not None


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.jsonl"
    write_recording(path, [Exchange(REQUEST)], Scrubber())
    before = path.read_bytes()

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_recording(path, [], Scrubber())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


HEAD = '{"toolcast_recording": 1}\n'
ASKED = '{"request": {"method": "GET", "url": "u", "headers": {}}}\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("not JSON", 1),
        ("[]", 1),
        ("{}", 1),
        ('{"a": 1, "b": 2}', 1),
        ('{"toolcast_recording": 2}', 1),
        (HEAD + '{"response": {"status": 200, "headers": {}}}', 2),
        (HEAD + '{"request": 1}', 2),
        (HEAD + '{"request": {"method": "GET"}}', 2),
        (HEAD + ASKED + ASKED, 3),
        (HEAD + ASKED + '{"response": {"status": "x", "headers": {}}}', 3),
        (HEAD + ASKED + '{"chunk": {"base64": "!"}}', 3),
        (HEAD + ASKED + '{"end": {"type": "SystemExit", "message": ""}}', 3),
        (HEAD + ASKED + '{"end": {"type": "Timeout"}}', 3),
        (HEAD + ASKED + '{"other": 1}', 3),
        (HEAD + "[" * 100_000, 2),
    ],
)
def test_a_damaged_line(text: str, line: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(RecordingError, match=f"x, line {line}: expected a line of a recording, got .*Delete the file"):
        read_recording(tmp_path / "x")


def test_an_exchange_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(f"{HEAD}\n{ASKED}")
    with pytest.raises(RecordingError, match="the last exchange has no end"):
        read_recording(tmp_path / "x")


@pytest.mark.parametrize("flips", [500, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])])
def test_a_flipped_byte_is_no_foreign_error(tmp_path: Path, flips: int) -> None:
    """People edit recordings, so they have no checksum: a changed text is read as it is."""
    path = tmp_path / "x.jsonl"
    done = Exchange(REQUEST, 200, {"content-type": "a/b"}, ["é".encode(), b"\xc3"], complete=True)
    failed = Exchange(RecordedRequest("POST", "https://api.example/v1", body=b"a"), 200, {}, [b"{}"])
    assert failed.fails_with(Timeout("late", phase="connect"))
    write_recording(path, [done, failed], Scrubber())
    content, random, results = path.read_bytes(), Random(flips), Counter[str]()
    network = ReplayNetwork()
    sent = HTTPRequest("POST", "https://api.example/v1", {"accept": "a/b"}, REQUEST.body)
    for _ in range(flips):
        damaged = bytearray(content)
        damaged[random.randrange(len(content))] ^= random.randrange(1, 256)
        path.write_bytes(damaged)
        try:
            recording = Recording(path, "none", Scrubber())
            response = recording.open(network, sent, connect=None, read=None)
            while response.read():
                pass
            results[str(response.status)] += 1
        except (RecordingMismatch, RecordingError, Timeout) as error:
            assert isinstance(error, Timeout) or str(path) in str(error)
            results[type(error).__name__] += 1
    assert results["200"]
    assert results["RecordingError"] > flips / 10
