"""What holds of every store: the same suite through one fixture, with second objects, threads and processes."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support import warm_python
from toolcast.errors import SessionLocked, ToolcastError
from toolcast.stores import jsonl_store
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import Store, check_id, file_name, from_json_text, id_of, session_locked, to_json_text

# A second process runs its last argument as code, which uses three names.
MAKE = {
    "SQLiteStore": "from toolcast.stores.sqlite_store import SQLiteStore as S; store = S(sys.argv[1] + '/sessions.db')",
    "JSONLStore": "from toolcast.stores.jsonl_store import JSONLStore as S; store = S(sys.argv[1] + '/sessions')",
}


def make(kind: str, folder: Path) -> Store:
    """A store of that kind in `folder`; made again, it is another object on the same files."""
    if kind == "SQLiteStore":
        return SQLiteStore(folder / "sessions.db")
    return JSONLStore(folder / "sessions") if kind == "JSONLStore" else MemoryStore()


@pytest.fixture(params=["MemoryStore", "SQLiteStore", "JSONLStore"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """One store of each kind."""
    made = make(request.param, tmp_path)
    yield made
    if isinstance(made, SQLiteStore):
        made.close()


@pytest.fixture(params=["SQLiteStore", "JSONLStore"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind that keeps files."""
    return str(request.param)


@pytest.fixture
def again(kind: str, tmp_path: Path) -> Iterator[Callable[[], Store]]:
    """Makes stores on the same files."""
    made: list[Store] = []

    def make_one() -> Store:
        made.append(make(kind, tmp_path))
        return made[-1]

    yield make_one
    for store in made:
        if isinstance(store, SQLiteStore):
            store.close()


@contextmanager
def running(kind: str, folder: Path, code: str) -> Generator[subprocess.Popen[str]]:
    """A second process that runs `code` with a `store` on the same files; killed at the end."""
    process = warm_python.Popen(
        [sys.executable, "-c", f"import os, sys\n{MAKE[kind]}\n{code}", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


# -- records ------------------------------------------------------------------------------------------------------


def test_what_was_appended_is_read_in_order(store: Store) -> None:
    store.append("a", [{"n": 1}, {"n": 2}])
    store.append("b", [{"n": 3}])
    store.append("a", [{"n": 4}])
    assert store.read("a") == [{"n": 1}, {"n": 2}, {"n": 4}]
    assert store.read("b") == [{"n": 3}]


def test_an_unknown_log_is_empty(store: Store) -> None:
    assert store.read("missing") == []
    store.delete("missing")
    assert store.ids() == []


def test_nothing_appended_begins_nothing(store: Store) -> None:
    store.append("a", [])
    assert store.ids() == []


def test_ids_in_the_order_of_their_beginning(store: Store) -> None:
    for id in ("b", "C", "a", "c"):
        store.append(id, [{}])
    store.append("b", [{}])
    assert store.ids() == ["b", "C", "a", "c"]


def test_upper_and_lower_case_are_two(store: Store) -> None:
    store.append("Ab", [{"n": 1}])
    store.append("aB", [{"n": 2}])
    assert (store.read("Ab"), store.read("aB"), store.read("ab")) == ([{"n": 1}], [{"n": 2}], [])


def test_a_deleted_log_is_gone_and_can_begin_again(store: Store) -> None:
    store.append("a", [{"n": 1}])
    store.append("b", [{"n": 2}])
    store.delete("a")
    assert (store.ids(), store.read("a")) == (["b"], [])
    store.append("a", [{"n": 3}])
    assert (store.ids(), store.read("a")) == (["b", "a"], [{"n": 3}])


@pytest.mark.parametrize("bad", [{"a": {1}}, {"a": b"1"}, {"a": object()}, {"a": float("nan")}, 7])
def test_what_is_no_json_is_refused_and_nothing_written(store: Store, bad: Any) -> None:
    store.append("a", [{"n": 1}])
    with pytest.raises((TypeError, ValueError)):
        store.append("a", [{"n": 2}, bad])
    assert store.read("a") == [{"n": 1}]


def test_what_is_read_is_the_readers_own(store: Store) -> None:
    record = {"list": [1]}
    store.append("a", [record])
    record["list"].append(2)
    store.read("a")[0]["list"].append(3)
    assert store.read("a") == [{"list": [1]}]


def test_half_a_surrogate_pair_is_written_as_a_service_would_read_it(store: Store) -> None:
    store.append("a", [{"text": "a\ud800b", "whole": "\U0001f600"}])
    assert store.read("a") == [{"text": "a\ufffdb", "whole": "\U0001f600"}]


@pytest.mark.fault(68, 139)
def test_lines_and_quotes_are_only_text(store: Store) -> None:
    awkward = {"text": "a\nb\r\n\u2028'); DROP TABLE records; --\x00"}
    store.append("a", [awkward])
    assert store.read("a") == [awkward]


json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5).filter(str.isprintable), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from("abc"), json_data))
def test_json_text_and_back(record: dict[str, Any]) -> None:
    text = to_json_text(record)
    assert "\n" not in text
    assert from_json_text(text, "here") == record


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "1" * 5000, b"\xff"])
def test_text_that_is_not_json_is_reported_with_its_place(text: str | bytes) -> None:
    with pytest.raises(ToolcastError, match="here is damaged"):
        from_json_text(text, "here")


