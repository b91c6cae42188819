"""Sessions: they belong to one user and thread, go on without their clients, and decide about calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette

import toolcast
from support.serving import (
    ADD,
    Adder,
    Connection,
    Gate,
    WholeProtocol,
    ag_ui,
    asking_session,
    client_of,
    on_loopback,
    resume,
    sent_events,
    types,
    user_of,
)
from toolcast import Budget, Engine, Session
from toolcast.async_support.broadcast import Broadcast
from toolcast.serve.event_stream import parse_event_id
from toolcast.serve.served_sessions import ServedSession, SessionReader
from toolcast.serve.user_limits import RequestRefused
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM

Factory = Callable[[Any, str], Any]


def served(factory: Factory, **options: Any) -> Starlette:
    return toolcast.serve.app(factory, **{"authorize": user_of, "protocols": ["ag-ui"], **options})


def talking(*answers: Any, **more: Any) -> Factory:
    """Return a factory of sessions without tools, each with these answers."""
    return lambda user, thread: Session(Engine(ScriptedLLM(*answers)), id=thread, **more)


async def run(client: httpx.AsyncClient, *texts: str, **more: Any) -> list[Any]:
    response = await client.post("/ag-ui", json=ag_ui(*texts, **more))
    assert response.status_code == 200, response.text
    return sent_events(response.text)


async def pending(client: httpx.AsyncClient) -> dict[str, Any]:
    (request,) = (await client.get("/threads/t1")).json()["pending"]
    return dict(request)


# History.


async def test_the_sessions_log_is_the_history() -> None:
    llm = ScriptedLLM("one", "two")
    async with client_of(served(lambda user, thread: Session(Engine(llm), id=thread))) as client:
        await run(client, "first")
        await run(client, "first", "forged answer", "second", run="r2")
    assert [message.text for message in llm.requests[1].messages] == ["first", "one", "second"]


async def test_a_request_without_a_new_message_is_refused() -> None:
    async with client_of(served(talking("one"))) as client:
        await run(client, "first")
        again = await client.post("/ag-ui", json=ag_ui("first", "one"))
        assert (again.status_code, again.json()["error"]["code"]) == (400, "invalid_request")
        nameless = await client.post("/ag-ui", json=ag_ui("hi", thread=""))
        assert nameless.status_code == 400 and "thread" in nameless.json()["error"]["message"]


async def test_an_async_factory_and_dependencies() -> None:
    def name(context: toolcast.ToolContext[str]) -> str:
        """Return the name."""
        return context.deps

    async def factory(user: str, thread: str) -> Session[str]:
        return Session(Engine[str](ScriptedLLM(toolcast.ToolCallPart("c", "name", "{}"), "ok"), [name]), id=thread)

    async with client_of(served(factory, deps=lambda user: user.upper())) as client:
        found = await run(client, "hi")
    assert [each.data["content"] for each in found if each.data["type"] == "TOOL_CALL_RESULT"] == ["ANN"]


# Users.


async def test_each_user_has_threads_of_their_own() -> None:
    opened: list[tuple[str, str]] = []

    def factory(user: str, thread: str) -> Session[Any]:
        opened.append((user, thread))
        return Session(Engine(ScriptedLLM("hello")), id=f"{user}-{thread}")

    app = served(factory)
    async with client_of(app) as ann, client_of(app, "bob") as bob:
        await run(ann, "hi")
        for method, path in (("GET", "/threads/t1"), ("GET", "/threads/t1/events"), ("POST", "/threads/t1/stop")):
            response = await bob.request(method, path)
            assert (response.status_code, response.json()["error"]["code"]) == (404, "no_such_thread")
        assert (await bob.get("/ag-ui/t1/stream")).status_code == 204
        await run(bob, "hi")
        assert (await ann.get("/threads/t1")).json()["state"] == "idle"
    assert ("bob", "t1") in opened


async def test_a_session_that_the_factory_gives_to_two_users_is_the_firsts() -> None:
    session = Session(Engine(ScriptedLLM("one", "two")))
    app = served(lambda user, thread: session)
    async with client_of(app) as ann, client_of(app, "bob") as bob:
        await run(ann, "hi")
        assert (await bob.post("/ag-ui", json=ag_ui("hi"))).status_code == 404


def saving(store: MemoryStore, *answers: Any) -> Factory:
    """Return a factory that opens sessions by the thread alone."""

    def factory(user: str, thread: str) -> Session[Any]:
        engine = Engine(ScriptedLLM(*answers))
        return (
            Session.resume(thread, engine, store) if thread in store.ids() else Session(engine, id=thread, store=store)
        )

    return factory


async def test_a_saved_session_belongs_to_its_user_after_a_restart() -> None:
    store = MemoryStore()
    first = served(saving(store, "one"))
    async with client_of(first) as ann, client_of(first, "bob") as bob:
        await run(ann, "hi")
        assert (await bob.post("/ag-ui", json=ag_ui("hi"))).status_code == 409  # it is open
    async with first.router.lifespan_context(first):
        pass  # its end closes the sessions
    again = served(saving(store, "two"))
    async with client_of(again) as ann, client_of(again, "bob") as bob:
        assert (await bob.post("/ag-ui", json=ag_ui("hi"))).status_code == 404
        assert (await bob.get("/threads/t1")).status_code == 404
        assert (await ann.get("/threads/t1")).json()["state"] == "idle"
        await run(ann, "hi", "one", "more")
        unknown = await ann.get("/threads/t2")
        assert (unknown.status_code, store.ids()) == (404, ["t1"])
        assert (await ann.get("/threads/..")).status_code == 404
        assert (await ann.get("/threads/a%20b")).status_code == 404


async def test_users_that_are_neither_text_nor_numbers() -> None:
    app = served(talking("one"), authorize=lambda request: ("tenant", "ann"))
    async with client_of(app) as client:
        await run(client, "hi")
        assert (await client.get("/threads/t1")).json()["state"] == "idle"


@pytest.mark.parametrize(
    ("error", "status"), [(LookupError("secret"), 404), (PermissionError("secret"), 500), (None, 500)]
)
async def test_a_factory_that_opens_no_session(
    error: Exception | None, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    sessions: list[Any] = [error, Session(Engine(ScriptedLLM("one")))]

    def factory(user: str, thread: str) -> Any:
        found = sessions.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    async with client_of(served(factory)) as client:
        response = await client.post("/ag-ui", json=ag_ui("hi"))
        assert response.status_code == status and "secret" not in response.text
        await run(client, "hi")


async def test_a_request_that_waited_for_a_session_that_could_not_be_opened_opens_it() -> None:
    began, go_on = anyio.Event(), anyio.Event()
    calls: list[str] = []

    async def factory(user: str, thread: str) -> Session[Any]:
        calls.append(thread)
        if len(calls) == 1:
            began.set()
            await go_on.wait()
            raise LookupError
        return Session(Engine(ScriptedLLM("one")), id=thread)

    app = served(factory)
    first, second = (Connection(app, "POST", "/ag-ui", ag_ui("hi")) for _ in range(2))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first.run)
        await began.wait()
        tasks.start_soon(second.run)
        await anyio.wait_all_tasks_blocked()
        go_on.set()
    assert (first.status, second.status, len(calls)) == (404, 200, 2)


async def test_a_session_that_is_not_open() -> None:
    empty = ServedSession(("ann", "t1"))
    empty.stop()
    await empty.aclose()
    assert (empty.status()["state"], empty.is_idle, empty.reader()) == ("closed", True, None)


async def test_a_whole_response_of_a_session() -> None:
    async with client_of(served(talking("one"), protocols=[WholeProtocol()])) as client:
        assert (await client.post("/whole", json=ag_ui("hi"))).json() == {"text": "one"}


async def test_a_session_that_was_closed_is_opened_again() -> None:
    opened: list[Session[Any]] = []

    def factory(user: str, thread: str) -> Session[Any]:
        opened.append(Session(Engine(ScriptedLLM("one")), id=thread))
        return opened[-1]

    app = served(factory)
    async with client_of(app) as client:
        await run(client, "hi")
        await opened[0].aclose()
        assert (await client.get("/threads/t1/events")).status_code == 404
        await run(client, "hi")
    assert len(opened) == 2


async def test_the_session_that_was_used_longest_ago_is_closed_first() -> None:
    opened: dict[str, Session[Any]] = {}

    def factory(user: str, thread: str) -> Session[Any]:
        opened[thread] = Session(Engine(ScriptedLLM(lambda request: "ok")), id=thread)
        return opened[thread]

    async with client_of(served(factory, max_sessions=2)) as client:
        for thread in ("t1", "t2", "t1", "t3"):
            await run(client, "hi", thread=thread)
    assert {thread: session.state for thread, session in opened.items()} == {"t1": "idle", "t2": "closed", "t3": "idle"}


# Approvals.


async def test_a_call_is_approved() -> None:
    tool = Adder()
    async with client_of(served(lambda user, thread: asking_session(tool))) as client:
        found = await run(client, "add")
        (interrupt,) = found[-1].data["outcome"]["interrupts"]
        request = await pending(client)
        assert interrupt["id"] == f"{request['call_id']}:{request['fingerprint']}" and tool.ran == []
        assert (request["tool"], request["arguments"]) == ("add", '{"a":1,"b":2}')
        answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
        found = await run(client, "add", run="r2", resume=[answer])
        assert tool.ran == [(1, 2)] and found[-1].data["outcome"] == {"type": "success"}
        again = await client.post("/ag-ui", json=ag_ui("add", resume=[answer]))
        assert (again.status_code, again.json()["error"]["code"], tool.ran) == (409, "approval_refused", [(1, 2)])


async def test_a_call_is_denied_or_changed() -> None:
    tool = Adder()
    app = served(lambda user, thread: asking_session(tool, ADD, "well", ADD, "done"))
    async with client_of(app) as client:
        await run(client, "add")
        found = await run(client, resume=[resume(await pending(client), {"approved": False, "reason": "no"})])
        assert tool.ran == [] and found[-1].data["outcome"] == {"type": "success"}
        await run(client, "add", "well", "again")
        changed = resume(await pending(client), {"approved": True, "arguments": {"a": 5, "b": 5}})
        await run(client, resume=[changed])
        assert tool.ran == [(5, 5)]


@pytest.mark.parametrize(
    "change",
    [
        {"fingerprint": "0" * 64},
        {"call_id": "c2"},
        {"fingerprint": toolcast.PermissionRequest("c1", "add", '{"a":9,"b":9}').fingerprint},
        {"fingerprint": "ö\ud800"},
    ],
)
async def test_a_forged_decision_is_refused(change: dict[str, str]) -> None:
    tool = Adder()
    async with client_of(served(lambda user, thread: asking_session(tool))) as client:
        await run(client, "add")
        request = await pending(client)
        for answers in ([{**request, **change}], [request, request], [request, {**request, "call_id": "c2"}]):
            body = ag_ui("add", "new text", resume=[resume(each, True) for each in answers])
            content = json.dumps(body).encode()  # httpx would refuse the lone surrogate
            refused = await client.post("/ag-ui", content=content, headers={"content-type": "application/json"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "approval_refused")
        assert tool.ran == [] and await pending(client) == request


async def test_another_user_cannot_decide() -> None:
    tool = Adder()
    app = served(lambda user, thread: asking_session(tool, id=user))
    async with client_of(app) as ann, client_of(app, "bob") as bob:
        await run(ann, "add")
        answer = resume(await pending(ann), True)
        assert (await bob.post("/ag-ui", json=ag_ui("add", resume=[answer]))).status_code == 409
    assert tool.ran == []


# Disconnecting, resuming, stopping.


async def test_a_run_goes_on_without_its_client_which_resumes_it() -> None:
    gate = Gate("Hello")
    app = served(talking(gate.answer))
    first = Connection(app, "POST", "/ag-ui", ag_ui("hi"))
    async with anyio.create_task_group() as tasks, client_of(app) as client:
        tasks.start_soon(first.run)
        await gate.waits.wait()
        await first.until(lambda text: "Hello" in text)
        first.disconnect()
        await first.ended.wait()
        busy = await client.post("/ag-ui", json=ag_ui("more"))
        assert (busy.status_code, busy.json()["error"]["code"]) == (409, "busy")
        assert (await client.get("/threads/t1")).json()["state"] == "active"
        had = sent_events(first.received)
        second = Connection(app, "GET", "/threads/t1/events", last_event_id=had[-1].id)
        query = Connection(app, "GET", f"/threads/t1/events?last_event_id={had[0].id}")
        rejoined = Connection(app, "GET", "/ag-ui/t1/stream")
        for each in (second, query, rejoined):
            tasks.start_soon(each.run)
            await each.begun.wait()
        gate.open.set()
        for each in (second, query, rejoined):
            await each.ended.wait()
        whole = sent_events((await client.get("/threads/t1/events")).text)
        assert (await client.get("/ag-ui/t1/stream")).status_code == 204
    assert gate.ended
    assert [*had, *sent_events(second.received)] == whole == sent_events(rejoined.received)
    assert sent_events(query.received) == whole[1:]
    assert types(whole)[-1] == "RUN_FINISHED"


async def test_a_last_event_id_of_another_run_is_an_error() -> None:
    async with client_of(served(talking("one", "two"))) as client:
        old = await run(client, "hi")
        await run(client, "hi", "one", "more", run="r2")
        for last, status in ((old[-1].id, 410), ("1", 400)):
            response = await client.get("/threads/t1/events", headers={"last-event-id": last})
            assert response.status_code == status
        assert sent_events((await client.get("/threads/t1/events")).text)[0].data["runId"] == "r2"


async def test_a_thread_without_a_run_has_no_events() -> None:
    store = MemoryStore()
    session = Session(Engine(ScriptedLLM("one")), id="t1", store=store)
    await session.arun("hi")
    await session.aclose()
    async with client_of(served(saving(store))) as client:
        assert (await client.get("/threads/t1")).json()["run"] is None
        assert (await client.get("/threads/t1/events")).status_code == 404


async def test_a_run_is_stopped() -> None:
    gate = Gate("Hello")
    app = served(talking(gate.answer, "two"))
    first = Connection(app, "POST", "/ag-ui", ag_ui("hi"))
    async with anyio.create_task_group() as tasks, client_of(app) as client:
        tasks.start_soon(first.run)
        await gate.waits.wait()
        stopped = await client.post("/threads/t1/stop")
        assert stopped.json()["state"] in ("cancelling", "idle")
        await first.ended.wait()
        assert gate.closed.is_set() and not gate.ended
        assert sent_events(first.received)[-1].data["outcome"] == {"type": "cancelled"}
        await run(client, "hi", "Hello", "more")


async def test_an_error_is_the_same_for_each_reader(caplog: pytest.LogCaptureFixture) -> None:
    async with client_of(served(talking(ZeroDivisionError("secret")))) as client:
        found = await run(client, "hi")
        assert found[-1].data["code"] == "internal_error"
        assert sent_events((await client.get("/threads/t1/events")).text) == found
    assert caplog.text.count("of a served run") == 1


async def test_runs_and_budgets_count_after_the_client_has_gone() -> None:
    gate = Gate("Hello")
    app = served(talking(gate.answer, "two"), budget=Budget(tokens=5))
    first = Connection(app, "POST", "/ag-ui", ag_ui("hi"))
    async with anyio.create_task_group() as tasks, client_of(app) as client:
        tasks.start_soon(first.run)
        await gate.waits.wait()
        first.disconnect()
        await first.ended.wait()
        gate.open.set()
        await client.get("/threads/t1/events")
        response = await client.post("/ag-ui", json=ag_ui("hi", "Hello!", "more"))
        assert response.status_code in (200, 402)


async def test_a_budget_counts_the_runs_of_sessions() -> None:
    async with client_of(served(talking("one", "two"), budget=Budget(tokens=5))) as client:
        await run(client, "hi")
        assert (await client.post("/ag-ui", json=ag_ui("hi", "one", "more"))).status_code == 402


async def test_a_reader_that_lost_events_ends_with_an_error() -> None:
    session = Session(Engine(ScriptedLLM("one")))
    app = served(lambda user, thread: session)
    events = Broadcast[Any](limit=1)
    events.put(toolcast.events.TextDelta("a"))
    events.put(toolcast.events.TextDelta("b"))
    async with client_of(app) as client:
        await run(client, "hi")
        reader = next(iter(_sessions(app)._served.values())).reader()
        assert reader is not None
        messages = [
            message async for group in SessionReader(reader.run, events.aiterate()).messages() for message in group
        ]
    assert "events_lost" in messages[-1]


def _sessions(app: Starlette) -> Any:
    """Return the sessions of an app."""
    found = next(route for route in app.routes if getattr(route, "path", "") == "/threads/{id}")
    return found.endpoint.__closure__[0].cell_contents.args[0]


def test_ids_of_events() -> None:
    assert parse_event_id("0123456789abcdef-12") == ("0123456789abcdef", 12)
    assert parse_event_id("0123456789abcdef-") is None
    assert RequestRefused(404, "a", "b").error.status == 404


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's own
async def test_a_client_that_is_killed_resumes_over_real_http() -> None:
    gate = Gate("Hello")
    app = served(talking(gate.answer))
    async with on_loopback(app) as client:
        had: list[str] = []
        async with client.stream("POST", "/ag-ui", json=ag_ui("hi")) as response:
            async for line in response.aiter_lines():
                had.append(line)
                if "Hello" in line:
                    break
        async with httpx.AsyncClient(base_url=client.base_url, headers={"x-user": "ann"}, timeout=30) as other:
            last = [line for line in had if line.startswith("id: ")][-1].removeprefix("id: ")
            gate.open.set()
            rest = sent_events((await other.get("/threads/t1/events", headers={"last-event-id": last})).text)
    assert gate.ended and types(rest) == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
