"""`Bedrock`: over loopback, with a key and with signatures that a server verifies; regions, copies, pickles."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
import botocore.auth  # type: ignore[import-untyped]  # it has no types
import pytest
from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # it has no types
from botocore.credentials import Credentials  # type: ignore[import-untyped]  # it has no types
from botocore.serialize import create_serializer  # type: ignore[import-untyped]  # it has no types
from botocore.validate import ParamValidator  # type: ignore[import-untyped]  # it has no types

from support.albums import SEA, Album
from support.bedrock_oracle import from_json, operation
from support.loopback import Loopback, Request, whole
from support.sync_and_async import API, AsyncAPI
from support.turns import PROTOCOLS, Turn
from toolcast import Bedrock, Engine, Settings, ToolOrchestratingLLM, llm, user
from toolcast.errors import AuthFailed, BadRequest, RateLimited, Timeout, UnsupportedLLMError
from toolcast.events import TextDelta
from toolcast.llms import Capabilities, TokenCount
from toolcast.llms.client import client_of
from toolcast.llms.credentials import aws_credentials
from toolcast.messages import ImagePart, ThinkingPart
from toolcast.testing import Recorded, ReplayNetwork, record
from toolcast.values.credentials import Secret

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ARN = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
JSON = "content-type: application/json"
FRAMES = "content-type: application/vnd.amazon.eventstream"
WIRE = PROTOCOLS["bedrock"]
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials and a region of AWS, and nothing else."""
    for name in ("AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session-token")
    monkeypatch.setenv("AWS_REGION", "us-east-1")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def at(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}"


def verify(request: Request, secret: str = SECRET, token: str | None = "session-token") -> None:
    """Verify a signature as the service does, from what has arrived."""
    headers = request.headers
    _, _, credential = headers["authorization"].partition("Credential=")
    key, _, region, service = credential.split(",")[0].split("/")[:4]
    names = headers["authorization"].partition("SignedHeaders=")[2].split(",")[0].split(";")
    assert set(names) >= {"host", "content-type", "x-amz-date"}
    assert headers.get("x-amz-security-token") == token
    method, path, _ = request.line.split(" ")
    signed = {name: headers[name] for name in names if name != "x-amz-security-token"}
    again = AWSRequest(method, f"http://{headers['host']}{path}", signed, request.body)
    when = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    with mock.patch("botocore.auth.get_current_datetime", return_value=when):
        botocore.auth.SigV4Auth(Credentials(key, secret, token), service, region).add_auth(again)
    assert (region, service) == ("us-east-1", "bedrock")
    assert headers["authorization"] == again.headers["Authorization"]


TURN = Turn("Hm.", "So.", (("call00001", "Album", SEA.model_dump_json()),))


def answered(server: Loopback, turn: Turn = TURN) -> None:
    server.answer(whole(WIRE.whole(turn), 200, JSON, "x-amzn-requestid: r-1"))


def streamed(server: Loopback, turn: Turn = TURN) -> None:
    server.answer(whole(b"".join(WIRE.stream(turn)), 200, FRAMES))


# -- calls


@pytest.mark.parametrize("model", [MODEL, ARN, "amazon.nova-pro-v1:0"])
@pytest.mark.parametrize("key", [None, "bedrock-key"])
def test_calls_over_http(model: str, key: str | None, server: Loopback, api: API) -> None:
    answered(server)
    streamed(server)
    with Bedrock(model, base_url=at(server), api_key=key) as made:
        make = ToolOrchestratingLLM(Album, "About {topic} é", made)
        result = api.run(make, topic="x")
        assert (result.output, result.usage.total_tokens, result.response.request_id) == (SEA, 13, "r-1")
        assert api.stream(make, topic="x").final == SEA
    for request, path in zip(server.requests, ("converse", "converse-stream"), strict=True):
        quoted = model.replace(":", "%3A").replace("/", "%2F")
        assert request.line == f"POST /model/{quoted}/{path} HTTP/1.1"
        if key is None:
            verify(request)
        else:
            assert request.headers["authorization"] == "Bearer bedrock-key"
            assert "x-amz-date" not in request.headers


@pytest.mark.parametrize("model", [MODEL, ARN])
def test_aiohttp_sends_the_same_path(model: str, server: Loopback) -> None:
    answered(server)
    made = Bedrock(model, base_url=at(server), network="aiohttp")
    assert AsyncAPI("asyncio").call(ToolOrchestratingLLM(Album, "x", made)) == SEA
    verify(server.requests[0])


