"""The list of sessions: what it shows, what it reads, and that it follows the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcast import Session
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.session_state import opened_record, read_details
from toolcast.agents.permissions.permissions import Permissions
from toolcast.apps.file_mentions import framed_text
from toolcast.apps.session_index import SessionEntry, SessionIndex, clean_title, first_words, index_file, is_empty
from toolcast.errors import SessionLocked
from toolcast.messages import DocumentPart, TextPart, ToolCallPart, assistant, user
from toolcast.stores import JSONLStore, MemoryStore, SQLiteStore, Store
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool


@pytest.fixture(params=["sqlite", "jsonl", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "sqlite":
        return SQLiteStore(tmp_path / "sessions.db")
    return JSONLStore(tmp_path / "sessions") if request.param == "jsonl" else MemoryStore()


def chat(store: Store, id: str, *texts: str, **details: Any) -> None:
    """Save a session with these questions."""
    with Session(Engine(ScriptedLLM(*[f"answer {text}" for text in texts])), id=id, store=store) as session:
        session.describe(**details)
        for text in texts:
            session.run(text)


def titles(index: SessionIndex, query: str = "") -> list[str]:
    return [entry.title for entry in index.entries(query)]


def test_a_session_has_its_first_words_its_numbers_and_its_details(store: Store) -> None:
    chat(store, "a", "How is bread\nbaked?", "And rolls?", directory="/home/ada", model="m", mode="plan", updated=9e9)
    with SessionIndex(store) as index:
        (entry,) = index.entries()
    assert entry.begun > 0
    assert entry.tokens > 0
    assert entry == SessionEntry(
        "a", "How is bread baked?", entry.begun, 9e9, 4, 2, entry.tokens, "m", "plan", "/home/ada", end="end_turn"
    )


def test_a_session_without_messages_is_not_listed_unless_one_failed(store: Store) -> None:
    for id, details in {
        "closed": {},
        "damaged": {"unanswered": {"role": "king"}},
        "failed": {"unanswered": user("Hi").to_dict()},
    }.items():
        store.append(id, [opened_record(id, 1.0, {"mode": "build", **details})])
    with SessionIndex(store) as index:
        assert [entry.title for entry in index.entries() if not is_empty(entry)] == ["Hi"]
        latest = index.latest("/")
        assert latest is not None
        assert latest.id == "failed"


def test_calls_that_wait_for_an_approval_are_counted(store: Store) -> None:
    calls = [ToolCallPart(id, "note", "{}") for id in ("a", "b")]
    tool = CallableTool.from_function(lambda: "noted", name="note", description="Note it.")
    engine = Engine(ScriptedLLM(calls), [tool], permissions=Permissions(approve="later"))
    with Session(engine, id="a", store=store) as session:
        turn = session.run("Note both.")
        assert turn.end == "approval"
        with SessionIndex(store) as index:
            assert [(entry.end, entry.waiting) for entry in index.entries()] == [("approval", 2)]
        session.describe(chat={"pending": [{"call_id": "b"}]})
        with SessionIndex(store) as index:
            assert [entry.waiting for entry in index.entries()] == [1]
        for other in ("odd", {"pending": 3}, {"pending": ["odd"]}):
            session.describe(chat=other)
            with SessionIndex(store) as index:
                assert [entry.waiting for entry in index.entries()] == [2]


def test_the_last_used_comes_first_and_details_of_wrong_types_are_left_out(store: Store) -> None:
    chat(store, "a", "one", updated=9e9)
    chat(store, "b", "two", updated="yesterday", title=None)
    chat(store, "c", "three", updated=8e9)
    with SessionIndex(store) as index:
        assert titles(index) == ["one", "three", "two"]


def test_a_search_looks_at_titles_and_texts_for_every_word(store: Store) -> None:
    chat(store, "a", "Bread", title="Baking")
    chat(store, "b", "Rolls and BREAD")
    with SessionIndex(store) as index:
        assert sorted(titles(index, "bread")) == ["Baking", "Rolls and BREAD"]
        assert titles(index, "answer baking") == ["Baking"]
        assert titles(index, "bread cake") == []
        assert titles(index, "100%_") == []


def test_renaming_and_deleting_are_seen_by_an_open_index(store: Store) -> None:
    chat(store, "a", "one")
    chat(store, "b", "two")
    with SessionIndex(store) as index, SessionIndex(store) as other:
        assert sorted(titles(index)) == ["one", "two"]
        other.rename("a", "  The\nfirst  ")
        assert sorted(titles(index)) == ["The first", "two"]
        other.delete("b")
        assert titles(index) == ["The first"]
        other.rename("a", "")
        assert titles(index) == ["one"]


def test_an_open_session_is_renamed_by_itself_and_not_deleted(store: Store) -> None:
    with Session(Engine(ScriptedLLM("x")), id="a", store=store) as session, SessionIndex(store) as index:
        session.run("one")
        session.describe(title="A name")
        assert titles(index) == ["A name"]
        with pytest.raises(SessionLocked):
            index.rename("a", "Another")
        with pytest.raises(SessionLocked):
            index.delete("a")


def test_details_are_read_by_an_earlier_version_as_nothing_new(store: Store) -> None:
    chat(store, "a", "one", title="A name", mode="plan")
    before = store.read("a")
    resumed = Session.resume("a", Engine(ScriptedLLM("y")), store)
    assert dict(resumed.details) == {"title": "A name", "mode": "plan"}
    resumed.describe(title="A name")  # unchanged: nothing is written
    assert store.read("a") == before
    resumed.describe(title="B")
    assert read_details(store.read("a")) == {"title": "B", "mode": "plan"}
    assert {record["kind"] for record in store.read("a")} <= {"opened", "message", "turn", "usage"}
    assert all(record["version"] == [1, 0] for record in store.read("a") if record["kind"] == "opened")
    resumed.close()


def test_a_session_without_a_store_has_no_details() -> None:
    session = Session(Engine(ScriptedLLM()))
    session.describe(title="A name")
    assert session.details == {}


def test_only_changed_sessions_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")
    for number in range(5):
        chat(store, f"s{number}", f"question {number}")
    with SessionIndex(store) as index:
        index.entries()
    reads: list[str] = []
    read = store.read
    monkeypatch.setattr(store, "read", lambda id: reads.append(id) or read(id))
    with SessionIndex(store) as index:  # the next process
        assert len(index.entries()) == 5
        assert reads == []
        chat(store, "new", "question")
        Session.resume("s2", Engine(ScriptedLLM("y")), store).run("more")
        reads.clear()
        assert len(index.entries()) == 6
        assert sorted(reads) == ["new", "s2"]


def test_a_session_that_was_deleted_and_made_again_is_another_one(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")
    chat(store, "a", "one")
    with SessionIndex(store) as index:
        assert titles(index) == ["one"]
        store.delete("a")
        chat(store, "a", "two")  # with the same numbers of records
        assert titles(index) == ["two"]


def test_a_damaged_session_is_listed_with_its_problem(store: Store) -> None:
    chat(store, "a", "one")
    store.append("bad", [{"kind": "nonsense"}])
    with SessionIndex(store) as index:
        bad = next(entry for entry in index.entries() if entry.id == "bad")
        assert "damaged" in bad.problem
        assert bad.title == ""
        assert index.latest("/nowhere") == next(entry for entry in index.entries() if entry.id == "a")


def test_a_log_that_is_no_json_is_listed_too(tmp_path: Path) -> None:
    store = JSONLStore(tmp_path)
    chat(store, "a", "one")
    next(tmp_path.glob("a.jsonl")).write_text("{]\n{}\n", encoding="utf-8")
    with SessionIndex(store) as index:
        assert "damaged" in index.entries()[0].problem


def test_the_latest_is_that_of_the_directory_or_else_any(store: Store) -> None:
    with SessionIndex(store) as index:
        assert index.latest("/x") is None
        chat(store, "a", "one", directory="/x", updated=8e9)
        chat(store, "b", "two", directory="/y", updated=9e9)
        found = [index.latest(directory) for directory in ("/x", "/y", "/z")]
    assert [entry and entry.id for entry in found] == ["a", "b", "b"]


def test_an_index_that_cannot_be_used_is_made_in_memory(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "sessions.db")
    chat(store, "a", "one")
    index_file(store.path).write_text("no database at all, but quite a long text" * 100, encoding="utf-8")
    with SessionIndex(store) as index:
        assert titles(index) == ["one"]


def test_titles_are_one_line_and_short() -> None:
    assert clean_title(" a\n b ") == "a b"
    assert clean_title("word " * 50).endswith("word…")
    assert len(clean_title("word " * 50)) <= 80
    assert clean_title("x" * 200) == f"{'x' * 79}…"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Show me **everything**", "Show me everything"),
        ("## Plan\n\n- `ls -l` and _then_", "Plan ls -l and _then_"),
        ("see [the docs](https://example.com) *now*", "see the docs now"),
        ("2 * 3 * 4 and snake_case and __init__.py", "2 * 3 * 4 and snake_case and __init__.py"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("**", "**"),
    ],
)
def test_a_title_has_no_marks_of_markdown(text: str, title: str) -> None:
    assert first_words([user(text)]) == title


def test_a_title_is_what_the_user_wrote_and_not_what_is_in_files() -> None:
    code, data = TextPart(framed_text("file", "hashes.py", "import hashlib")), DocumentPart(b"%PDF-", name="a.pdf")
    assert first_words([user("Look at these", code)]) == "Look at these"
    assert first_words([assistant("Hi."), user(code, data)]) == "hashes.py, a.pdf"
    assert first_words([user(code), user("And now?")]) == "And now?"
    assert first_words([user("Summary of the conversation so far:\nThey counted."), user("And now?")]) == "And now?"


def test_rows_of_another_version_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SQLiteStore(tmp_path / "sessions.db") as store:
        chat(store, "a", "Hello **there**")
        monkeypatch.setattr("toolcast.apps.session_index._MARKDOWN", ())
        monkeypatch.setattr("toolcast.apps.session_index._ROW_FORMAT", 1)
        with SessionIndex(store) as index:
            assert titles(index) == ["Hello **there**"]
        monkeypatch.undo()
        with SessionIndex(store) as index:
            assert titles(index) == ["Hello there"]
