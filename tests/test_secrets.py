"""A key that goes in comes out nowhere but in the header that needs it.

Each test puts a canary in every place that takes a secret, has a call fail in one of the ways calls fail, and
looks for the canary in every sink: representations, logs of every library at every level, the texts of
exceptions and what they hold, tracebacks with locals, pickles, copies, JSON, warnings, and previews.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import json
import logging
import pickle
import traceback
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from pprint import pformat
from typing import Any

import pytest
from google.oauth2.credentials import Credentials as GoogleCredentials

from support.albums import Album
from support.chunks import album_body, album_stream, text_body
from support.loopback import CLOSE, HOLD, RESET, Loopback, Piece, chunk, head, whole
from support.sync_and_async import API, APIS
from support.telemetry import recorded
from toolcast import (
    Anthropic,
    AnthropicVertex,
    Bedrock,
    CallError,
    CallInfo,
    Cohere,
    FallbackLLM,
    FunctionCallingLLM,
    Google,
    Hooks,
    LLMError,
    Mistral,
    Ollama,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    RequestInfo,
    Settings,
    Timeouts,
    ToolcastError,
    ToolOrchestratingLLM,
    llm,
)
from toolcast.errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    MalformedEvent,
    NotFound,
    QuotaExceeded,
    ServerError,
    StreamInterrupted,
    Timeout,
    UnsupportedLLMError,
)
from toolcast.experiments.embedders import EndpointEmbedder
from toolcast.llms import CachedLLM, RedactedLLM
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.values.credentials import Secret

# Two halves, so that neither this file's text in a traceback nor a constant of a frame holds the canary.
HALVES = ("sk-cAnArY-", "7f3e9b1d5a8c")
MARK = HALVES[1]


def canary() -> str:
    return "".join(HALVES)


def shown(where: str, text: str) -> None:
    """Fail if the canary is in `text`, also as a login encodes it, naming the sink and the text around it."""
    for mark in (MARK, b64encode(f"{canary()}:{canary()}".encode()).decode()[:20]):
        place = text.find(mark)
        assert place < 0, f"the key shows in {where}: {text[max(place - 300, 0) : place]}<KEY>"


# -- the sinks ------------------------------------------------------------------------------------------------


class Listener(logging.Handler):
    """A handler that keeps the records of every logger, formatted and raw."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{self.format(record)} {record.msg!r} {record.args!r} {vars(record)!r}")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """Every logger at its lowest level."""
    received = Listener()
    root = logging.getLogger()
    loggers = [root, *(logging.getLogger(name) for name in ("toolcast", "httpx", "httpcore", "asyncio"))]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    root.addHandler(received)
    yield received
    root.removeHandler(received)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def texts_of(error: BaseException) -> Iterator[tuple[str, str]]:
    """Return every text of an exception and of its causes."""
    tree = traceback.TracebackException.from_exception(error, capture_locals=True)
    # Frames of the tests hold the canary on purpose; all others are the library's, or below it.
    tree.stack = traceback.StackSummary.from_list([frame for frame in tree.stack if "/tests/" not in frame.filename])
    yield "a traceback with locals", "".join(tree.format())
    for link in chain(error):
        yield "the text of an exception", f"{link} {link!r} {link.args!r} {getattr(link, '__notes__', ())!r}"
        yield "the fields of an exception", pformat(vars(link))
        if isinstance(link, ToolcastError):
            yield "the HTML of an exception", link._repr_html_()
        yield "the attempts as data", dumped([attempt.to_dict() for attempt in getattr(link, "attempts", ())])
        for frame, _ in traceback.walk_tb(link.__traceback__):
            if "/tests/" not in frame.f_code.co_filename:
                # All of it: a traceback cuts what is long.
                yield f"the locals of {frame.f_code.co_qualname}", repr(frame.f_locals)


def chain(error: BaseException) -> list[BaseException]:
    """The error, its causes and contexts, and the errors of the attempts."""
    seen: list[BaseException] = []
    ahead: list[BaseException | None] = [error]
    while ahead:
        link = ahead.pop()
        if link is None or link in seen:
            continue
        seen.append(link)
        ahead += [link.__cause__, link.__context__, *getattr(link, "exceptions", ())]
        ahead += [attempt.error for attempt in getattr(link, "attempts", ())]
    return seen


