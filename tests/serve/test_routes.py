"""`toolcast.serve.app`: who is served, limits, errors without internals, and runs of engines."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Mount

import toolcast
from support.loopback import HOLD, Loopback, chunk, head
from support.serving import (
    ADD,
    Adder,
    Connection,
    Gate,
    WholeProtocol,
    ag_ui,
    client_of,
    on_loopback,
    sent_events,
    types,
    user_of,
)
from toolcast import Budget, Engine, OpenAICompatible, Permissions, Session, ToolContext
from toolcast.errors import AuthFailed, FailTurn, RateLimited, RoundsExceeded
from toolcast.events import TextDelta
from toolcast.serve import RequestLimits, RunInput, allow_all
from toolcast.serve.ag_ui import AGUIProtocol
from toolcast.serve.user_limits import UserLimits
from toolcast.testing import ScriptedLLM

HELLO = ag_ui("hi")


def served(*answers: Any, tools: Any = (), llm: Any = None, **options: Any) -> Starlette:
    engine = Engine(llm or ScriptedLLM(*answers), tools)
    return toolcast.serve.app(engine, **{"authorize": user_of, "protocols": ["ag-ui"], **options})


async def test_a_run_of_an_engine_is_streamed() -> None:
    llm = ScriptedLLM("Hello!")
    async with client_of(served(llm=llm)) as client:
        response = await client.post("/ag-ui", json=ag_ui("hi", "yes?", "again"))
    found = sent_events(response.text)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert types(found)[::5] == ["RUN_STARTED", "RUN_FINISHED"]
    assert len({event.id for event in found}) == len(found)
    assert [message.text for message in llm.requests[0].messages] == ["hi", "yes?", "again"]
    assert "access-control-allow-origin" not in response.headers


async def test_the_engine_itself_has_no_history_of_clients_but_its_own_is_sent() -> None:
    llm = ScriptedLLM("a", "b")
    engine = Engine(llm, history=[toolcast.user("first"), toolcast.assistant("ok")])
    async with client_of(toolcast.serve.app(engine, authorize=user_of, protocols=["ag-ui"])) as client:
        for text in ("one", "two"):
            await client.post("/ag-ui", json=ag_ui(text))
    assert [[each.text for each in request.messages] for request in llm.requests] == [
        ["first", "ok", "one"],
        ["first", "ok", "two"],
    ]
    assert len(engine.history) == 2


async def test_system_and_tool_messages_tools_and_state_of_the_client_are_not_used() -> None:
    llm = ScriptedLLM("ok", system_prompt="Be kind.")
    messages = [
        {"id": "1", "role": "system", "content": "forged"},
        {"id": "2", "role": "assistant", "toolCalls": []},
        {"id": "3", "role": "tool", "toolCallId": "c1", "content": "forged"},
        {"id": "4", "role": "user", "content": "hi"},
    ]
    tools = [{"name": "forged", "description": "", "parameters": {}}]
    async with client_of(served(llm=llm)) as client:
        body = ag_ui(
            messages=messages, tools=tools, state={"x": "forged"}, context=[{"description": "", "value": "forged"}]
        )
        assert (await client.post("/ag-ui", json=body)).status_code == 200
    (request,) = llm.requests
    assert [message.text for message in request.messages] == ["Be kind.", "hi"]
    assert request.tools == ()


async def test_an_app_is_mounted_in_another() -> None:
    outer = Starlette(routes=[Mount("/agent", served("Hello!"))])
    async with client_of(outer) as client:
        assert (await client.post("/agent/ag-ui", json=HELLO)).status_code == 200


# Users and hosts.


@pytest.mark.parametrize(
    ("user", "status"),
    [(None, 401), ("", 401), (PermissionError(), 403), (HTTPException(402, "pay"), 402), (True, 500)],
)
@pytest.mark.parametrize("concurrent", [True, False])
async def test_an_unknown_user_gets_an_error(
    user: Any, status: int, concurrent: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def sync(request: Request) -> Any:
        if isinstance(user, Exception):
            raise user
        return user

    async def coroutine(request: Request) -> Any:
        return sync(request)

    llm = ScriptedLLM("no")
    async with client_of(served(llm=llm, authorize=coroutine if concurrent else sync)) as client:
        response = await client.post("/ag-ui", json=HELLO)
    assert (response.status_code, llm.requests) == (status, [])
    assert response.json()["error"]["code"]
    assert ("authorize= returned True" in caplog.text) == (status == 500)


@pytest.mark.parametrize(
    ("hosts", "host", "status"),
    [
        ([], "127.0.0.1:8000", 200),
        ([], "[::1]:8000", 200),
        ([], "localhost", 200),
        ([], "evil.example", 421),
        ([], "", 421),
        (["api.example.com"], "API.example.com:443", 200),
        (["api.example.com"], "evil.example", 421),
        (["*"], "evil.example", 200),
    ],
)
async def test_the_host_header_names_the_server(hosts: list[str], host: str, status: int) -> None:
    async with client_of(served("ok", hosts=hosts)) as client:
        assert (await client.post("/ag-ui", json=HELLO, headers={"host": host})).status_code == status


async def test_two_host_headers_are_refused() -> None:
    async with client_of(served("ok")) as client:
        client.headers = httpx.Headers([("host", "localhost"), ("host", "localhost"), ("x-user", "ann")])
        assert (await client.post("/ag-ui", json=HELLO)).status_code == 421


@pytest.mark.parametrize(
    ("client", "headers", "status"),
    [
        (("127.0.0.1", 1), {}, 200),
        (("::1", 1), {"host": "[::1]"}, 200),
        (("127.0.0.1", 1), {"origin": "http://localhost:3000"}, 200),
        (("192.0.2.1", 1), {}, 403),
        (None, {}, 403),
        (("127.0.0.1", 1), {"host": "api.example.com"}, 403),
        (("127.0.0.1", 1), {"origin": "https://evil.example"}, 403),
        (("127.0.0.1", 1), {"origin": "null"}, 403),
        (("127.0.0.1", 1), {"x-forwarded-for": "127.0.0.1"}, 403),
    ],
)
async def test_allow_all_serves_this_machine_alone(client: Any, headers: dict[str, str], status: int) -> None:
    app = served("ok", authorize=allow_all, hosts=["api.example.com"])
    connection = Connection(app, "POST", "/ag-ui", HELLO, **headers)
    connection.scope["client"] = client
    await connection.run()
    assert connection.status == status


# Limits.


@pytest.mark.parametrize(
    ("limits", "status", "code"),
    [
        ({"messages": 2}, 413, "too_many_messages"),
        ({"message_chars": 3}, 413, "message_too_long"),
        ({"concurrent_runs": 0}, 429, "too_many_runs"),
        ({}, 200, ""),
    ],
)
async def test_a_request_over_a_limit_is_refused(limits: dict[str, int], status: int, code: str) -> None:
    llm = ScriptedLLM("ok")
    async with client_of(served(llm=llm, limits=RequestLimits(**limits))) as client:
        response = await client.post("/ag-ui", json=ag_ui("hi", "hello", "again"))
    assert (response.status_code, len(llm.requests)) == (status, int(status == 200))
    assert status == 200 or response.json()["error"]["code"] == code


async def test_a_body_over_the_limit_is_refused() -> None:
    connection = Connection(served("no", limits=RequestLimits(body_bytes=10)), "POST", "/ag-ui", HELLO)
    await connection.run()
    assert connection.status == 413 and "larger than 10 bytes" in connection.received


async def test_values_of_a_prompt_count_as_text() -> None:
    with pytest.raises(Exception, match="longer than 2 characters"):
        RequestLimits(message_chars=2).check(RunInput(values={"a": "12", "b": 3}))


def test_a_run_is_released_once() -> None:
    async def main() -> None:
        users = UserLimits(1, None)
        slot = users.enter("ann")
        slot.release()
        slot.release()
        users.enter("ann").release()

    anyio.run(main)


async def test_concurrent_runs_are_limited_for_each_user_and_end_with_the_client() -> None:
    gates = [Gate(), Gate()]
    app = served(gates[0].answer, gates[1].answer, "later", limits=RequestLimits(concurrent_runs=1))
    async with anyio.create_task_group() as tasks, client_of(app) as ann, client_of(app, "bob") as bob:
        first = Connection(app, "POST", "/ag-ui", HELLO)
        tasks.start_soon(first.run)
        await gates[0].waits.wait()
        assert (await ann.post("/ag-ui", json=HELLO)).status_code == 429
        tasks.start_soon(lambda: bob.post("/ag-ui", json=HELLO))
        await gates[1].waits.wait()
        first.disconnect()
        await gates[0].closed.wait()
        gates[1].open.set()
        await first.ended.wait()
        assert (await ann.post("/ag-ui", json=HELLO)).status_code == 200


@pytest.mark.parametrize("as_function", [True, False])
async def test_a_budget_is_each_users_own(as_function: bool) -> None:
    budget = Budget(tokens=10)
    app = served(
        lambda request: "ok", budget=(lambda user: None if user == "eve" else budget) if as_function else budget
    )
    async with client_of(app) as ann, client_of(app, "bob") as bob, client_of(app, "eve") as eve:
        assert (await ann.post("/ag-ui", json=HELLO)).status_code == 200
        spent = await ann.post("/ag-ui", json=HELLO)
        assert (spent.status_code, spent.json()["error"]["code"]) == (402, "budget_exceeded")
        assert (await bob.post("/ag-ui", json=HELLO)).status_code == 200
        for _ in range(2):
            assert (await eve.post("/ag-ui", json=HELLO)).status_code == (
                200 if as_function else 402
            ) or not as_function
            if not as_function:
                break


async def test_a_budget_that_is_used_up_in_a_run_ends_it() -> None:
    app = served(lambda request: [ADD], tools=[Adder().add], budget=Budget(tokens=20))
    async with client_of(app) as client:
        found = sent_events((await client.post("/ag-ui", json=HELLO)).text)
    assert found[-1].data["code"] == "budget_exceeded"


# Errors.


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthFailed("key sk-secret is wrong"), "model_error"),
        (RateLimited("secret"), "model_busy"),
        (RoundsExceeded("secret"), "limit_reached"),
        (ZeroDivisionError("secret"), "internal_error"),
    ],
)
async def test_an_error_of_a_run_has_no_internals(
    error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with client_of(served(error)) as client:
        response = await client.post("/ag-ui", json=HELLO)
    last = sent_events(response.text)[-1].data
    assert (last["type"], last["code"]) == ("RUN_ERROR", code)
    assert "secret" not in response.text
    if code != "limit_reached":
        id = last["message"].rpartition("(error ")[2].rstrip(")")
        assert f"error {id}" in caplog.text


async def test_the_text_of_a_tools_error_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    def connect() -> str:
        """Connect."""
        raise ValueError("db://user:secret@db failed")

    def end() -> str:
        """End."""
        raise FailTurn("secret")

    calls = toolcast.ToolCallPart("c1", "connect", "{}"), toolcast.ToolCallPart("c2", "end", "{}")
    async with client_of(served(*calls, tools=[connect, end])) as client:
        response = await client.post("/ag-ui", json=HELLO)
    found = sent_events(response.text)
    results = [event.data["content"] for event in found if event.data["type"] == "TOOL_CALL_RESULT"]
    assert results == ["The tool call failed, or was not allowed."] * 2
    assert found[-1].data["code"] == "tool_failed"
    assert "secret" not in response.text and "secret" in caplog.text


async def test_data_of_the_service_is_not_sent() -> None:
    events = (toolcast.events.RawEvent({"secret": 1}), toolcast.events.Restarted(2, "secret"), TextDelta("ok"))
    answer = [*events, toolcast.events.Finish("end_turn")]
    async with client_of(served(answer)) as client:
        response = await client.post("/ag-ui", json=HELLO)
    assert "secret" not in response.text and types(sent_events(response.text))[-1] == "RUN_FINISHED"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"content": b"{}", "headers": {"content-type": "text/plain"}}, 415),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 400),
        ({"json": {"messages": 1}}, 400),
        ({"json": ag_ui("hi", thread="../../etc")}, 400),
        ({"json": ag_ui("hi", "the assistant is last")}, 400),
        ({"json": ag_ui()}, 400),
        ({"json": ag_ui("hi", resume=[{"interruptId": "a:b", "status": "resolved"}])}, 409),
    ],
)
async def test_another_request_is_an_error(body: dict[str, Any], status: int) -> None:
    llm = ScriptedLLM("no")
    async with client_of(served(llm=llm)) as client:
        response = await client.post("/ag-ui", **body)
    assert (response.status_code, llm.requests) == (status, [])
    assert set(response.json()["error"]) == {"code", "message"}


async def test_a_run_of_an_engine_cannot_wait_for_an_approval() -> None:
    tool = Adder()
    engine = Engine(ScriptedLLM(ADD), [tool.add], permissions=Permissions("default", approve="later"))
    async with client_of(toolcast.serve.app(engine, authorize=user_of, protocols=["ag-ui"])) as client:
        found = sent_events((await client.post("/ag-ui", json=HELLO)).text)
        assert (await client.get("/threads/t1")).status_code == 404
    assert found[-1].data["code"] == "approval_not_supported" and "session_factory" in found[-1].data["message"]
    assert tool.ran == []


async def test_dependencies_are_the_users() -> None:
    def name(context: ToolContext[str]) -> str:
        """Return the name."""
        return context.deps

    app = served(toolcast.ToolCallPart("c", "name", "{}"), "ok", tools=[name], deps=lambda user: f"deps of {user}")
    async with client_of(app, "bob") as client:
        found = sent_events((await client.post("/ag-ui", json=HELLO)).text)
    assert [each.data["content"] for each in found if each.data["type"] == "TOOL_CALL_RESULT"] == ["deps of bob"]


# Clients that disconnect.


@pytest.mark.parametrize("broken", [True, False])
async def test_a_client_that_disconnects_cancels_the_run_of_an_engine(broken: bool) -> None:
    gate = Gate("Hello")
    app = served(gate.answer)
    connection = Connection(app, "POST", "/ag-ui", HELLO)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await gate.waits.wait()
        await connection.until(lambda text: "Hello" in text)
        if broken:  # the server raises in `send`, and does not report the disconnection
            connection.broken = True
            gate.open.set()
        else:
            connection.disconnect()
        await gate.closed.wait()
        await connection.ended.wait()
    assert broken or not gate.ended


async def test_comments_keep_the_connection_alive() -> None:
    gate = Gate("Hello")
    connection = Connection(served(gate.answer, keep_alive=0.001), "POST", "/ag-ui", HELLO)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await connection.until(lambda text: text.count(": keep-alive\n\n") > 1)
        connection.broken = True  # the comments that follow are not sent
        connection.disconnect()
        await connection.ended.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn's own
async def test_a_client_that_disconnects_ends_the_request_to_the_model() -> None:
    piece = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}\n\n'
    with Loopback() as service:
        service.answer(head(200, "content-type: text/event-stream", "transfer-encoding: chunked"), chunk(piece), HOLD)
        llm = OpenAICompatible("m", base_url=service.url, api_key="k")
        async with on_loopback(served(llm=llm)) as client:
            async with client.stream("POST", "/ag-ui", json=HELLO) as response:
                async for line in response.aiter_lines():
                    if "Hello" in line:
                        break
                assert service.open == 1
            await anyio.to_thread.run_sync(service.wait_open, 0)
        await llm.aclose()


# Responses that are not streamed.


async def test_a_whole_response_and_its_errors() -> None:
    app = served("Hello!", RateLimited("secret"), protocols=["ag-ui", WholeProtocol()])
    async with client_of(app) as client:
        assert (await client.post("/whole", json=HELLO)).json() == {"text": "Hello!"}
        failed = await client.post("/whole", json=HELLO)
    assert (failed.status_code, failed.json()["error"]["code"]) == (503, "model_busy")


async def test_a_client_that_disconnects_cancels_a_whole_response() -> None:
    gate = Gate()
    connection = Connection(served(gate.answer, protocols=[WholeProtocol()]), "POST", "/whole", HELLO)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.run)
        await gate.waits.wait()
        connection.disconnect()
        await connection.ended.wait()
    assert gate.closed.is_set() and not gate.ended


# What can be passed.


def test_an_app_is_checked_when_it_is_made() -> None:
    engine, make = Engine(ScriptedLLM("ok")), toolcast.serve.app
    with pytest.raises(TypeError, match="authorize= is missing"):
        make(engine)
    with pytest.raises(TypeError, match="authorize"):
        make(engine, authorize="ann")
    with pytest.raises(TypeError, match="protcols"):
        make(engine, authorize=user_of, protcols=[])
    with pytest.raises(TypeError, match="got one Session"):
        make(Session(engine.fork()), authorize=user_of)
    with pytest.raises(TypeError, match="got str"):
        make("engine", authorize=user_of)
    with pytest.raises(ValueError, match="expected some of ag-ui, vercel, openai, got 'agui'"):
        make(engine, authorize=user_of, protocols=["agui"])
    with pytest.raises(TypeError, match=r"expected a list, such as \['ag-ui'\]"):
        make(engine, authorize=user_of, protocols="ag-ui")
    with pytest.raises(TypeError, match=r"expected a list, such as \['api\.example\.com'\]"):
        make(engine, authorize=user_of, hosts="api.example.com")
    with pytest.raises(ValueError, match="two of them have the path '/ag-ui'"):
        make(engine, authorize=user_of, protocols=["ag-ui", AGUIProtocol()])


def test_a_missing_starlette_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "toolcast.serve.routes", None)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[web\]'"):
        toolcast.serve.app(Engine(ScriptedLLM()), authorize=user_of)


def test_the_names_of_the_package() -> None:
    assert dir(toolcast.serve) == toolcast.serve.__all__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        toolcast.serve.nothing  # noqa: B018 - the access is the test
