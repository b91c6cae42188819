"""A key stays out of what outlives a call: sessions, recordings, the debug log of the REPL, and crash reports.

`test_secrets` looks into what a call leaves in the process; here are the sinks that go to a disk or to other people.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from pprint import pformat
from typing import Any

import pytest

from apps.repl.test_pipes import run
from support.albums import Album
from support.chunks import album_body, text_body
from support.loopback import CLOSE, RESET, Loopback, Piece, whole
from support.ollama_server import OllamaServer, delta, line
from support.sync_and_async import API, APIS
from test_secrets import FAILURES, JSON, MARK, canary, dumped, echo, shown, texts_of, with_login
from toolcast import CallError, Engine, OpenAI, Session, Settings, Timeouts, ToolOrchestratingLLM
from toolcast.errors import BadRequest
from toolcast.llms import CachedLLM, RecordingLLM, SQLiteCache
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.testing import Recorded, RecordingError, ReplayNetwork, record, replay
from user.session import command_environment, play


def everything_in(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every file below a folder with what it holds."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"the file {path.name}", path.read_bytes().decode("latin-1")


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_in_a_recorded_exchange(api: API) -> None:
    """A `ReplayNetwork` keeps the requests, and a test may print, store or compare them."""
    network = ReplayNetwork(Recorded([album_body()]), *[Recorded([b'{"error": {"message": "no"}}'], 400)])
    llm = OpenAI("m-1", api="chat", api_key=canary(), headers={"x-token": canary()}, network=network)
    make = ToolOrchestratingLLM(Album, "x", llm)
    api.call(make)
    with pytest.raises(BadRequest):
        api.call(make)
    assert len(network.requests) == 2
    for request in network.requests:
        assert request.headers["authorization"].reveal() == f"Bearer {canary()}"  # type: ignore[union-attr]  # a Secret
        shown("repr", f"{request!r} {request} {pformat(request)}")
        shown("JSON", dumped(asdict(request)))
        shown("a deep copy", repr(copy.deepcopy(request)))
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(request)
    shown("the network", pformat(vars(network)))


ECHOES: dict[str, list[Piece]] = {
    "an answer with the key": [whole(text_body(f"You have sent {canary()}."), 200, JSON, f"x-request-id: {canary()}")],
    "a refusal with the key": echo(401),
    "a page with the key": [whole(f"<h1>{canary()}</h1>".encode(), 502, "content-type: text/html")],
    "a cookie with the key": [whole(text_body("Hello."), 200, JSON, f"set-cookie: key={canary()}")],
    "no HTTP": [f"HTTQ {canary()}\r\n\r\n".encode(), CLOSE],
}


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("place", ["api_key", "headers", "auth", "base_url"])
@pytest.mark.parametrize("answer", ECHOES)
def test_in_a_recording(api: API, place: str, answer: str, tmp_path: Path) -> None:
    """Sent in each place that takes a secret, repeated in the prompt, and sent back by the service."""
    with Loopback() as server:
        server.answer(*ECHOES[answer])
        url = server.url.replace("://", f"://me:{canary()}@") if place == "base_url" else server.url
        options: dict[str, Any] = {
            "api_key": {"api_key": canary()},
            "headers": {"api_key": "none", "headers": {"x-token": canary()}},
            "auth": {"auth": lambda: {"authorization": f"Bearer {canary()}"}},
            "base_url": {"api_key": "none"},
        }[place]
        llm = OpenAI("m-1", base_url=url, max_retries=0, **options)
        path = tmp_path / "recording.jsonl"
        seen = []
        for block in (record(path, "once"), replay(path)):
            with block as recording:
                try:
                    seen.append(api.chat(llm, f"My key is {canary()}.").message.text)
                except CallError as error:
                    seen.append(type(error))
                shown("the recording", f"{recording!r} {pformat(vars(recording))}")
        assert len(server.requests) == 1
    files = list(everything_in(tmp_path))
    assert ["My key is [key]." in text for _, text in files] == [True]
    for where, text in files:
        shown(where, text)
    assert seen[0] == seen[1] or seen == [f"You have sent {canary()}.", "You have sent [key]."]


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_in_the_errors_of_a_recording(tmp_path: Path) -> None:
    """A refused write, a filter that raises an exception, and a request that is not in the recording."""
    hidden = "".join(f"&#{ord(char)};" for char in canary())  # an encoding that is recognized and not removed
    llm = OpenAI(
        "m-1",
        api="chat",
        api_key=canary(),
        network=ReplayNetwork(*[Recorded([text_body(f"You have sent {canary()}.")])] * 3),
    )
    still = pytest.raises(RecordingError, match="was not written: the body of request 1 still contains")
    with still as refused, record(tmp_path / "a", "all"):
        llm.chat(f"My key is {hidden}.")

    def broken(text: str) -> str:
        raise ZeroDivisionError("a fault of the filter")

    with pytest.raises(ZeroDivisionError) as failed, record(tmp_path / "b", "all", filter=broken):
        llm.chat("My name is A.")
    with record(tmp_path / "c", "all"):
        llm.chat("My name is A.")
    with pytest.raises(RecordingError, match=r"no request in .* matches") as differs, replay(tmp_path / "c"):
        llm.chat("My name is B.")
    for caught in (refused, failed, differs):
        for where, text in texts_of(caught.value):
            shown(where, text)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("kind", [SQLiteStore, JSONLStore])
def test_in_a_stored_session(kind: type[SQLiteStore] | type[JSONLStore], tmp_path: Path) -> None:
    refused = f'{{"error": {{"message": "not with {canary()}"}}}}'.encode()
    network = ReplayNetwork(
        Recorded([text_body("Hello.")], headers={"content-type": "application/json"}), Recorded([refused], 401)
    )
    llm = OpenAI("m-1", api="chat", api_key=canary(), network=network, max_retries=0)
    store = kind(tmp_path / "store")
    with Session(Engine(llm), id="a", store=store) as session:
        session.run("Hi.")
        with pytest.raises(CallError):
            session.run("And?")
    if isinstance(store, SQLiteStore):
        store.close()
    files = list(everything_in(tmp_path))
    assert any("Hello." in text for _, text in files)
    for where, text in files:
        shown(where, text)


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_in_an_error_that_is_sent_to_another_process() -> None:
    refused = f'{{"error": {{"message": "not with {canary()}"}}}}'.encode()
    llm = OpenAI("m-1", api="chat", api_key=canary(), network=ReplayNetwork(Recorded([refused], 401)), max_retries=0)
    with pytest.raises(CallError) as caught:
        ToolOrchestratingLLM(Album, "x", llm)()
    data = pickle.dumps(caught.value)
    shown("a pickled error", data.decode("latin-1"))
    again = pickle.loads(data)
    shown("the error that came out", f"{again!r} {again} {pformat(vars(again))}")
    assert type(again) is type(caught.value)


CRASHES: dict[str, list[Piece]] = {
    "a refusal with the key": echo(401),
    "a failure with the key": echo(500),
    "a lost connection": [RESET],
    "no HTTP": [f"HTTQ {canary()}\r\n\r\n".encode(), CLOSE],
    "a page with the key": [whole(f"<h1>{canary()}</h1>".encode(), 502, "content-type: text/html")],
    "arguments that do not fit": [whole(album_body('{"title": 1}'), 200, JSON)],
}


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("crash", CRASHES)
def test_in_a_crash_report(crash: str) -> None:
    """A program that dies of the error, its report showing every frame with its variables in full."""
    with Loopback() as server:
        server.answer(*CRASHES[crash])
        screen = play(
            f"""
            import os, rich.traceback
            os.environ["OPENAI_API_KEY"] = "".join({[*canary()]!r})
            rich.traceback.install(show_locals=True, locals_max_length=None, locals_max_string=None, width=500)
            llm = OpenAI("m-1", base_url=sys.argv[1], max_retries=0)
            make_album = ToolOrchestratingLLM(Album, "about {{topic}}", llm)
            make_album(topic="the sea")
            """,
            server,
        )
        assert any(MARK in value for value in server.requests[0].headers.values())
    assert screen.code == 1
    assert "locals" in screen.err and "toolcast" in screen.err
    shown("the report", screen.err + screen.out)


FAILED_CHATS: dict[str, list[Piece]] = {
    "401": [whole(f'{{"error": "not with {canary()}"}}'.encode(), 401, JSON)],
    "a page": [whole(f"<h1>{canary()}</h1>".encode(), 502, "content-type: text/html")],
    "in the middle": [
        whole(line(delta(content="Hel")) + f'{{"error": "not with {canary()}"}}\n'.encode(), 200, JSON),
    ],
    "no HTTP": [f"HTTQ {canary()}\r\n\r\n".encode(), CLOSE],
    "reset": [RESET],
}


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("failure", FAILED_CHATS)
def test_in_the_debug_log_of_the_repl_and_what_it_keeps(failure: str, tmp_path: Path) -> None:
    with OllamaServer() as server:
        server.answer(*FAILED_CHATS[failure])
        env = command_environment(TOOLCAST_HOME=str(tmp_path / "home"), OLLAMA_HOST=server.host, OLLAMA_MODEL="m-1")
        out, err, code = run("--debug", "--session", "s", "--token", canary(), typed="Hi", env=env)
        assert any(MARK in value for value in server.requests[0].headers.values())
    assert code == 1
    assert "DEBUG: turn: streaming" in err and "toolcast.errors." in err
    shown("the debug log", out + err)
    files = list(everything_in(tmp_path))
    assert files
    for where, text in files:
        shown(where, text)


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize(
    ("failure", "api"),
    [(failure, APIS[0]) for failure in FAILURES] + [("500 with the key", api) for api in APIS[1:]],
    ids=lambda value: getattr(value, "name", value),
)
def test_in_a_cache_and_in_a_recording(failure: str, api: API, tmp_path: Path) -> None:
    pieces, kinds = FAILURES[failure]
    with Loopback() as server, SQLiteCache(tmp_path / "answers.db") as cache:
        server.answer(whole(album_body(), 200, JSON))
        for _ in range(2):  # a connection that was used before is replaced if it is closed
            server.answer(*pieces)
        limits = Timeouts(connect=5, first_token=0.1, idle=0.1, total=5) if failure == "silent" else None
        wrapped = OpenAI(
            "m-1",
            api_key=canary(),
            base_url=with_login(f"http://127.0.0.1:{server.port}/v1"),
            headers={"x-token": canary()},
            max_retries=0,
            settings=Settings(timeout=limits),
        )
        llm = CachedLLM(RecordingLLM(wrapped, tmp_path / "calls.jsonl"), cache)
        make = ToolOrchestratingLLM(Album, "about {topic}", llm)
        assert api.call(make, topic="x") == api.call(make, topic="x")
        with pytest.raises(CallError) as caught:
            api.call(make, topic="y")
        assert isinstance(caught.value, kinds)
        server.wait_requests(2)
        assert all(MARK in request.headers["x-token"] for request in server.requests)
        shown("repr", f"{llm!r} {pformat(vars(llm))}")
        wrapped.close()
    found = dict(everything_in(tmp_path))
    assert found["the file calls.jsonl"].count("\n") == 2 and len(found["the file answers.db"]) > 1000
    for where, text in found.items():
        shown(where, text)
