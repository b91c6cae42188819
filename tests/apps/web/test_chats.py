"""The chats of the page: stored, listed, searched, renamed, deleted, opened in one program at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.ollama_server import OllamaServer
from support.served_chats import MODEL, chat_client
from toolcast import Engine, Session
from toolcast.agents.engine.session_state import fold
from toolcast.apps.web.saved_chat import SavedChat
from toolcast.chat.chat_context import ChatContext
from toolcast.chat.events import LoadModel
from toolcast.messages import ToolCallPart, assistant, user
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.testing import ScriptedLLM
from toolcast.tools.callable_tool import CallableTool

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's own


def note(text: str) -> str:
    """Note a text."""
    return f"noted {text}"


NOTE = CallableTool.from_function(note)


def texts(context: dict[str, Any]) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in context["messages"]]


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0.01)


async def test_several_chats_at_once_each_with_its_history(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM(lambda request: f"Re: {request.messages[-1].text}")) as client:
        one, other = await client.create(), await client.create()
        await asyncio.gather(client.send(one, "Bread?"), client.send(other, "Cheese?"))
        await client.send(one, "Butter?")
        assert texts((await client.snapshot(one))["context"]) == ["Bread?", "Re: Bread?", "Butter?", "Re: Butter?"]
        rows = {row["id"]: row for row in await client.rows()}
        assert {id: (row["title"], row["messages"], row["model"], row["state"]) for id, row in rows.items()} == {
            one: ("Bread?", 4, MODEL, "ready"),
            other: ("Cheese?", 2, MODEL, "ready"),
        }
        assert [row["id"] for row in await client.rows(search="re: butter")] == [one]
        assert [row["id"] for row in await client.rows()] == [one, other]


async def test_the_list_has_pages(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM(lambda request: "Yes.")) as client:
        ids = [await client.create() for _ in range(5)]
        for number, id in enumerate(ids):
            await client.send(id, f"Message {number}")
        found, before = list[str](), ""
        while before is not None:
            page = (await client.client.get("/chats", params={"limit": 2, "before": before})).json()
            found += [row["title"] for row in page["chats"]]
            before = page["more"]
        assert found == [f"Message {number}" for number in reversed(range(5))]
        assert page["limits"] == {"files": 10, "bytes": 20_000_000}
        assert page["single"] is False


async def test_an_empty_chat_is_not_stored(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("Yes.")) as client:
        id = await client.create()
        assert (await client.snapshot(id))["context"]["messages"] == []
        assert await client.rows() == []
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        assert (await client.client.get(f"/chats/{id}/events")).status_code == 404


async def test_a_chat_is_there_after_the_end_of_the_server(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("One.", "Two.")) as client:
        id = await client.create()
        await client.send(id, "Hello.")
        await client.dispatch(id, "SET_MODE", mode="plan")
        await client.dispatch(id, "REGENERATE", index=1)
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
        before = (await client.snapshot(id))["context"]
    async with chat_client(tmp_path, ScriptedLLM("Three.")) as client:
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
        after = (await client.snapshot(id))["context"]
        same = ("messages", "title", "mode", "usage", "branches", "marks", "model")
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        assert after["branches"] == [{"index": 1, "count": 2, "current": 1}]
        await client.dispatch(id, "SWITCH_BRANCH", index=1, branch=0)
        assert texts((await client.snapshot(id))["context"]) == ["Hello.", "One."]


async def test_calls_wait_for_their_approval_over_a_restart(tmp_path: Path) -> None:
    call = ToolCallPart("a", "note", '{"text": "milk"}')
    async with chat_client(tmp_path, ScriptedLLM(call), [NOTE]) as client:
        id = await client.create()
        await client.send(id, "Note milk.")
        assert [(row["state"], row["waiting"]) for row in await client.rows()] == [("waiting_for_tool_approval", 1)]
    async with chat_client(tmp_path, ScriptedLLM("Done."), [NOTE]) as client:
        assert [(row["state"], row["waiting"]) for row in await client.rows()] == [("", 1)]
        context = (await client.snapshot(id))["context"]
        (request,) = context["pending"]
        await client.dispatch(id, "APPROVE_TOOL_CALL", call_id="a", fingerprint=request["fingerprint"])
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
        assert texts((await client.snapshot(id))["context"])[-1] == "Done."


async def test_what_is_shown_has_been_saved(tmp_path: Path) -> None:
    """After each event, a copy of the store leads to what the page shows then, as after a kill."""
    store, model = MemoryStore(), ScriptedLLM(ToolCallPart("a", "note", '{"text": "milk"}'), "Done.", "Bye.")
    seen = list[tuple[list[str], int, int]]()
    async with chat_client(tmp_path, model, [NOTE], store=store) as client:
        id = await client.create()

        async with client.chats.reading(id) as chat:

            def compare(change: Any) -> None:
                copy = MemoryStore()
                if records := store.read(id):
                    copy.append(id, records)
                    copies.append((copy, change.context))

            copies = list[tuple[MemoryStore, Any]]()
            chat.machine.subscribe(compare)
            await chat.machine.run_until("ready")
            await client.dispatch(id, "QUEUE_MESSAGE", message="Note milk.")
            await client.dispatch(id, "QUEUE_MESSAGE", message="And bye.")
            await chat.machine.run_until("waiting_for_tool_approval")
            await client.dispatch(id, "APPROVE_TOOL_CALL")
            await chat.machine.run_until()
    assert len(copies) > 8
    for copy, context in copies:
        async with (
            chat_client(tmp_path / "copy", ScriptedLLM(), store=copy) as client,
            client.chats.reading(id) as chat,
        ):
            own = chat.machine.context
            both = [*own.messages, *own.queue, *own.held]
            assert both[: len(context.messages)] == list(context.messages)
            assert [message for message in both if message.role == "user"] == [
                message for message in (*context.messages, *context.queue) if message.role == "user"
            ]
    assert seen == []


async def test_a_turn_that_was_cut_off_is_marked_and_can_be_repeated(tmp_path: Path) -> None:
    store = MemoryStore()
    async with chat_client(tmp_path, ScriptedLLM("Never."), store=store) as client:
        id = await client.create()
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until("ready")
            chat.machine.dispatch({"type": "QUEUE_MESSAGE", "message": "Hello."})
            copy = MemoryStore()
            copy.append(id, store.read(id))
    async with chat_client(tmp_path / "copy", ScriptedLLM("Again."), store=copy) as client:
        context = (await client.snapshot(id))["context"]
        assert [(mark["index"], mark["kind"]) for mark in context["marks"]] == [(0, "interrupted")]
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until("ready")
            await client.dispatch(id, "RETRY_TOOL_SEARCH")
            await chat.machine.run_until()
        assert texts((await client.snapshot(id))["context"]) == ["Hello.", "Again."]


async def test_a_session_of_the_terminal_goes_on_here_and_the_reverse(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "sessions.db") as store:
        with Session(Engine(ScriptedLLM("One.")), id="term", store=store) as session:
            session.run("Hello.")
        async with chat_client(tmp_path, ScriptedLLM("Two.", "Three."), store=store) as client:
            (row,) = await client.rows()
            assert (row["id"], row["title"], row["messages"]) == ("term", "Hello.", 2)
            await client.send("term", "And?")
            await client.dispatch("term", "EDIT_MESSAGE", index=2, message="Or?")
            async with client.chats.reading("term") as chat:
                await chat.machine.run_until()
        with Session.resume("term", Engine(ScriptedLLM("Four.")), store) as session:
            assert [message.text for message in session.engine.history] == ["Hello.", "One.", "Or?", "Three."]
            session.run("More?")
        async with chat_client(tmp_path, ScriptedLLM("Five."), store=store) as client:
            context = (await client.snapshot("term"))["context"]
            assert texts(context) == ["Hello.", "One.", "Or?", "Three.", "More?", "Four."]
            assert context["branches"] == [{"index": 2, "count": 2, "current": 1}]
            await client.dispatch("term", "SWITCH_BRANCH", index=2, branch=0)
            assert texts((await client.snapshot("term"))["context"]) == ["Hello.", "One.", "And?", "Two."]


async def test_a_chat_with_a_queued_message_only_has_its_title_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    async with chat_client(tmp_path, ScriptedLLM(), store=store) as client:
        id = await client.create()
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
            chat.machine.dispatch(LoadModel("gibberish"))
            await chat.machine.run_until("load_failed")
            await client.dispatch(id, "QUEUE_MESSAGE", message="Look **here**")
    async with chat_client(tmp_path / "again", ScriptedLLM("Seen."), store=store) as client:
        assert [row["title"] for row in await client.rows()] == ["Look here"]
        assert (await client.snapshot(id))["context"]["title"] == "Look here"
        await client.client.patch(f"/chats/{id}", json={"title": "Other"})
        await client.client.patch(f"/chats/{id}", json={"title": ""})
        assert [row["title"] for row in await client.rows()] == ["Look here"]


async def test_a_queue_behind_a_turn_that_was_cut_off_waits_for_its_user_after_a_restart(tmp_path: Path) -> None:
    store = MemoryStore()
    saved = SavedChat("cut", store)
    asked = ChatContext(model=MODEL, messages=(user("Hello."),), queue=(user("Delete it then."),))
    saved.save("streaming_response", asked)
    saved.close()
    async with chat_client(tmp_path, ScriptedLLM("Deleted."), store=store) as client:
        context = (await client.snapshot("cut"))["context"]
        assert [message["parts"][0]["text"] for message in context["held"]] == ["Delete it then."]
        async with client.chats.reading("cut") as chat:
            await chat.machine.run_until("ready")
            assert chat.machine.context.queue == ()
            await client.dispatch("cut", "RELEASE_QUEUE")
            await chat.machine.run_until("ready")
            assert texts((await client.snapshot("cut"))["context"]) == ["Hello.", "Delete it then.", "Deleted."]


async def test_opening_a_chat_does_not_move_it_in_the_list(tmp_path: Path) -> None:
    store = MemoryStore()
    async with chat_client(tmp_path, ScriptedLLM("One.", "Two."), store=store) as client:
        older, newer = await client.create(), await client.create()
        await client.send(older, "Hello.")
        await client.send(newer, "Hello.")
        before = await client.rows()
    async with chat_client(tmp_path / "again", ScriptedLLM("Three."), store=store, idle=0.01) as client:
        async with client.chats.reading(older) as chat:
            await chat.machine.run_until()
            assert [(row["id"], row["updated"]) for row in await client.rows()] == [
                (row["id"], row["updated"]) for row in before
            ]
        await until(lambda: client.chats.open_ids == [])
        assert [row["id"] for row in await client.rows()] == [newer, older]
        await client.send(older, "And?")
        assert [row["id"] for row in await client.rows()] == [older, newer]


async def test_branches_that_another_program_has_cut_are_dropped(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "sessions.db") as store:
        async with chat_client(tmp_path, ScriptedLLM("One.", "Two.", "Three."), store=store) as client:
            id = await client.create()
            await client.send(id, "Hello.")
            await client.send(id, "And?")
            await client.dispatch(id, "REGENERATE", index=3)
            async with client.chats.reading(id) as chat:
                await chat.machine.run_until()
        with Session.resume(id, Engine(ScriptedLLM("Four.")), store) as session:
            session.engine.conversation.history[1:] = []
            session.run(user("Well?"))
        async with chat_client(tmp_path, ScriptedLLM(), store=store) as client:
            context = (await client.snapshot(id))["context"]
            assert (texts(context), context["branches"]) == (["Hello.", "Well?", "Four."], [])


async def test_calls_that_wait_in_the_terminal_wait_here(tmp_path: Path) -> None:
    from toolcast import Permissions

    call = ToolCallPart("a", "note", '{"text": "milk"}')
    with SQLiteStore(tmp_path / "sessions.db") as store:
        engine = Engine(ScriptedLLM(call), [NOTE], permissions=Permissions(approve="later"))
        with Session(engine, id="term", store=store) as session:
            session.run("Note milk.")
        async with chat_client(tmp_path, ScriptedLLM("Done."), [NOTE], store=store) as client:
            found = await client.snapshot("term")
            assert (found["state"], len(found["context"]["pending"])) == ("waiting_for_tool_approval", 1)


async def test_a_chat_that_is_open_elsewhere_can_be_read(tmp_path: Path) -> None:
    with (
        SQLiteStore(tmp_path / "sessions.db") as store,
        Session(Engine(ScriptedLLM("One.", "Two.")), id="term", store=store) as session,
    ):
        session.run("Hello.")
        session.describe(title="Greeting")
        async with chat_client(tmp_path, ScriptedLLM("Three."), store=store) as client:
            context = (await client.snapshot("term"))["context"]
            assert (texts(context), context["title"]) == (["Hello.", "One."], "Greeting")
            assert "is open" in context["locked"]
            refused = await client.dispatch("term", "QUEUE_MESSAGE", message="And?")
            assert (refused.status_code, "is open" in refused.json()["error"]) == (409, True)
            assert (await client.client.delete("/chats/term")).status_code == 409
            assert (await client.client.patch("/chats/term", json={"title": "x"})).status_code == 409
            session.run("More?")
            session.close()
            await client.send("term", "And?")
            assert (await client.snapshot("term"))["context"]["locked"] is None


async def test_a_chat_that_rests_is_released(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "sessions.db") as store:
        async with chat_client(tmp_path, ScriptedLLM("One."), store=store, idle=0.3) as client:
            id, empty = await client.create(), await client.create()
            async with client.chats.reading(id):
                await client.send(id, "Hello.")
                timers = client.chats._timers
                first = timers[id]
                await until(lambda: timers[id] is not first)  # it has elapsed, and began again
                assert [row["state"] for row in await client.rows()] == ["ready"]
            await until(lambda: not client.chats.open_ids)
            with Session.resume(id, Engine(ScriptedLLM()), store) as session:
                assert len(session.engine.history) == 2
            assert (await client.client.get(f"/chats/{empty}/messages")).status_code == 404
            (row,) = await client.rows()
            assert (row["id"], row["state"]) == (id, "")


async def test_a_chat_is_renamed_and_deleted_open_or_not(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("One.", "Two."), idle=0.3) as client:
        id = await client.create()
        await client.send(id, "Hello.")
        assert (await client.client.patch(f"/chats/{id}", json={"title": " My \n chat "})).json() == {}
        assert (await client.snapshot(id))["context"]["title"] == "My chat"
        await until(lambda: not client.chats.open_ids)
        assert [row["title"] for row in await client.rows()] == ["My chat"]
        await client.client.patch(f"/chats/{id}", json={"title": ""})
        assert [row["title"] for row in await client.rows()] == ["Hello."]
        files = {"file": ("a.txt", b"text", "text/plain")}
        await client.client.post(f"/chats/{id}/files", files=files)
        assert list((tmp_path / "files" / id).iterdir())
        assert (await client.client.delete(f"/chats/{id}")).json() == {}
        assert (await client.rows(), (tmp_path / "files" / id).exists()) == ([], False)
        assert (await client.client.delete(f"/chats/{id}")).status_code == 404
        assert (await client.client.patch(f"/chats/{id}", json={"title": "x"})).status_code == 404


async def test_other_tabs_see_a_new_title(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("One.")) as client:
        id = await client.create()
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until("ready")
            events = chat.feed.read()
            assert b"retry" in await anext(events)
            assert b"snapshot" in await anext(events)
            await client.client.patch(f"/chats/{id}", json={"title": "Named"})
            assert b'"changes":{"title":"Named"}' in await anext(events)
            await events.aclose()


async def test_messages_come_in_pages(tmp_path: Path) -> None:
    history = [message for at in range(250) for message in (user(f"Q{at}"), assistant(f"A{at}"))]
    with SQLiteStore(tmp_path / "sessions.db") as store:
        with Session(Engine(ScriptedLLM("Last."), history=history), id="long", store=store) as session:
            session.run("Last?")
        async with chat_client(tmp_path, ScriptedLLM(), store=store) as client:
            context = (await client.snapshot("long"))["context"]
            assert (context["first"], len(context["messages"]), texts(context)[-1]) == (302, 200, "Last.")
            found = (await client.client.get("/chats/long/messages", params={"before": 302, "limit": 100})).json()
            assert (found["from"], texts(found)[0], texts(found)[-1]) == (202, "Q101", "A150")
            found = (await client.client.get("/chats/long/messages?before=50")).json()
            assert (found["from"], len(found["messages"])) == (0, 50)


async def test_a_model_is_ready_only_after_a_check(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("One.")) as client:
        id = await client.create()
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until("ready")
            chat.machine.dispatch(LoadModel("gibberish:"))
            assert await chat.machine.run_until("ready", "load_failed") == "load_failed"
            assert chat.machine.context.last_error is not None
            assert "no model 'gibberish:'" in chat.machine.context.last_error.message
        for model, ok in ((MODEL, True), ("gibberish:", False)):
            assert (await client.client.post("/models/check", json={"model": model})).json()["ok"] == ok
        assert (await client.client.post("/models/check", json={"model": 5})).status_code == 400


async def test_modes_are_listed_and_selected(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("One."), mode="auto") as client:
        id = await client.create()
        modes = [mode["name"] for mode in (await client.client.get("/modes")).json()["modes"]]
        assert (modes, (await client.snapshot(id))["context"]["mode"]) == (["plan", "build", "verify", "auto"], "auto")
        assert (await client.dispatch(id, "SET_MODE", mode="plan")).status_code == 200
        assert (await client.snapshot(id))["context"]["mode"] == "plan"
        refused = await client.dispatch(id, "SET_MODE", mode="odd")
        assert (refused.status_code, "expected one of: plan" in refused.json()["error"]) == (400, True)


async def test_a_store_that_fails_is_reported_and_what_was_not_saved_is_saved_later(tmp_path: Path) -> None:
    class Full(MemoryStore):
        is_full = False

        def append(self, id: str, records: Any, /) -> None:
            if self.is_full:
                raise OSError("disk full")
            super().append(id, records)

    store = Full()
    async with chat_client(tmp_path, ScriptedLLM("One.", "Two."), store=store) as client:
        id = await client.create()
        store.is_full = True
        await client.send(id, "Hello.")
        assert (await client.snapshot(id))["context"]["not_saved"] == "disk full"
        store.is_full = False
        await client.send(id, "Again.")
        assert (await client.snapshot(id))["context"]["not_saved"] is None
    assert len([record for record in store.read(id) if record["kind"] == "message"]) == 4


@pytest.mark.parametrize("id", ["nothing", "%2e%2e", "a b", "CON", "x" * 200, "ö", "a.json/../b"])
async def test_what_is_no_id_is_not_found(tmp_path: Path, id: str) -> None:
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        for method, path in (
            ("GET", "events"),
            ("GET", "messages"),
            ("POST", "dispatch"),
            ("POST", "files"),
            ("GET", "files/x"),
            ("DELETE", "files/x"),
        ):
            response = await client.client.request(
                method, f"/chats/{id}/{path}", json={"type": "STOP"} if method == "POST" else None
            )
            assert response.status_code in (404, 405), (method, path)


async def test_a_damaged_chat_is_an_error_and_the_others_are_listed(tmp_path: Path) -> None:
    store = MemoryStore()
    store.append("bad", [{"kind": "message"}])
    details: dict[str, Any] = {
        "odd": {"chat": {"state": "x"}},
        "list": {"chat": {"state": ["x"]}, "branches": 5},
        "marks": {"chat": {"marks": [5]}},
    }
    for name, detail in details.items():
        store.append(name, [{"kind": "opened", "version": [1, 0], "id": name, "time": 0, "details": detail}])
    async with chat_client(tmp_path, ScriptedLLM("One."), store=store) as client:
        id = await client.create()
        await client.send(id, "Hello.")
        assert {row["id"] for row in await client.rows()} == {id, "bad", "odd", "list", "marks"}
        for damaged in ("bad", "odd", "list", "marks"):
            response = await client.client.get(f"/chats/{damaged}/events")
            assert (response.status_code, "error" in response.json()) == (500, True)
        assert (await client.client.delete("/chats/bad")).status_code == 200


async def test_a_call_that_waits_is_shown_as_what_it_would_do(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("milk\nbread\n")
    edit = ToolCallPart("a", "edit_file", '{"path": "notes.txt", "old": "bread", "new": "butter"}')
    other = ToolCallPart("b", "note", '{"text": "milk"}')
    async with chat_client(tmp_path, ScriptedLLM([edit, other]), [NOTE], mode="build") as client:
        id = await client.create()
        await client.send(id, "Butter, please.")
        first, second = (await client.snapshot(id))["context"]["pending"]
        assert (first["preview"]["kind"], first["preview"]["added"], first["preview"]["removed"]) == ("diff", 1, 1)
        assert first["preview"]["path"] == "notes.txt"
        assert first["editable"] == {"argument": "new", "text": "butter"}
        assert (second["preview"]["kind"], "note" in second["always"]) == ("call", True)
        assert first["fingerprint"] != second["fingerprint"]
        assert (first["reason"], second["reason"]) == ("", "")  # that no rule is about them is no news on each


async def test_many_chats_at_work_lose_nothing(tmp_path: Path) -> None:
    """Chats are created, used, left and closed side by side; a store is read afterwards."""
    count, rounds = 12, 3
    model = ScriptedLLM(lambda request: f"Re: {request.messages[-1].text}")
    async with chat_client(tmp_path, model, idle=0.5) as client:

        async def use(number: int) -> str:
            async with client.chats.reading((await client.chats.create()).id) as chat:
                id = chat.id
                await client.send(id, f"{number}: 0")
            for at in range(1, rounds):
                await asyncio.sleep(0.6 * (number % 2))  # some are closed meanwhile
                await client.send(id, f"{number}: {at}")
                assert (await client.client.get("/chats", params={"search": f"{number}: {at}"})).status_code == 200
            return id

        ids = await asyncio.gather(*map(use, range(count)))
    with SQLiteStore(tmp_path / "sessions.db") as store:
        for number, id in enumerate(ids):
            found = [message.text for message in fold(store.read(id)).history]
            expected = [text for at in range(rounds) for text in (f"{number}: {at}", f"Re: {number}: {at}")]
            assert found == expected


async def test_rows_of_the_list_that_change_are_sent_to_the_pages_of_other_chats(tmp_path: Path) -> None:
    call = ToolCallPart("a", "note", '{"text": "milk"}')
    async with chat_client(tmp_path, ScriptedLLM(call, "Done."), [NOTE]) as client:
        shown, other = await client.create(), await client.create()
        rows = list[dict[str, Any]]()

        async def follow() -> None:
            async with client.chats.reading(shown) as chat:
                async for events in chat.feed.read():
                    begun.set()
                    for event in events.decode().split("\n\n"):
                        if event.startswith("event: chat\n"):
                            rows.append(json.loads(event.partition("data: ")[2]))

        begun = asyncio.Event()
        task = asyncio.create_task(follow())
        await begun.wait()
        await client.send(other, "Note milk.")
        await until(lambda: bool(rows) and rows[-1]["waiting"] == 1)
        assert {row["id"] for row in rows} == {other}
        assert rows[-1] == (await client.rows())[0]
        await client.client.patch(f"/chats/{other}", json={"title": "Milk"})
        await until(lambda: rows[-1].get("title") == "Milk")
        await client.client.delete(f"/chats/{other}")
        await until(lambda: rows[-1] == {"id": other, "deleted": True})
        task.cancel()


async def test_the_window_and_the_kinds_of_input_are_those_that_the_server_lists(tmp_path: Path) -> None:
    with OllamaServer() as server:
        server.shown = {"model_info": {"qwen3.context_length": 32768}, "capabilities": ["completion", "tools"]}
        server.replies("Hello.")
        async with chat_client(tmp_path, server.llm()) as client:
            id = await client.create()
            assert (await client.snapshot(id))["context"]["context_window"] is None
            await client.send(id, "Hello.")
            async with client.chats.reading(id) as chat:
                await until(lambda: chat.view.metadata.context_window == 32768)
            assert (await client.snapshot(id))["context"]["context_window"] == 32768
            png = {"file": ("photo.png", b"\x89PNG\r\n\x1a\n", "image/png")}
            (file,) = (await client.client.post(f"/chats/{id}/files", files=png)).json()["files"]
            refused = await client.dispatch(id, "QUEUE_MESSAGE", message="See", files=[file["id"]])
            assert (refused.status_code, "does not accept images: remove photo.png" in refused.text) == (400, True)


async def test_each_answer_has_the_model_and_the_time_of_its_writing(tmp_path: Path) -> None:
    store = MemoryStore()
    async with chat_client(tmp_path, ScriptedLLM("One.", "Two.", "Three."), store=store) as client:
        id = await client.create()
        await client.send(id, "Hello.")
        await client.send(id, "And?")
        before = (await client.snapshot(id))["context"]["answered_by"]
        assert [(index, note["model"]) for index, note in before.items()] == [("1", MODEL), ("3", MODEL)]
        assert before["1"]["time"] <= before["3"]["time"]
        await client.dispatch(id, "REGENERATE", index=1)
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
        now = (await client.snapshot(id))["context"]["answered_by"]
        assert [*now] == ["1"]
        assert now["1"]["time"] >= before["3"]["time"]
        await client.dispatch(id, "SWITCH_BRANCH", index=1, branch=0)
        assert (await client.snapshot(id))["context"]["answered_by"] == before
        await client.dispatch(id, "SWITCH_BRANCH", index=1, branch=1)
        assert (await client.snapshot(id))["context"]["answered_by"] == now
    async with chat_client(tmp_path / "again", ScriptedLLM(), store=store) as client:
        assert (await client.snapshot(id))["context"]["answered_by"] == now
        await client.dispatch(id, "SWITCH_BRANCH", index=1, branch=0)
        assert (await client.snapshot(id))["context"]["answered_by"] == before
