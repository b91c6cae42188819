"""Tests of `EqualInputs`: which rows are asked, which wait, and which get a copy."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from toolcast.batch.inputs import InputRow
from toolcast.batch.item_keys import EqualInputs
from toolcast.batch.outcome import Outcome
from toolcast.values.usage import NO_USAGE, Usage


def row(index: int, value: Any) -> InputRow:
    return InputRow(index, {"text": value, "id": index}, {"text": value}, key=str(index))


def outcome(row: InputRow, *, fails: bool = False) -> Outcome[str]:
    error = ValueError("no") if fails else None
    output = None if fails else f"the answer to {row.values['text']}"
    return Outcome(row.index, row.key, row.input, output, error, 1, Usage(10, 5), 2.0)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("abcdef"), st.booleans(), st.booleans(), st.integers(0, 9)), max_size=60),
)
def test_equal_rows_are_asked_one_at_a_time(most: int, steps: list[tuple[str, bool, bool, int]]) -> None:
    """Rows of any values, whose calls end in any order: one of each value runs, and each row gets its own outcome."""
    equal: EqualInputs[str] = EqualInputs(most)
    running: list[InputRow] = []
    waiting: dict[int, InputRow] = {}
    ended: dict[int, Outcome[str]] = {}

    def end(row: InputRow, fails: bool) -> None:
        running.remove(row)
        result = outcome(row, fails=fails)
        ended[row.index] = result
        followers = equal.ended(row, result)
        assert [each.values for each in followers] == [row.values] * len(followers)
        same = [index for index, each in waiting.items() if each.values == row.values]
        assert [each.index for each in followers] == (same[:1] if fails else same)
        for other in followers:
            del waiting[other.index]
            if fails:
                running.append(other)
            else:
                ended[other.index] = outcome(other)

    for index, (text, ends, fails, which) in enumerate(steps):
        new = row(index, text)
        found = equal.add(new)
        if found is True:
            waiting[index] = new
        elif found is False:
            running.append(new)
        else:
            ended[index] = found
            assert (found.index, found.key, found.input) == (new.index, new.key, new.input)
            assert (found.output, found.attempts, found.usage) == (f"the answer to {text}", 0, NO_USAGE)
        texts = [each.values["text"] for each in running]
        assert len(set(texts)) == len(texts)
        if ends and running:
            end(running[which % len(running)], fails)
    while running:
        end(running[0], fails=False)
    assert sorted(ended) == list(range(len(steps)))
    assert not waiting


def test_a_row_without_a_stable_hash_is_new() -> None:
    equal: EqualInputs[str] = EqualInputs()
    first, second = row(0, object()), row(1, object())
    assert equal.add(first) is False
    assert equal.ended(first, outcome(first)) == []
    assert equal.add(second) is False


def test_rows_of_an_earlier_run() -> None:
    equal: EqualInputs[str] = EqualInputs()
    stored, sent = row(0, "a"), row(1, "b")
    equal.add_ended(stored, outcome(stored))
    equal.add_running(sent)
    found = equal.add(row(2, "a"))
    assert isinstance(found, Outcome)
    assert (found.index, found.attempts) == (2, 0)
    follower, second = row(3, "b"), row(4, "b")
    assert equal.add(follower) is True
    equal.add_running(second)  # sent as well, by a run that did not ask once
    assert equal.ended(second, outcome(second)) == []
    assert equal.ended(sent, outcome(sent)) == [follower]
    for known in (row(5, "b"), row(6, object())):
        equal.add_running(known)
        assert equal.ended(known, outcome(known)) == []


def test_the_outcomes_used_longest_ago_are_dropped_while_another_row_runs() -> None:
    """One item that takes long does not keep the outcomes of all that end in the meantime."""
    equal: EqualInputs[str] = EqualInputs(2)
    slow = row(0, "slow")
    assert equal.add(slow) is False
    for index, text in enumerate(["a", "b"], 1):
        each = row(index, text)
        assert equal.add(each) is False
        equal.ended(each, outcome(each))
    assert isinstance(equal.add(row(3, "a")), Outcome)
    last = row(4, "c")
    assert equal.add(last) is False
    equal.ended(last, outcome(last))
    assert isinstance(equal.add(row(5, "a")), Outcome)
    assert equal.add(row(6, "b")) is False
    assert equal.add(row(7, "slow")) is True