def dumped(value: Any) -> str:
    return json.dumps(value, default=lambda other: asdict(other) if is_dataclass(other) else repr(other))  # type: ignore[arg-type]  # an instance


class Collecting(Hooks):
    """Hooks that collect the text of everything that they get."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        http = request.http
        assert http is not None
        self.texts += [repr(call), repr(request), str(request.url), pformat(request.tools), repr(request.messages)]
        self.texts += [repr(http), repr(http.headers), http.body.decode(), http.url, http.target, dumped(asdict(http))]

    def error(self, call: CallInfo, error: BaseException) -> None:
        self.texts += [f"{error} {error!r}", pformat(vars(error))]


def look_at(llm: FunctionCallingLLM) -> None:
    """The sinks that an LLM and what is made of it can fall into."""
    make = ToolOrchestratingLLM(Album, "about {topic}", llm)
    preview = make.preview(topic="x")
    assert preview.request is not None
    for name, value in {"llm": llm, "orchestrator": make, "preview": preview, "request": preview.request}.items():
        shown(f"repr({name})", repr(value))
        shown(f"str({name})", str(value))
        shown(f"format({name})", f"{value:}")
        shown(f"vars({name})", pformat(getattr(value, "__dict__", {})))
        shown(f"a copy of {name}", repr(getattr(copy.copy(value), "__dict__", "")))
    shown("a deep copy of the request", repr(copy.deepcopy(preview.request)))
    shown("the request as JSON", dumped(asdict(preview.request)))
    shown("the body", preview.request.body.decode())
    shown("the address", preview.request.url)
    shown("metadata", repr(llm.metadata))
    shown("settings", repr(llm.settings))


# -- what takes a secret --------------------------------------------------------------------------------------


def by_argument(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAI("m-1", base_url=url, api_key=canary(), **options)


def by_environment(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAI("m-1", base_url=url, **options)


def by_auth(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAICompatible("m-1", base_url=url, auth=lambda: {"Authorization": f"Bearer {canary()}"}, **options)


def of_ollama(url: str, **options: Any) -> FunctionCallingLLM:
    return Ollama("m-1", base_url=url.removesuffix("/v1"), api_key=canary(), **options)


def of_responses(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAIResponses("m-1", base_url=url, api_key=canary(), **options)


def of_anthropic(url: str, **options: Any) -> FunctionCallingLLM:
    return Anthropic("m-1", base_url=url, api_key=canary(), **options)


def of_google(url: str, **options: Any) -> FunctionCallingLLM:
    return Google("m-1", base_url=url, api_key=canary(), **options)


def of_mistral(url: str, **options: Any) -> FunctionCallingLLM:
    return Mistral("m-1", base_url=url, api_key=canary(), **options)


def of_cohere(url: str, **options: Any) -> FunctionCallingLLM:
    return Cohere("m-1", base_url=url.removesuffix("/v1"), api_key=canary(), **options)


def of_anthropic_on_vertex(url: str, **options: Any) -> FunctionCallingLLM:
    return AnthropicVertex("m-1", base_url=url, region="eu", project="p", api_key=canary(), **options)


def by_google_credentials(url: str, **options: Any) -> FunctionCallingLLM:
    """With a token, and what could refresh it."""
    given = GoogleCredentials(canary(), refresh_token=canary(), client_secret=canary())  # type: ignore[no-untyped-call]  # google-auth is untyped
    return Google("m-1", base_url=url.removesuffix("/v1"), project="p", location="eu", credentials=given, **options)


def of_bedrock(url: str, **options: Any) -> FunctionCallingLLM:
    return Bedrock("m-1", base_url=url, api_key=canary(), **options)


def signed_for_bedrock(url: str, **options: Any) -> FunctionCallingLLM:
    """With temporary credentials: the key signs, and the token is sent."""
    return Bedrock("m-1", base_url=url, region="us-east-1", **options)


def of_azure(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAICompatible("m-1", service="azure", base_url=url, api_key=canary(), **options)


def with_login(url: str) -> str:
    """`url` with a user and password, and a key in the query."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{canary()}:{canary()}@{rest}?subscription-key={canary()}&api-version=1"