def test_each_attempt_is_signed_anew(server: Loopback, api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([datetime.now(UTC) + timedelta(seconds=second) for second in range(5)])
    monkeypatch.setattr(aws_credentials, "datetime", mock.Mock(now=lambda zone: next(times)))
    slow = json.dumps({"message": "slow down"}).encode()
    server.answer(whole(slow, 429, JSON, "x-amzn-errortype: ThrottlingException", "retry-after: 0"))
    server.answer(whole(slow, 503, JSON, "retry-after: 0"))
    answered(server, Turn(text="Hi"))
    assert api.chat(Bedrock(MODEL, base_url=at(server)), "x").text == "Hi"
    for request in server.requests:
        verify(request)
    assert len({request.headers["x-amz-date"] for request in server.requests}) == 3
    assert len({request.headers["authorization"] for request in server.requests}) == 3


def test_no_further_attempt_with_wrong_credentials(server: Loopback, api: API) -> None:
    refused = {"message": f"The request signature for AKIDEXAMPLE {SECRET} session-token does not match"}
    server.answer(whole(json.dumps(refused).encode(), 403, JSON, "x-amzn-errortype: InvalidSignatureException"))
    with pytest.raises(AuthFailed, match="does not match") as caught:
        api.chat(Bedrock(MODEL, base_url=at(server)), "x")
    for secret in ("AKIDEXAMPLE", SECRET, "session-token"):
        assert secret not in str(caught.value)
    assert len(server.requests) == 1


def test_an_exception_in_a_stream_before_its_content_is_retried(server: Loopback, api: API) -> None:
    from support.aws_event_messages import exception

    server.answer(whole(WIRE.stream(TURN)[0] + exception("throttlingException", {"message": "slow"}), 200, FRAMES))
    streamed(server, Turn(text="Hi"))
    made = Bedrock(MODEL, base_url=at(server))
    assert [one.text for one in api.events(made, "x") if isinstance(one, TextDelta)] == ["Hi"]
    server.answer(whole(exception("throttlingException", {"message": "slow"}), 200, FRAMES))
    with pytest.raises(RateLimited):
        api.events(Bedrock(MODEL, base_url=at(server), max_retries=0), "x")


def test_an_engine_sends_thoughts_and_results_back(server: Loopback) -> None:
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"4C in {city}"

    thought = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "Eq="}}}
    called = {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Oslo"}}}
    output = {"output": {"message": {"role": "assistant", "content": [thought, called]}}, "stopReason": "tool_use"}
    body = json.dumps(output).encode()
    events = WIRE.stream(Turn(text="Cold."))
    server.answer(whole(body, 200, JSON))
    server.answer(whole(b"".join(events), 200, FRAMES))
    engine = Engine(Bedrock(MODEL, base_url=at(server)), tools=[weather])
    assert engine.submit("How is Oslo?").text == "Cold."
    sent = json.loads(server.requests[1].body)["messages"]
    assert sent[1]["content"] == [thought, called]
    assert sent[2]["content"] == [{"toolResult": {"toolUseId": "t1", "content": [{"text": "4C in Oslo"}]}}]


def test_the_raw_events_are_those_of_the_sdk(server: Loopback, api: API) -> None:
    streamed(server, Turn(text="Hi"))
    made = Bedrock(MODEL, base_url=at(server), keep_raw=True)
    (finish,) = [one for one in api.events(made, "x") if hasattr(one, "stop_reason")]
    assert [next(iter(frame)) for frame in finish.body] == [
        *("messageStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata")
    ]


def test_a_recording_has_no_credentials_and_needs_none(
    server: Loopback, api: API, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.jsonl"
    answered(server, Turn(text="Hi"))
    streamed(server, Turn("Hm.", "Hi"))
    made = Bedrock(MODEL, base_url=at(server))
    with record(path, mode="once"):
        before = (api.chat(made, "x").message, api.events(made, "x"))
    data = path.read_text()
    for secret in ("AKIDEXAMPLE", SECRET, "session-token", "Signature="):
        assert secret not in data
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    again = Bedrock(MODEL, base_url=at(server))
    with record(path, mode="none"):
        assert (api.chat(again, "x").message, api.events(again, "x")) == before
    assert len(server.requests) == 2


def test_an_auth_of_ones_own(server: Loopback, api: API) -> None:
    answered(server, Turn(text="Hi"))
    made = Bedrock(MODEL, base_url=at(server), auth=lambda: {"authorization": "Bearer mine"})
    assert api.chat(made, "x").text == "Hi"
    assert server.requests[0].headers["authorization"] == "Bearer mine"
    assert "x-amz-date" not in server.requests[0].headers


@pytest.mark.parametrize("key", [None, "bedrock-key"])
def test_tokens_are_counted_for_the_model_itself(key: str | None, server: Loopback, api: API) -> None:
    """`CountTokens` takes the ids of models alone, and some fields of the request."""
    server.answer(whole(b'{"inputTokens": 42}', 200, JSON))
    made = Bedrock(MODEL, base_url=at(server), api_key=key, system_prompt="Be terse.")

    def weather(city: str) -> str:
        """The weather in a city."""
        return city

    settings = Settings(thinking=2000, max_tokens=9000, stop="x")
    assert api.method(made, "count_tokens", "Hi", tools=[weather], settings=settings) == TokenCount(42, estimated=False)
    (request,) = server.requests
    assert request.line == f"POST /model/{MODEL.removeprefix('us.').replace(':', '%3A')}/count-tokens HTTP/1.1"
    body = json.loads(request.body)
    assert list(body["input"]) == ["converse"]
    assert body["input"]["converse"].keys() == {"messages", "system", "toolConfig", "additionalModelRequestFields"}
    assert body == counted(body)
    if key is None:
        verify(request)


def counted(body: dict[str, Any]) -> Any:
    """The body that botocore sends for the same call."""
    called = operation("CountTokens")
    params = {"modelId": "m", **from_json(body, called.input_shape)}
    report = ParamValidator().validate(params, called.input_shape)
    assert not report.has_errors(), report.generate_report()
    return json.loads(create_serializer("rest-json").serialize_to_request(params, called)["body"])


@pytest.mark.parametrize("model", [ARN, "amazon.nova-pro-v1:0"])
def test_tokens_of_other_models_are_estimated(model: str, server: Loopback, api: API) -> None:
    made = Bedrock(model, base_url=at(server))
    assert api.method(made, "count_tokens", "Hi").estimated
    assert server.requests == []


# -- look-ups


class Slow:
    """A session whose look-up waits."""

    region_name = "us-east-1"

    def __init__(self) -> None:
        self.gate = threading.Event()

    def get_credentials(self) -> Any:
        assert self.gate.wait(30)
        return Credentials("AKSLOW", SECRET, None)


@pytest.mark.parametrize("how", ["call", "llm"])
def test_the_limit_of_the_call_is_that_of_the_look_up(how: str, server: Loopback, api: API) -> None:
    session, short = Slow(), Settings(timeout=0.1)
    made = Bedrock(MODEL, base_url=at(server), session=session, settings=short if how == "llm" else None)
    with pytest.raises(Timeout):
        api.chat(made, "x", settings=short if how == "call" else None)
    session.gate.set()
    answered(server, Turn(text="Hi"))
    assert api.chat(made, "x", settings=Settings(timeout=30)).text == "Hi"
    verify(server.requests[0], token=None)


async def test_a_loop_is_not_blocked(anyio_backend: str, server: Loopback) -> None:
    session, texts = Slow(), list[str]()
    made = Bedrock(MODEL, base_url=at(server), session=session)
    for _ in range(5):
        answered(server, Turn(text="Hi"))

    async def ask() -> None:
        texts.append((await made.achat("x")).text)

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(ask)
        await anyio.lowlevel.checkpoint()
        assert texts == []
        session.gate.set()
    assert texts == ["Hi"] * 5
    await made.aclose()


@pytest.mark.parametrize(
    ("program", "loaded"),
    [
        ("toolcast.Bedrock('m', region='us-east-1')", False),
        ("toolcast.ToolOrchestratingLLM(A, 'x', toolcast.Bedrock('m', region='r')).preview()", False),
        ("toolcast.Bedrock('m', region='r', api_key='k', network=N).chat('x')", False),
        ("toolcast.Bedrock('m', region='r', network=N).chat('x')", True),
    ],
)
def test_when_botocore_is_imported(program: str, loaded: bool) -> None:
    """With the first signature, and never for a key."""
    code = f"""
import sys, toolcast
from pydantic import BaseModel
from toolcast.testing import Recorded, ReplayNetwork
class A(BaseModel):
    a: str
N = ReplayNetwork(Recorded([{WIRE.whole(Turn(text="Hi"))!r}], headers={{"content-type": "application/json"}}))
{program}
print(any(name.partition(".")[0] in ("botocore", "boto3") for name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.stderr) == (str(loaded), "")


# -- credentials: what beats what


@pytest.mark.parametrize(
    ("options", "bearer"),
    [
        ({}, "of-the-environment"),
        ({"api_key": "mine"}, "mine"),
        ({"api_key": "mine", "profile": "p"}, "mine"),
        ({"profile": "p"}, None),
        ({"session": mock.Mock(region_name="us-east-1")}, None),
    ],
)
def test_what_is_passed_goes_before_the_environment(
    options: dict[str, Any], bearer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "of-the-environment")
    made = Bedrock(MODEL, **options)
    sent = ToolOrchestratingLLM(Album, "x", made).request()
    assert sent.headers.get("authorization") == (Secret(f"Bearer {bearer}") if bearer else None)
    assert (made.authentication is not None) is (bearer is None)


def test_no_credentials(monkeypatch: pytest.MonkeyPatch, api: API, server: Loopback) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    with pytest.raises(AuthFailed, match=r"no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK") as caught:
        api.chat(Bedrock(MODEL, base_url=at(server)), "x")
    assert (caught.value.provider, caught.value.model, server.requests) == ("bedrock", MODEL, [])


# -- regions


def url_of(made: Bedrock) -> str:
    return ToolOrchestratingLLM(Album, "x", made).request().url.partition("/model")[0]


def test_where_the_region_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text("[default]\nregion = r-default\n[profile p]\nregion = r-profile\n")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "r-2")

    def where(**options: Any) -> str:
        return url_of(Bedrock("m", **options)).removeprefix("https://bedrock-runtime.").removesuffix(".amazonaws.com")

    assert where(region="r-0", profile="p") == "r-0"
    assert where(session=mock.Mock(region_name="r-session")) == "r-session"
    assert where(profile="p") == "us-east-1"
    monkeypatch.delenv("AWS_REGION")
    assert where() == "r-2"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert (where(profile="p"), where()) == ("r-profile", "r-default")
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert where() == "r-profile"


def test_the_region_of_a_profile_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: Loopback, api: API
) -> None:
    (tmp_path / "config").write_text("[default]\nregion = us-east-1\n")
    monkeypatch.delenv("AWS_REGION")
    threads: list[bool] = []
    read = Bedrock._configured_region

    def reading(made: Bedrock) -> str | None:
        threads.append(threading.current_thread() is threading.main_thread())
        return read(made)

    monkeypatch.setattr(Bedrock, "_configured_region", reading)
    answered(server, Turn(text="Hi"))
    assert api.chat(Bedrock(MODEL, base_url=at(server)), "x").text == "Hi"
    verify(server.requests[0])
    assert threads == [not isinstance(api, AsyncAPI)]


def test_no_region(monkeypatch: pytest.MonkeyPatch, api: API, server: Loopback) -> None:
    monkeypatch.delenv("AWS_REGION")
    words = r"needs a region: pass region=, set AWS_REGION, or set a region in the profile"
    for made in (Bedrock(MODEL), Bedrock(MODEL, base_url=at(server))):
        with pytest.raises(UnsupportedLLMError, match=words):
            api.chat(made, "x")
    answered(server, Turn(text="Hi"))
    assert api.chat(Bedrock(MODEL, base_url=at(server), api_key="k"), "x").text == "Hi"  # none is needed


@pytest.mark.parametrize("options", [{"region": 5}, {"profile": b"p"}])
def test_arguments_of_another_type(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="expected str or None"):
        Bedrock("m", **options)
    with pytest.raises(TypeError, match="regoin"):
        Bedrock("m", regoin="x")  # type: ignore[call-arg]  # that is the test


# -- copies and pickles


def test_a_pickle_has_no_credentials_and_finds_them_again(server: Loopback, api: API) -> None:
    answered(server, Turn(text="Hi"))
    answered(server, Turn(text="Hi"))
    made = Bedrock(MODEL, base_url=at(server), region="us-east-1", profile=None, max_retries=7)
    assert api.chat(made, "x").text == "Hi"
    data = pickle.dumps(made)
    assert SECRET.encode() not in data and b"session-token" not in data
    again = pickle.loads(data)
    assert (again.region, again.retry_policy, again.model) == ("us-east-1", made.retry_policy, MODEL)
    assert api.chat(again, "x").text == "Hi"
    verify(server.requests[1])


def test_a_pickle_has_no_session() -> None:
    made = Bedrock(MODEL, session=Slow())
    assert client_of(made).passed_credentials == ("session=",)
    with pytest.raises(AuthFailed, match="left out: session="):
        pickle.loads(pickle.dumps(made)).chat("x")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_shares_the_look_up(copied: Callable[[Bedrock], Bedrock], server: Loopback) -> None:
    session = Slow()
    session.gate.set()
    made = Bedrock(MODEL, base_url=at(server), session=session)
    answered(server, Turn(text="Hi"))
    answered(server, Turn(text="Hi"))
    made.chat("x")
    session.gate.clear()  # another look-up would wait for ever
    again = copied(made)
    assert again.chat("x").text == "Hi"
    assert again.region is None and again.model == MODEL


def test_the_origin_of_requests_differs_by_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [Bedrock("m"), Bedrock("m", profile="p"), Bedrock("m", api_key="k"), Bedrock("m", auth=dict)]
    keys = {client_of(each).request_origin.key for each in made}
    monkeypatch.setenv("AWS_PROFILE", "q")
    assert len({*keys, client_of(Bedrock("m")).request_origin.key}) == 5
    assert client_of(made[1]).request_origin == client_of(Bedrock("m", profile="p")).request_origin


# -- models


def test_the_model_is_known_by_the_vendor_in_its_id() -> None:
    for prefix in ("", "us.", "eu.", "apac.", "global.", "us-gov.", "arn:aws:bedrock:us-east-1::foundation-model/"):
        metadata = Bedrock(f"{prefix}anthropic.claude-sonnet-4-5-20250929-v1:0").metadata
        assert (metadata.provider, metadata.context_window, metadata.capabilities.known) == ("bedrock", 200_000, True)
        assert Bedrock(f"{prefix}amazon.nova-pro-v1:0").metadata.context_window == 300_000
    for name in ("deepseek.v3.2", "qwen.qwen3-32b-v1:0", "zai.glm-4.7"):
        assert Bedrock(name).metadata.model_name == name
    assert not Bedrock(ARN).metadata.capabilities.known
    corrected = Bedrock(ARN, capabilities=Capabilities(forced_tools=False, context_window=5))
    assert corrected.metadata.context_window == 5


def test_the_price_list_has_its_models() -> None:
    network = ReplayNetwork(Recorded([WIRE.whole(Turn(text="Hi"))], headers={"content-type": "application/json"}))
    made = Bedrock("amazon.nova-pro-v1:0", api_key="k", network=network)
    assert made.chat("x").usage.cost is not None


@pytest.mark.parametrize(
    ("model", "settings", "mode"),
    [
        (MODEL, Settings(), "tool_call"),
        (MODEL, Settings(thinking=True), "json_schema"),
        ("global.anthropic.claude-opus-5-5", Settings(), "json_schema"),
        ("meta.llama3-3-70b-instruct-v1:0", Settings(), "tool_call"),
        ("deepseek.r1-v1:0", Settings(), "prompted"),
        (ARN, Settings(), "tool_call"),
    ],
)
def test_the_output_mode_of_a_model(model: str, settings: Settings, mode: str) -> None:
    made = Bedrock(model, settings=settings)
    assert ToolOrchestratingLLM(Album, "x", made).preview().mode == mode


def test_a_schema_that_cannot_be_held_is_a_tool() -> None:
    made = Bedrock("global.anthropic.claude-opus-5-5")
    assert ToolOrchestratingLLM(dict[str, int], "x", made).preview().mode == "tool_call"


def test_by_its_name() -> None:
    made = llm("bedrock:amazon.nova-pro-v1:0", settings=Settings(temperature=0))
    assert isinstance(made, Bedrock) and made.model == "amazon.nova-pro-v1:0"
    assert ToolOrchestratingLLM(Album, "x", "bedrock:m").request().url.startswith("https://bedrock-runtime.us-east-1.")
    assert repr(made) == "Bedrock('amazon.nova-pro-v1:0')"


def test_what_it_does_not_take_is_not_sent(server: Loopback, api: API) -> None:
    made = Bedrock(MODEL, base_url=at(server))
    with pytest.raises(BadRequest, match="bedrock cannot take ImagePart"):
        api.chat(made, [user("x", ImagePart(url="https://host/a.png"))])
    assert server.requests == []


def test_a_cache_point_is_sent(server: Loopback, api: API) -> None:
    answered(server, Turn(text="Hi"))
    point = ThinkingPart(opaque={"bedrock": {"cachePoint": {"type": "default"}}})
    assert api.chat(Bedrock(MODEL, base_url=at(server)), [user("Long text", point, "Question")]).text == "Hi"
    content = json.loads(server.requests[0].body)["messages"][0]["content"]
    assert content[1] == {"cachePoint": {"type": "default"}}
