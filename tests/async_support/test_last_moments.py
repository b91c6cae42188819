"""What is handed over to a trio that is about to end."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.async_support.shielding import current_loop, schedule_in_loop


@pytest.mark.parametrize("waits", [False, True])
def test_a_trio_that_takes_no_new_tasks_closes_at_once_what_it_can(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    done: list[str] = []

    async def close() -> None:
        if waits:
            await trio.lowlevel.checkpoint()
        done.append("closed")

    def refuse(*args: Any) -> None:
        raise RuntimeError("Nursery is closed to new arrivals")

    async def main() -> None:
        monkeypatch.setattr(trio.lowlevel, "spawn_system_task", refuse)
        schedule_in_loop(current_loop(), close)
        await trio.testing.wait_all_tasks_blocked()

    import trio.testing

    trio.run(main)
    assert done == ([] if waits else ["closed"])