# -- names --------------------------------------------------------------------------------------------------------

ILLEGAL = [
    "",
    "../x",
    "a/b",
    "a\\b",
    "a\0",
    ".a",
    "a.",
    "-a",
    "a b",
    "ä",
    "a\n",
    "x" * 101,
    "CON",
    "nul.txt",
    "a:b",
    "~",
]


@pytest.mark.fault(139)
@pytest.mark.parametrize("id", ILLEGAL)
def test_an_illegal_id_is_refused_everywhere(store: Store, id: str) -> None:
    for use in (store.read, store.claim, store.delete, lambda id: store.append(id, [{}])):
        with pytest.raises(ValueError, match="is no id of a session"):
            use(id)
    assert store.ids() == []


@pytest.mark.parametrize("id", ["a", "7", "x" * 100, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "a..b", "console", "a_-", "A" * 100])
def test_a_legal_id_is_taken_everywhere(store: Store, id: str) -> None:
    store.append(id, [{}])
    with store.claim(id):
        assert (store.ids(), store.read(id)) == ([id], [{}])


@given(st.from_regex(r"[A-Za-z0-9]{1,5}", fullmatch=True), st.from_regex(r"[A-Za-z0-9]{1,5}", fullmatch=True))
def test_names_of_files_are_one_for_each_id(one: str, other: str) -> None:
    if one.lower() not in {"con", "prn", "aux", "nul"} and other.lower() not in {"con", "prn", "aux", "nul"}:
        assert (file_name(one).lower() == file_name(other).lower()) == (one == other)
        assert id_of(file_name(one)) == one


@pytest.mark.parametrize("name", ["A", "=", "a=", "=1", "a b", ".x", ""])
def test_other_names_are_no_ids(name: str) -> None:
    assert id_of(name) is None


def test_checked_gives_the_id() -> None:
    assert check_id("a.b") == "a.b"


# -- claims -------------------------------------------------------------------------------------------------------


def test_a_claim_is_one_objects(store: Store) -> None:
    text = rf"'a' is open already, here in process {os.getpid()}: close it"
    with store.claim("a"), store.claim("b"), pytest.raises(SessionLocked, match=text):
        store.claim("a")
    claim = store.claim("a")
    claim.release()
    with store.claim("a"):
        claim.release()  # is no longer its own, so that releasing it frees nothing
        with pytest.raises(SessionLocked):
            store.claim("a")


def test_a_forgotten_claim_is_released(store: Store) -> None:
    claim = store.claim("a")
    del claim
    gc.collect()
    store.claim("a").release()


def test_a_claimed_log_is_not_deleted(store: Store) -> None:
    store.append("a", [{}])
    with store.claim("a"), pytest.raises(SessionLocked):
        store.delete("a")
    assert store.ids() == ["a"]


def test_of_many_threads_one_gets_it(store: Store) -> None:
    got: list[object] = []
    barrier = threading.Barrier(8)

    def claim() -> None:
        barrier.wait()
        try:
            got.append(store.claim("a"))
        except SessionLocked as error:
            got.append(str(error))

    each(8, claim)
    assert len([one for one in got if not isinstance(one, str)]) == 1


