"""agent_memory.py: the words of behaviour X4, whose memory it is, limits, and changes that are made once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support import warm_python
from support.example_counts import examples
from toolcast.errors import ToolcastError
from toolcast.experiments.agent_memory import AgentMemory, RunMemory
from toolcast.experiments.experiment_config import MemoryLimits

posix = pytest.mark.skipif(sys.platform == "win32", reason="kills and forks")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memory.db"


@pytest.fixture
def memory(path: Path) -> Iterator[AgentMemory]:
    with AgentMemory(path, MemoryLimits(max_keys=3, max_key_chars=10, max_value_chars=20)) as memory:
        yield memory


@pytest.fixture
def run(memory: AgentMemory) -> RunMemory:
    return memory.of("run_1")


def in_process(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """What another process, in which `run` is the memory of run_1, prints."""
    program = (
        "import os, signal, sqlite3, sys\n"
        "from toolcast.experiments.agent_memory import AgentMemory\n"
        f"memory = AgentMemory(sys.argv[1])\nrun = memory.of('run_1')\n{code}"
    )
    return warm_python.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)


# The words.


def test_x4_the_words_of_the_tools(run: RunMemory) -> None:
    received = [
        run.list(),
        run.read("k"),
        run.delete("k"),
        run.pattern_search("p"),
        run.write("k", "v"),
        run.write("k", "w"),
        run.read("k"),
        run.write("kp", ""),
        run.list(),
        run.pattern_search("p"),
        run.pattern_search("k"),
        run.delete("k"),
        run.list(),
    ]
    assert received == [
        "No keys stored",
        "Error: Key 'k' not found",
        "Error: Key 'k' not found",
        "No keys found matching pattern 'p'",
        "Wrote value to key 'k'",
        "Updated key 'k' with new value",
        "w",
        "Wrote value to key 'kp'",
        "k, kp",
        "kp",
        "k, kp",
        "Deleted key 'k'",
        "kp",
    ]


def test_x4_an_update_keeps_its_place_and_what_is_new_comes_last(run: RunMemory) -> None:
    for key in ("c", "a", "b", "c"):
        run.write(key, key)
    run.delete("a")
    run.write("a", "again")
    assert run.list() == "c, b, a"
    assert run.keys() == ("c", "b", "a")


@pytest.mark.fault(139)
@pytest.mark.parametrize(
    ("pattern", "found"),
    [("Plan", "Plan_a%"), ("plan", "plan_b"), ("_", "Plan_a%, plan_b"), ("%", "Plan_a%"), (".*", None), ("", "all")],
)
def test_x4_a_search_is_for_a_piece_of_the_key_and_knows_no_wildcards(
    run: RunMemory, pattern: str, found: str | None
) -> None:
    run.write("Plan_a%", "")
    run.write("plan_b", "")
    expected = {"all": "Plan_a%, plan_b", None: f"No keys found matching pattern '{pattern}'"}
    assert run.pattern_search(pattern) == expected.get(found, found)


def test_x4_runs_see_nothing_of_each_other(memory: AgentMemory) -> None:
    one, other = memory.of("run_1"), memory.of("run_2")
    one.write("k", "mine", once="1/0/0")
    assert (other.list(), other.read("k"), other.delete("k")) == (
        "No keys stored",
        "Error: Key 'k' not found",
        "Error: Key 'k' not found",
    )
    assert other.write("k", "theirs", once="1/0/0") == "Wrote value to key 'k'"
    other.clear()
    assert (one.read("k"), other.keys()) == ("mine", ())
    assert one.write("k", "changed", once="1/0/0") == "Wrote value to key 'k'"
    assert one.read("k") == "mine"


def test_x4_the_memory_outlives_the_process(path: Path) -> None:
    assert in_process(path, "print(run.write('k', 'v'), run.write('l', 'ä'))").stderr == ""
    assert in_process(path, "print(run.list(), ascii(run.read('l')))").stdout == "k, l '\\xe4'\n"
    with AgentMemory(path) as memory:
        assert (memory.of("run_1").read("k"), memory.of("run_2").read("k")) == ("v", "Error: Key 'k' not found")


@pytest.mark.parametrize("value", ["", " ", "a\0b", "\r\n\t", "ümläut 😀", "'; DROP TABLE x; --", "e\u0301", "\ufeff"])
def test_a_value_is_kept_as_it_is(run: RunMemory, value: str) -> None:
    run.write("k", value)
    assert run.read("k") == value


def test_half_a_surrogate_pair_is_replaced_and_two_halves_are_joined(run: RunMemory) -> None:
    assert run.write("k\ud800", "\udfff \ud83d\ude00") == "Wrote value to key 'k\ufffd'"
    assert run.read("k\ud800") == "\ufffd 😀"
    assert run.pattern_search("\udfff") == "k\ufffd"
    assert run.delete("k\udfff") == "Deleted key 'k\ufffd'"


def test_the_table_is_the_published_one(run: RunMemory, path: Path) -> None:
    run.write("k", "v")
    with sqlite3.connect(path) as other:
        other.execute("UPDATE agent_memory SET created_at = 'then', updated_at = 'then'")
    other.close()
    run.write("k", "w")
    run.write("l", "new")
    with sqlite3.connect(path) as other:
        rows = other.execute("SELECT run_id, key, value, created_at, updated_at FROM agent_memory").fetchall()
        primary = [row[1] for row in other.execute("PRAGMA table_info(agent_memory)") if row[5]]
        mode = other.execute("PRAGMA journal_mode").fetchone()
    other.close()
    assert [row[:3] for row in rows] == [("run_1", "k", "w"), ("run_1", "l", "new")]
    assert (rows[0][3], rows[0][4][-1], rows[1][3]) == ("then", "Z", rows[1][4])
    assert (primary, mode) == (["run_id", "key"], ("wal",))


# Limits.


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("", "v", "Error: The key is empty. Name the value, as in 'plan'"),
        (" \u3000", "v", "Error: The key is empty. Name the value, as in 'plan'"),
        (
            "a" * 11,
            "v",
            "Error: Key 'aaaaaaaaaa…' is too long: it has 11 characters, 10 are allowed. Use a shorter key",
        ),
        (
            "a\nb",
            "v",
            "Error: Key 'a\\nb' has a line break or another control character in it. "
            "Use letters, digits, spaces and punctuation",
        ),
        (
            "k",
            "v" * 21,
            "Error: The value for key 'k' is too long: it has 21 characters, 20 are allowed. "
            "Shorten it, or write it in parts under several keys",
        ),
    ],
)
def test_what_may_not_be_written_reports_what_to_do(run: RunMemory, key: str, value: str, reported: str) -> None:
    assert run.write(key, value) == reported
    assert run.write(key, value, once="1/0/0") == reported
    assert run.keys() == ()


@pytest.mark.parametrize("sign", ["\0", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\u2066"])
def test_signs_that_no_key_may_have(run: RunMemory, sign: str) -> None:
    assert run.write(f"a{sign}", "v").startswith(f"Error: Key {f'a{sign}'!a} has a line break")
    assert run.read(f"a{sign}") == f"Error: Key 'a{sign}' not found"


@pytest.mark.parametrize("key", ["a b", "ключ", "📌 plan", "a, b", "it's", '"', "../x", "a\u200db"])
def test_other_keys_are_fine(run: RunMemory, key: str) -> None:
    assert run.write(key, "v") == f"Wrote value to key '{key}'"
    assert run.list() == key


def test_a_full_memory_takes_no_more_keys_and_takes_updates(run: RunMemory, memory: AgentMemory) -> None:
    for key in "abc":
        run.write(key, "v")
    reported = (
        "Error: The memory is full: it holds 3 keys, and no more are allowed. "
        "Delete a key that is no longer needed, or write to one that is there"
    )
    assert [run.write("d", "v"), run.write("d", "v", once="1/0/0"), run.list()] == [reported, reported, "a, b, c"]
    assert memory.of("run_2").write("d", "v") == "Wrote value to key 'd'"
    assert run.write("a", "w") == "Updated key 'a' with new value"
    run.delete("b")
    assert run.write("d", "v", once="1/0/0") == "Wrote value to key 'd'"


def test_a_text_that_is_longer_than_any_key_is_not_repeated(run: RunMemory) -> None:
    assert run.read("x" * 1000) == f"Error: Key '{'x' * 10}…' not found"
    assert run.delete("x" * 1000) == f"Error: Key '{'x' * 10}…' not found"
    assert run.pattern_search("x" * 1000) == f"No keys found matching pattern '{'x' * 10}…'"


def test_the_usual_limits(path: Path) -> None:
    with AgentMemory(path) as memory:
        assert memory.limits == memory.of("run_1").limits == MemoryLimits()


# Once.


def test_a_change_of_the_same_name_is_made_once(run: RunMemory) -> None:
    assert [run.write("k", "v", once="1/0/0") for _ in range(2)] == ["Wrote value to key 'k'"] * 2
    assert run.write("k", "w", once="1/0/1") == "Updated key 'k' with new value"
    run.write("k", "v", once="1/0/0")
    assert run.read("k") == "w"
    assert [run.delete("k", once="1/1/0") for _ in range(2)] == ["Deleted key 'k'"] * 2
    run.write("k", "again")
    run.delete("k", once="1/1/0")
    assert run.read("k") == "again"


def test_what_had_no_effect_may_have_one_later(run: RunMemory) -> None:
    assert run.delete("k", once="1/0/0") == "Error: Key 'k' not found"
    run.write("k", "v")
    assert run.delete("k", once="1/0/0") == "Deleted key 'k'"


def test_names_of_earlier_cycles_are_forgotten(run: RunMemory, memory: AgentMemory, path: Path) -> None:
    for name in ("1/0/0", "2/0/0", "10/0/0", "other"):
        run.write("k", "v", once=name)
    memory.of("run_2").write("k", "v", once="1/0/0")
    run.forget_calls(2)
    with sqlite3.connect(path) as other:
        kept = other.execute("SELECT run_id, call FROM agent_calls ORDER BY run_id, call").fetchall()
    other.close()
    assert kept == [("run_1", "10/0/0"), ("run_1", "2/0/0"), ("run_2", "1/0/0")]
    assert run.write("k", "new", once="1/0/0") == "Updated key 'k' with new value"


def test_a_memory_that_was_cleared_knows_no_names(run: RunMemory) -> None:
    run.write("k", "v", once="1/0/0")
    run.clear()
    assert run.read("k") == "Error: Key 'k' not found"
    assert run.write("k", "w", once="1/0/0") == "Wrote value to key 'k'"
    assert run.read("k") == "w"


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    ("change", "answer", "left"),
    [
        ("run.write('new', 'v', once='1/0/0')", "Wrote value to key 'new'", {"old": "o", "new": "v"}),
        ("run.write('old', 'v', once='1/0/0')", "Updated key 'old' with new value", {"old": "v"}),
        ("run.delete('old', once='1/0/0')", "Deleted key 'old'", {}),
    ],
)
@pytest.mark.parametrize("statement", [*range(7), None])
def test_killed_in_a_change_or_behind_it_the_change_is_made_once(
    path: Path, change: str, answer: str, left: dict[str, str], statement: int | None
) -> None:
    with AgentMemory(path) as memory:
        memory.of("run_1").write("old", "o")
    # Killed as the n-th statement of the change begins; with None, and where it has fewer, right behind it.
    killing = (
        "def kill():\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"begun = []\nat = {statement}\n"
        "def seen(text):\n    begun.append(text)\n    len(begun) - 1 == at and kill()\n"
        f"memory._file._connection.set_trace_callback(seen)\n{change}\nkill()"
    )
    ended = in_process(path, killing)
    assert (ended.returncode, ended.stderr) == (-9, "")
    again = in_process(path, f"print({change})\nprint({change})")
    assert again.stdout.splitlines() == [answer, answer]
    with AgentMemory(path) as memory:
        run = memory.of("run_1")
        stored = run.keys()
        assert {key: run.read(key) for key in stored} == left


# The file.


def test_threads_share_it(memory: AgentMemory, run: RunMemory) -> None:
    received: list[str] = []

    def work(number: int) -> None:
        for _ in range(20):
            received.append(memory.of(f"run_{number}").write("k", str(number)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [memory.of(f"run_{number}").read("k") for number in range(4)] == ["0", "1", "2", "3"]
    assert sorted(set(received)) == ["Updated key 'k' with new value", "Wrote value to key 'k'"]


def test_processes_share_it(memory: AgentMemory, run: RunMemory, path: Path) -> None:
    program = (
        "import sys\nfrom toolcast.experiments.agent_memory import AgentMemory\n"
        "run = AgentMemory(sys.argv[1]).of('r')\n"
        "for number in range(50):\n    run.write(sys.argv[2], str(number))"
    )
    others = [warm_python.Popen([sys.executable, "-c", program, str(path), name]) for name in "ab"]
    assert [other.wait(30) for other in others] == [0, 0]
    assert sorted(memory.of("r").keys()) == ["a", "b"]
    assert memory.of("r").read("a") == "49"


@posix
def test_a_fork_has_a_connection_of_its_own(memory: AgentMemory, run: RunMemory, path: Path) -> None:
    run.write("k", "parent")
    code = (
        "run.write('k', 'parent')\nchild = os.fork()\n"
        "if not child:\n    run.write('c', run.read('k')); memory.close(); os._exit(0)\n"
        "os.waitpid(child, 0)\nprint(run.read('c'), run.write('k', 'again'))"
    )
    assert in_process(path, code).stdout == "parent Updated key 'k' with new value\n"
    assert run.list() == "k, c"


def test_closed_it_reports_it(path: Path) -> None:
    with AgentMemory(path) as memory:
        run = memory.of("run_1")
    with pytest.raises(ToolcastError, match=r"memory\.db is closed: make another AgentMemory"):
        run.read("k")


def test_it_needs_a_file() -> None:
    with pytest.raises(ValueError, match="AgentMemory needs a file"):
        AgentMemory(":memory:")


def test_a_file_of_something_else_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"_default": {"1": {"run_id": "a", "key": "k", "value": "v"}}}' * 20)
    before = path.read_bytes()
    with pytest.raises(ToolcastError, match=r"memory\.db failed: file is not a database"):
        AgentMemory(path)
    assert path.read_bytes() == before


def test_a_disk_that_fails_is_reported_and_nothing_has_changed(run: RunMemory, path: Path) -> None:
    run.write("k", "v")
    with sqlite3.connect(path) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON agent_calls BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )
    other.close()
    with pytest.raises(ToolcastError, match=r"memory\.db failed: the disk is full") as raised:
        run.write("k", "w", once="1/0/0")
    assert isinstance(raised.value.__cause__, sqlite3.Error)
    assert run.read("k") == "v"


# Against a model.

KEYS = st.sampled_from(["a", "b", "ab", "B", "a%", "_", "ключ", "k\ud800"])
VALUES = st.text(max_size=12)
NAMES = st.one_of(st.none(), st.builds("{}/0/{}".format, st.integers(0, 3), st.integers(0, 3)))
RUNS = st.sampled_from(["run_1", "run_2"])
MOST = 4


def safe(text: str) -> str:
    return text.replace("\ud800", "\ufffd")


class MemoryMachine(RuleBasedStateMachine):
    """The memory of two runs beside two dicts, opened and closed between the steps."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.limits = MemoryLimits(max_keys=MOST, max_value_chars=10)
        self.held: dict[str, dict[str, str]] = {"run_1": {}, "run_2": {}}
        self.answers: dict[tuple[str, str], str] = {}

    @initialize()
    def begin(self) -> None:
        self.memory = AgentMemory(Path(self.folder.name, "memory.db"), self.limits)

    @rule(run=RUNS, key=KEYS, value=VALUES, once=NAMES)
    def write(self, run: str, key: str, value: str, once: str | None) -> None:
        received, held, key = self.memory.of(run).write(key, value, once=once), self.held[run], safe(key)
        if once is not None and (run, once) in self.answers:
            assert received == self.answers[run, once]
        elif len(value) > 10 or (key not in held and len(held) == MOST):
            assert received.startswith("Error: The ")
        else:
            assert received == (f"Updated key '{key}' with new value" if key in held else f"Wrote value to key '{key}'")
            held[key] = value
            self.remember(run, once, received)

    @rule(run=RUNS, key=KEYS, once=NAMES)
    def delete(self, run: str, key: str, once: str | None) -> None:
        received, held, key = self.memory.of(run).delete(key, once=once), self.held[run], safe(key)
        if once is not None and (run, once) in self.answers:
            assert received == self.answers[run, once]
        elif key in held:
            del held[key]
            assert received == f"Deleted key '{key}'"
            self.remember(run, once, received)
        else:
            assert received == f"Error: Key '{key}' not found"

    @rule(run=RUNS, key=KEYS)
    def read(self, run: str, key: str) -> None:
        key = safe(key)
        assert self.memory.of(run).read(key) == self.held[run].get(key, f"Error: Key '{key}' not found")

    @rule(run=RUNS, pattern=st.one_of(KEYS, st.text(max_size=2)))
    def search(self, run: str, pattern: str) -> None:
        pattern = safe(pattern)
        found = [key for key in self.held[run] if pattern in key]
        wanted = ", ".join(found) or f"No keys found matching pattern '{pattern}'"
        assert self.memory.of(run).pattern_search(pattern) == wanted

    @rule(run=RUNS, cycle=st.integers(0, 4))
    def forget(self, run: str, cycle: int) -> None:
        self.memory.of(run).forget_calls(cycle)
        self.answers = {
            (owner, name): received
            for (owner, name), received in self.answers.items()
            if owner != run or int(name.partition("/")[0]) >= cycle
        }

    @precondition(lambda self: any(self.held.values()))
    @rule()
    def reopen(self) -> None:
        self.memory.close()
        self.begin()

    @invariant()
    def lists_agree(self) -> None:
        for run, held in self.held.items():
            assert self.memory.of(run).list() == (", ".join(held) or "No keys stored")

    def remember(self, run: str, once: str | None, received: str) -> None:
        if once is not None:
            self.answers[run, once] = received

    def teardown(self) -> None:
        self.memory.close()
        self.folder.cleanup()


TestMemoryMachine = MemoryMachine.TestCase
TestMemoryMachine.settings = settings(max_examples=examples(40), stateful_step_count=30)
