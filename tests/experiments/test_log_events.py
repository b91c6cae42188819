"""The lines of a log, as values."""

from __future__ import annotations

import pytest

from toolcast.experiments.log_events import LogEvent

EVENT = LogEvent("CYCLE_START", 3, {}, {}, "first", "2026-01-02T03:04:05.000006Z", 7)


def test_a_line() -> None:
    assert EVENT.to_dict() == {
        "timestamp": "2026-01-02T03:04:05.000006Z",
        "run_id": "first",
        "cycle_number": 3,
        "event_type": "CYCLE_START",
        "payload": {},
        "schema_version": 1,
        "sequence": 7,
    }
    assert LogEvent.from_dict(EVENT.to_dict()) == EVENT


def test_what_was_measured_stands_beside_the_payload() -> None:
    event = LogEvent("TOOL_CALL", 1, {"output": "ok"}, {"seconds": 0.5}, "first", "now", 1)
    assert event.to_dict()["measures"] == {"seconds": 0.5}
    assert LogEvent.from_dict(event.to_dict()) == event


def test_a_line_of_the_published_format() -> None:
    line = {key: value for key, value in EVENT.to_dict().items() if key not in ("schema_version", "sequence")}
    assert LogEvent.from_dict(line).sequence == 0
    with pytest.raises(KeyError):
        LogEvent.from_dict({"event_type": "CYCLE_START"})
