"""Every decoder on every other protocol's recordings: whole, cut, spliced and mutated (cross_fuzz.py)."""

from __future__ import annotations

import random

import pytest

import cross_fuzz
from support.extent import nightly
from support.shared_data import needs_shared

SHARES = 5
INPUTS = nightly(50_000, 20_000) // (SHARES * len(cross_fuzz.WIRES))

each = pytest.mark.parametrize("name", cross_fuzz.WIRES)


@pytest.mark.nightly
@needs_shared
@pytest.mark.gate("G1")
@each
@pytest.mark.parametrize("share", range(SHARES))
def test_mutated_recordings_give_events_or_one_error(name: str, share: int) -> None:
    report = cross_fuzz.run(name, f"ci/{share}", INPUTS)
    assert report.findings == []
    assert 0 < report.errors < report.inputs == INPUTS


@pytest.mark.slow
@needs_shared
@pytest.mark.gate("G1")
@each
def test_whole_recordings_give_events_or_one_error(name: str) -> None:
    chance = random.Random(name)
    for body in cross_fuzz.bodies().values():
        cross_fuzz.check(name, cross_fuzz.pieces(body, chance), deep=False)


@pytest.mark.slow
@needs_shared
@pytest.mark.gate("G1")
@each
def test_the_steps_grow_with_the_length_alone(name: str) -> None:
    """Inputs repeated 4 and 16 times: at most four times the calls of Python and C functions."""
    chance = random.Random(name)
    for _ in range(60):
        data = cross_fuzz.made(name, chance)
        few, many = (cross_fuzz.steps(name, data * times) for times in (4, 16))
        assert many <= 4.4 * few + 500
