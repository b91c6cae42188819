"""The batches of a run: when their results can be used."""

from __future__ import annotations

from typing import Any

from toolcast.batch.inputs import InputRow
from toolcast.batch.remote.batch_item import RemoteItem
from toolcast.batch.remote.journal import Plan
from toolcast.batch.remote.open_batches import OpenBatches, RemoteBatch


class Counted(list[RemoteItem]):
    """A list that counts how often it is read."""

    reads = 0

    def __getitem__(self, place: Any) -> Any:
        self.reads += 1
        return super().__getitem__(place)


def test_a_batch_of_an_earlier_run_is_due_once_its_inputs_have_been_read() -> None:
    """In any order of the inputs; the check for each row takes no longer for a larger batch."""
    keys = [str(number) for number in range(100)]
    items = Counted([RemoteItem(key) for key in keys])
    batch = RemoteBatch(Plan("t", "submitted", 0.0, tuple(keys)), "batch_1", items)
    open_batches = OpenBatches(None)
    open_batches.add(batch, 0.0, at_once=True)
    for read, item in enumerate(reversed(list(items))):
        assert open_batches.due(input_ended=False) == []
        assert open_batches.due(input_ended=True) == [batch]
        item.row = InputRow(read, item.key, {})
    for _ in keys:
        assert open_batches.due(input_ended=False) == [batch]
    assert items.reads <= 5 * len(keys)