def by_the_url(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAICompatible("m-1", base_url=with_login(url), **options)


def by_the_url_of_responses(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAIResponses("m-1", base_url=with_login(url), api_key="sk-other", **options)


def by_the_url_of_anthropic(url: str, **options: Any) -> FunctionCallingLLM:
    return Anthropic("m-1", base_url=with_login(url), api_key="sk-other", **options)


def by_the_url_of_google(url: str, **options: Any) -> FunctionCallingLLM:
    return Google("m-1", base_url=with_login(url), api_key="sk-other", **options)


def by_the_url_of_mistral(url: str, **options: Any) -> FunctionCallingLLM:
    return Mistral("m-1", base_url=with_login(url), api_key="sk-other", **options)


def by_the_url_of_ollama(url: str, **options: Any) -> FunctionCallingLLM:
    return Ollama("m-1", base_url=with_login(url.removesuffix("/v1")), **options)


def by_the_url_in_the_environment(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAI("m-1", api_key="sk-other", **options)


def by_the_url_over_aiohttp(url: str, **options: Any) -> FunctionCallingLLM:
    return OpenAICompatible("m-1", base_url=with_login(url), network="aiohttp", **options)


def by_unknown_headers(url: str, **options: Any) -> FunctionCallingLLM:
    names = ("Helicone-Auth", "x-portkey-api-key", "cf-aig-authorization", "X-Auth-Token", "x-secret-token", "X-Other")
    return OpenAICompatible("m-1", base_url=url, headers={name: f"Bearer {canary()}" for name in names}, **options)


def behind_others(url: str, **options: Any) -> FunctionCallingLLM:
    return FallbackLLM([of_anthropic(url, **options)], max_concurrency=1)


def in_wrappers(url: str, **options: Any) -> FunctionCallingLLM:
    return CachedLLM(RedactedLLM(by_the_url(url, **options), str.strip), max_concurrency=1)


WAYS_IN = [
    by_argument,
    by_environment,
    by_auth,
    of_ollama,
    of_responses,
    of_anthropic,
    of_google,
    of_mistral,
    of_cohere,
    of_anthropic_on_vertex,
    by_google_credentials,
    of_bedrock,
    signed_for_bedrock,
    of_azure,
    behind_others,
    in_wrappers,
    by_the_url,
    by_the_url_of_responses,
    by_the_url_of_anthropic,
    by_the_url_of_google,
    by_the_url_of_mistral,
    by_the_url_of_ollama,
    by_the_url_in_the_environment,
    by_unknown_headers,
]
Way = Callable[..., FunctionCallingLLM]


@pytest.fixture(params=WAYS_IN, ids=lambda way: way.__name__)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    """Each way to hand over a key in turn."""
    chosen: Way = request.param
    if chosen is by_environment:
        monkeypatch.setenv("OPENAI_API_KEY", canary())
    if chosen is signed_for_bedrock:
        monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"AKIA{MARK}")
        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, canary())
    if chosen is not by_the_url_in_the_environment:
        return chosen

    def made(url: str, **options: Any) -> FunctionCallingLLM:
        monkeypatch.setenv("OPENAI_BASE_URL", with_login(url))
        return chosen(url, **options)

    return made


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_at_rest(way: Way) -> None:
    look_at(way("http://127.0.0.1:9/v1"))


@pytest.mark.fault(108, 134)
@pytest.mark.gate("G11")
def test_in_a_pickle_and_what_comes_of_it(way: Way) -> None:
    llm = way("http://127.0.0.1:9/v1")
    ToolOrchestratingLLM(Album, "about {topic}", llm).preview(topic="x")  # it has been used
    data = pickle.dumps(llm)
    shown("a pickle", data.decode("latin-1"))
    shown("what was unpickled", pformat(vars(pickle.loads(data))))


@pytest.mark.gate("G11")
def test_in_a_deep_copy(way: Way) -> None:
    llm = way("http://127.0.0.1:9/v1")
    copied = copy.deepcopy(llm)
    shown("a deep copy", f"{copied!r} {pformat(vars(copied))}")
    assert copied.metadata == llm.metadata


def test_a_header_that_holds_a_key_shows_nowhere() -> None:
    headers = {"x-api-key": canary(), "Authorization": f"Bearer {canary()}", "api-key": canary()}
    look_at(OpenAI("m-1", base_url="http://127.0.0.1:9/v1", api_key="sk-other", headers=headers))


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_a_secret_says_nothing() -> None:
    secret = Secret(canary())
    for text in (repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", "%s" % secret, pformat([secret])):  # noqa: UP031 - that is the test
        shown("a Secret", text)
    assert copy.deepcopy({"key": secret})["key"] == secret
    with pytest.raises(TypeError, match="not pickled") as caught:
        pickle.dumps(secret)
    shown("the error", str(caught.value))
    with pytest.raises(TypeError):
        json.dumps({"key": secret})


# -- the ways a call fails ------------------------------------------------------------------------------------

JSON = "content-type: application/json"
SSE = "content-type: text/event-stream"


def echo(status: int, **error: Any) -> list[Piece]:
    """An error that repeats the key, as some services do."""
    words = {"message": f"This came with {canary()} (Bearer {canary()})", **error}
    return [whole(json.dumps({"error": words}).encode(), status, JSON)]


def stream(*pieces: Piece) -> list[Piece]:
    body = [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
    return [head(200, SSE, "transfer-encoding: chunked"), *body]


FAILURES: dict[str, tuple[list[Piece], tuple[type[CallError], ...]]] = {
    "401 with the key": (echo(401), (AuthFailed,)),
    "403 with the key": (echo(403), (AuthFailed,)),
    "400 with the key": (echo(400), (BadRequest,)),
    "404 with the key": (echo(404), (NotFound,)),
    "429 quota with the key": (echo(429, code="insufficient_quota"), (QuotaExceeded,)),
    "500 with the key": (echo(500), (ServerError,)),
    "500 in HTML with the key": (
        [whole(f"<h1>{canary()}</h1>".encode(), 500, "content-type: text/html")],
        (ServerError,),
    ),
    "a redirect to the key": (
        [whole(b"", 302, f"location: https://elsewhere.example/?key={canary()}")],
        (LLMError,),
    ),
    "429 with the key in a header": (
        [whole(b"{}", 429, JSON, f"x-ratelimit-limit-requests: {canary()}", f"x-request-id: {canary()}")],
        (LLMError,),
    ),
    "the key as the body": ([whole(canary().encode(), 200, JSON)], (MalformedEvent,)),
    "the key in a header": ([whole(b"{}", 200, JSON, f"x-request-id: {canary()}")], (CallError,)),
    "an error in place of an answer": (
        [whole(json.dumps({"error": f"out of memory for {canary()}"}).encode(), 200, JSON)],
        (LLMError,),
    ),
    "a status line that is none": ([f"HTTQ {canary()}\r\n\r\n".encode(), CLOSE], (StreamInterrupted,)),
    "closed at once": ([CLOSE], (StreamInterrupted, ConnectFailed)),
    "reset": ([RESET], (StreamInterrupted, ConnectFailed)),
    "cut": ([*stream(*album_stream()[:5]), CLOSE], (StreamInterrupted, MalformedEvent)),
    "silent": ([HOLD], (Timeout,)),
    "arguments that do not fit": ([whole(album_body('{"title": 1}'), 200, JSON)], (CallError,)),
    "words only": ([whole(text_body("no"), 200, JSON)], (CallError,)),
}


def decoded(headers: Mapping[str, str]) -> str:
    """The values of the headers, and what is in a login."""
    values = [*headers.values()]
    return " ".join([*values, *(b64decode(v[6:]).decode() for v in values if v.startswith("Basic "))])


@contextmanager
def all_warnings() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught
        gc.collect()


EVERYWHERE = ("401 with the key", "a redirect to the key", "the key as the body", "cut", "silent")
"""Failures that the fast part of the suite has on every way and API; it has the others on one."""
CASES = [
    pytest.param(
        *(way, api, failure),
        id=f"{failure}-{way.__name__}-{api.name}",
        marks=() if failure in EVERYWHERE or (way, api) == (by_argument, APIS[0]) else pytest.mark.slow,
    )
    for failure in FAILURES
    for way, api in [
        *((by_argument, api) for api in APIS),
        *((way, APIS[0]) for way in WAYS_IN[1:]),
        *((by_the_url_over_aiohttp, api) for api in APIS if api.name == "asyncio"),
    ]
]


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize(("way", "api", "failure"), CASES, indirect=["way"])
def test_in_every_failure(
    failure: str, way: Way, api: API, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    pieces, kinds = FAILURES[failure]
    hooks = Collecting()
    with Loopback() as server, all_warnings() as warned, recorded(capture_content=True) as telemetry:
        server.answer(*pieces)
        limits = Timeouts(connect=5, first_token=0.1, idle=0.1, total=5) if failure == "silent" else None
        url = f"http://127.0.0.1:{server.port}/v1"
        llm = way(url, max_retries=0, settings=Settings(timeout=limits))
        make = ToolOrchestratingLLM(Album, "about {topic}", llm, verbose=True, hooks=hooks)
        with pytest.raises(CallError) as caught:
            api.call(make, topic="x")
        server.wait_requests(1)
        sent = server.requests[0]
        assert MARK in decoded(sent.headers) + sent.line  # it went where it belongs
        assert ("api-version=1" in sent.line) == (MARK in sent.line)
        assert isinstance(caught.value, kinds)
        for where, text in texts_of(caught.value):
            shown(where, text)
        shown("the error as JSON", dumped(vars(caught.value)))
        look_at(llm)
        llm.close()
    assert len(telemetry.spans) == 1
    shown("the spans and metrics", telemetry.everything())
    assert len(hooks.texts) == 13
    shown("the values of hooks", "\n".join(hooks.texts))
    account = capsys.readouterr().err
    assert "Album with" in account
    shown("the account on stderr", account)
    shown("the logs", "\n".join(listener.lines))
    shown("the warnings", "\n".join(str(warning) for warning in warned))
    assert warned == []
    assert any("httpcore" in line for line in listener.lines) or way is by_the_url_over_aiohttp


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_a_login_that_comes_back(api: API, listener: Listener) -> None:
    login = b64encode(f"{canary()}:{canary()}".encode()).decode()
    with Loopback() as server:
        server.answer(whole(json.dumps({"error": f"Basic {login}"}).encode(), 401, JSON))
        make = ToolOrchestratingLLM(Album, "x", by_the_url(f"http://127.0.0.1:{server.port}/v1"))
        with pytest.raises(AuthFailed, match=r"Basic \[key\]") as caught:
            api.call(make)
    for where, text in texts_of(caught.value):
        shown(where, text)
    shown("the logs", "\n".join(listener.lines))


# -- failures before anything is sent


def of_no_provider(**given: Any) -> object:
    return llm("unknown:m", **given)


def of_a_provider(**given: Any) -> object:
    return llm("groq:m", **given)


MAKERS = [OpenAI, OpenAIResponses, OpenAICompatible, Anthropic, Bedrock, Google, Mistral, Ollama]
UNFIT: dict[str, dict[str, Any]] = {
    "an argument that does not exist": {"nothing_like_it": 1},
    "a network that does not exist": {"network": "carrier pigeons"},
    "a limit that is none": {"max_concurrency": 0},
}


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("unfit", UNFIT.values(), ids=[*UNFIT])
@pytest.mark.parametrize("make", [*MAKERS, of_a_provider, of_no_provider], ids=lambda make: make.__name__)
def test_in_a_constructor_that_fails(make: Callable[..., object], unfit: dict[str, Any]) -> None:
    given = {"api_key": canary(), "base_url": with_login("http://h/v1"), "headers": {"X-Token": canary()}}
    args = () if make in (of_a_provider, of_no_provider) else ("m-1",)
    with pytest.raises((TypeError, ValueError, LLMError, ToolcastError)) as caught:
        make(*args, **given, **unfit)
    for where, text in texts_of(caught.value):
        shown(where, text)


BAD_URLS = ["ftp://h/v1", "http://[h/v1", "http://", "nothing"]


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_in_an_address_that_is_none(make: Callable[..., FunctionCallingLLM], url: str, api: API) -> None:
    made = make("m-1", base_url=with_login(url), api_key="sk-other")
    for use in (lambda: api.chat(made, "x"), lambda: ToolOrchestratingLLM(Album, "x", made).preview()):
        with pytest.raises((LLMError, UnsupportedLLMError, ValueError)) as caught:
            use()
        for where, text in texts_of(caught.value):
            shown(where, text)


@pytest.mark.fault(134)
@pytest.mark.gate("G11")
def test_in_a_key_with_a_line_break(api: API) -> None:
    key = f"{canary()}\n"
    as_text, as_bytes = {"Authorization": key}, {"Authorization": key.encode()}
    ways: list[dict[str, Any]] = [{"api_key": key}, {"headers": {"X-Token": key}}, {"headers": as_bytes}]
    ways += [{"auth": lambda: as_text}, {"auth": lambda: as_bytes}, {"auth": lambda: key}]
    for way in ways:
        made = OpenAICompatible("m-1", base_url="http://127.0.0.1:9/v1", **way)
        with pytest.raises((BadRequest, TypeError)) as caught:
            api.chat(made, "x")
        for where, text in texts_of(caught.value):
            shown(where, text)


@pytest.mark.fault(37, 134)
@pytest.mark.gate("G11")
@pytest.mark.parametrize("proxy", ["http://{login}@127.0.0.1:9", "socks9://{login}@h", "http://{login}@h:x"])
@pytest.mark.parametrize("network", [None, "aiohttp"])
def test_in_a_proxy(proxy: str, network: Any, monkeypatch: pytest.MonkeyPatch, listener: Listener) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, proxy.format(login=f"{canary()}:{canary()}"))
    made = OpenAICompatible("m-1", base_url="http://service.example/v1", network=network, max_retries=0)
    with pytest.raises(LLMError) as caught:
        asyncio.run(made.achat("x"))
    for where, text in texts_of(caught.value):
        shown(where, text)
    shown("the logs", "\n".join(listener.lines))


# -- copies and pickles


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_is_as_good_as_the_original(copied: Callable[[Any], Any], api: API) -> None:
    with Loopback() as server:
        server.answer(whole(text_body("yes"), 200, JSON))
        given = with_login(f"http://127.0.0.1:{server.port}/v1")
        made = OpenAICompatible("m-1", base_url=given, headers={"X-Token": canary()}, network=HttpxNetwork())
        again = copied(made)
        assert api.chat(again, "x").text == "yes"
        assert again.network is made.network
        made.close()
    assert server.requests[0].headers["x-token"] == canary()
    assert canary() in server.requests[0].line


def test_what_a_pickle_has_left_out_is_missed(api: API) -> None:
    url = with_login("http://127.0.0.1:9/v1")
    made = pickle.loads(pickle.dumps(OpenAICompatible("m-1", base_url=url, headers={"X-Token": canary()})))
    again = pickle.loads(pickle.dumps(made))
    words = r"left out: the header 'X-Token', the credentials in base_url\. Create the LLM in the process that uses it"
    with pytest.raises(AuthFailed, match=words):
        api.chat(again, "x")


# -- what is no LLM and has a key all the same


EMBEDDING_FAILURES: dict[str, list[Piece]] = {
    name: FAILURES[name][0] for name in ("401 with the key", "500 in HTML with the key", "the key as the body", "reset")
}
EMBEDDING_FAILURES["no JSON, the key in the middle of what is shown"] = [
    whole(f"<p>{' ' * 60}{canary()}</p>".encode(), 200, JSON)
]
EMBEDDING_FAILURES["no text"] = [whole(b"\xff" + canary().encode(), 200, JSON)]


@pytest.mark.parametrize("provider", ["openai", "mistral", "ollama", "google"])
@pytest.mark.parametrize("failure", EMBEDDING_FAILURES)
def test_in_a_failure_of_an_embedder(provider: str, failure: str, listener: Listener) -> None:
    with Loopback() as server:
        server.answer(*EMBEDDING_FAILURES[failure])
        url = with_login(f"http://127.0.0.1:{server.port}")
        embedder = EndpointEmbedder(provider, "m", base_url=url, api_key=canary(), max_retries=0)
        with pytest.raises(LLMError) as caught:
            embedder.embed(["a"])
    assert MARK in server.requests[0].line
    for where, text in texts_of(caught.value):
        shown(where, text)
    shown("the embedder", f"{embedder!r} {pformat(vars(embedder))}")
    shown("the logs", "\n".join(listener.lines))


@pytest.mark.parametrize("url", BAD_URLS)
@pytest.mark.parametrize("provider", ["openai", "ollama", "google"])
def test_in_an_address_of_an_embedder_that_is_none(provider: str, url: str) -> None:
    embedder = EndpointEmbedder(provider, "m", base_url=with_login(url), api_key="sk-other", max_retries=0)
    with pytest.raises((LLMError, ValueError)) as caught:
        embedder.embed(["a"])
    for where, text in texts_of(caught.value):
        shown(where, text)
