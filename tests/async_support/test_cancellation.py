"""cancellation.py: a flag that is raised once, for itself and for all below it."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from toolcast.async_support.cancellation import Callback, Cancellation


def test_what_was_registered_is_done_once_and_in_order() -> None:
    cancellation, done = Cancellation(), list[int]()
    for number in range(3):
        cancellation.then(lambda number=number: done.append(number))
    assert not cancellation.cancelled
    cancellation.cancel()
    cancellation.cancel()
    assert cancellation.cancelled
    assert done == [0, 1, 2]


def test_what_comes_late_is_done_at_once() -> None:
    cancellation, done = Cancellation(), list[int]()
    cancellation.cancel()
    forget = cancellation.then(lambda: done.append(1))
    assert done == [1]
    forget()


def test_what_was_taken_back_is_not_done() -> None:
    cancellation, done = Cancellation(), list[int]()
    forget = cancellation.then(lambda: done.append(1))
    forget()
    forget()
    cancellation.cancel()
    assert done == []


def test_one_that_raises_does_not_keep_the_others_from_being_done() -> None:
    cancellation, done = Cancellation(), list[int]()
    cancellation.then(lambda: done.append(1))
    cancellation.then(lambda: done.append(1 // 0))
    cancellation.then(lambda: done.append(3))
    with pytest.raises(ZeroDivisionError):
        cancellation.cancel()
    assert done == [1, 3]


def test_a_child_is_cancelled_with_its_parent_and_not_the_other_way_round() -> None:
    parent = Cancellation()
    child, other = Cancellation(parent), Cancellation(parent)
    grandchild = Cancellation(child)
    other.cancel()
    assert (parent.cancelled, child.cancelled) == (False, False)
    parent.cancel()
    assert child.cancelled
    assert grandchild.cancelled
    assert Cancellation(parent).cancelled


def test_a_child_can_leave_its_parent() -> None:
    parent = Cancellation()
    child = Cancellation(parent)
    child.forget_parent()
    parent.cancel()
    assert not child.cancelled
    alone = Cancellation()
    alone.forget_parent()
    assert not alone.cancelled


def test_a_parent_does_not_hold_a_child_that_left() -> None:
    parent = Cancellation()
    child = Cancellation(parent)
    child.forget_parent()
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None


def test_it_may_be_cancelled_while_something_is_registered() -> None:
    """As by a signal, whose handler runs in the middle of the thread's own code."""
    done: list[int] = []

    class Interrupting(dict[object, Callback]):
        def __setitem__(self, key: object, value: Callback) -> None:
            cancellation.cancel()
            super().__setitem__(key, value)

    cancellation = Cancellation()
    cancellation._then = Interrupting()
    cancellation.then(lambda: done.append(1))
    assert done == [1]


@pytest.mark.parametrize("_", range(50))
def test_threads_that_cancel_and_register_at_once_do_everything_once(_: int) -> None:
    cancellation, done = Cancellation(), list[int]()
    start = threading.Barrier(4)

    def register() -> None:
        start.wait()
        for number in range(20):
            cancellation.then(lambda number=number: done.append(number))

    def cancel() -> None:
        start.wait()
        cancellation.cancel()

    threads = [threading.Thread(target=target) for target in (register, cancel, register, cancel)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == sorted([*range(20), *range(20)])


class Tree(RuleBasedStateMachine):
    """A tree of cancellations that grows, loses branches and is cancelled anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.all = [Cancellation()]
        self.parents: list[int | None] = [None]
        self.cancelled = [False]
        self.calls = [0]

    @rule(at=st.integers(0, 100))
    def grow(self, at: int) -> None:
        at %= len(self.all)
        child, number = Cancellation(self.all[at]), len(self.all)
        self.all.append(child)
        self.parents.append(at)
        self.cancelled.append(self.cancelled[at])
        self.calls.append(0)
        child.then(lambda: self.count(number))

    def count(self, number: int) -> None:
        self.calls[number] += 1

    @rule(at=st.integers(0, 100))
    def leave(self, at: int) -> None:
        at %= len(self.all)
        self.all[at].forget_parent()
        self.parents[at] = None

    @rule(at=st.integers(0, 100))
    def cancel(self, at: int) -> None:
        at %= len(self.all)
        self.all[at].cancel()
        self.cancelled[at] = True
        for child, parent in enumerate(self.parents):
            self.cancelled[child] |= parent is not None and self.cancelled[parent]

    @invariant()
    def all_below_are_cancelled_and_no_other(self) -> None:
        assert [one.cancelled for one in self.all] == self.cancelled
        assert self.calls[1:] == [int(cancelled) for cancelled in self.cancelled[1:]]


TestTree = Tree.TestCase