def test_a_claim_goes_round_among_threads_and_is_never_twos(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        done = 0
        while done < 50:
            try:
                claim = store.claim("a")
            except SessionLocked:
                continue
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            claim.release()
            done += 1

    each(3, work)
    assert set(most) == {1}


def test_many_threads_append(store: Store) -> None:
    def work() -> None:
        name = threading.current_thread().name
        for n in range(30):
            store.append(f"t-{name}", [{"n": n}, {"n": n}])
            store.append("all", [{"by": name}])

    each(4, work)
    assert len(store.read("all")) == 120
    for name in map(str, range(4)):
        assert [record["n"] for record in store.read(f"t-{name}")] == [n for n in range(30) for _ in "ab"]


def test_threads_that_begin_a_file_write_one_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thread stops after it has found the file empty; no other may look until it has written."""
    store, look = JSONLStore(tmp_path), jsonl_store._repair_end
    looks: list[int] = []
    both = threading.Event()

    def looking(fd: int, path: Path) -> int:
        size = look(fd, path)
        looks.append(size)
        if len(looks) == 2:
            both.set()
        both.wait(0.2)  # the first passes it only in vain: the second waits for the lock
        return size

    monkeypatch.setattr(jsonl_store, "_repair_end", looking)
    each(2, lambda: store.append("a", [{"n": 1}]))
    assert looks[0] == 0
    assert looks[1] > 0
    assert store.read("a") == [{"n": 1}] * 2


def each(count: int, work: Callable[[], None]) -> None:
    """Run `work` in so many threads, to its end."""
    threads = [threading.Thread(target=work, name=str(number)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_unknown_owner_is_another_process() -> None:
    assert "open in another process: close it there" in str(session_locked("a", None))


# -- files, objects and processes ---------------------------------------------------------------------------------


def test_what_was_appended_is_there_for_another_object(again: Callable[[], Store]) -> None:
    one, other = again(), again()
    one.append("a", [{"n": 1}])
    other.append("a", [{"n": 2}])
    assert one.read("a") == other.read("a") == again().read("a") == [{"n": 1}, {"n": 2}]


def test_two_objects_on_one_session_are_refused(again: Callable[[], Store]) -> None:
    one, other = again(), again()
    with one.claim("a"), pytest.raises(SessionLocked, match=f"process {os.getpid()}"):
        other.claim("a")
    other.claim("a").release()


CLAIM = "claim = store.claim('a'); print('claimed', flush=True); sys.stdin.readline()"


def test_two_processes_on_one_session_are_refused(kind: str, again: Callable[[], Store], tmp_path: Path) -> None:
    with running(kind, tmp_path, CLAIM) as owner:
        assert next_line(owner) == "claimed"
        with pytest.raises(SessionLocked, match=rf"'a' is open in process {owner.pid}: .*end that process"):
            again().claim("a")
        again().claim("b").release()
        owner.communicate("go on\n")
        again().claim("a").release()


def test_the_death_of_the_owner_frees_it(kind: str, again: Callable[[], Store], tmp_path: Path) -> None:
    with running(kind, tmp_path, CLAIM) as owner:
        assert next_line(owner) == "claimed"
        owner.kill()
        owner.wait()
        left = list(tmp_path.rglob("*.lock"))
        with again().claim("a"), pytest.raises(SessionLocked, match=f"process {os.getpid()}"):
            again().claim("a")
    assert left  # the dead could not remove it, and it did no harm
    assert sys.platform == "win32" or not list(tmp_path.rglob("*.lock"))


APPEND = """
store.claim("a")
print("begun", flush=True)
for n in range(1_000_000):
    store.append("a", [{"n": n, "text": "x" * 500}, {"n": n}])
"""


@pytest.mark.slow
def test_killed_while_it_appends_a_batch_is_there_or_not(kind: str, again: Callable[[], Store], tmp_path: Path) -> None:
    store = again()
    with running(kind, tmp_path, APPEND) as owner:
        assert next_line(owner) == "begun"
        while len(store.read("a")) < 100:
            assert owner.poll() is None
        owner.kill()
        owner.wait()
    found = [record["n"] for record in store.read("a")]
    assert found == [n for n in range(len(found) // 2) for _ in "ab"]
    store.append("a", [{"n": -1}])
    assert store.read("a")[-1] == {"n": -1}


BEGIN = """
for n in range(20):
    store.append(f"p-{os.getpid()}", [{"n": n}])
print("done", flush=True)
"""


def test_processes_that_begin_at_once(kind: str, again: Callable[[], Store], tmp_path: Path) -> None:
    # Each makes its store only on a signal, so that they meet at files that are not there yet.
    code = f"import os, sys; sys.stdin.readline()\n{MAKE[kind]}\n{BEGIN}"
    started = [
        warm_python.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(3)
    ]  # fmt: skip
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate()[0].strip() for process in started]
    assert outputs == ["done"] * 3
    store = again()
    assert sorted(store.ids()) == sorted(f"p-{process.pid}" for process in started)
    assert all(len(store.read(id)) == 20 for id in store.ids())


FORK = """
store.append("a", [{"by": "parent"}])
claim = store.claim("a")
child = os.fork()
if not child:
    store.append("b", [{"by": "child"}])
    claim.release()  # its parent's, so nothing happens
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
store.append("a", [{"by": "parent"}])
grandchild = os.fork()
if not grandchild:
    print("claimed", flush=True)
    sys.stdin.readline()
    os._exit(0)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not fork")
def test_a_fork_uses_the_store_and_owns_nothing(kind: str, again: Callable[[], Store], tmp_path: Path) -> None:
    store = again()
    with running(kind, tmp_path, FORK) as parent:
        assert next_line(parent) == "claimed"
        parent.wait()
        # The parent is dead, and its child, which has inherited the open file of the lock, lives.
        store.claim("a").release()
        assert store.read("a") == [{"by": "parent"}] * 2
        assert store.read("b") == [{"by": "child"}]
        assert parent.stdin is not None
        parent.stdin.write("end\n")
        parent.stdin.flush()


@pytest.mark.fault(144)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such rights")
def test_files_are_their_owners_alone(again: Callable[[], Store], tmp_path: Path) -> None:
    store = again()
    store.append("a", [{}])
    with store.claim("a"):
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        folders = [path for path in tmp_path.rglob("*") if path.is_dir()]
        assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
        assert len(files) >= 2 and len(folders) == 1
