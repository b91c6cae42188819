"""Claude and Gemini on Vertex AI: addresses, tokens, and calls over HTTP on a double of Google Cloud."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.albums import SEA, Album
from support.google_cloud import JSON, GoogleCloud, reply, service_account, user
from support.loopback import whole
from support.sync_and_async import API, AsyncAPI
from support.turns import PROTOCOLS, Turn
from toolcast import (
    AnthropicVertex,
    FunctionCallingLLM,
    Google,
    Hooks,
    RemoteMCP,
    Settings,
    ToolOrchestratingLLM,
    WebSearch,
    llm,
)
from toolcast.errors import AuthFailed, BadRequest, Timeout, UnsupportedLLMError
from toolcast.llms.client import client_of
from toolcast.llms.vendors.google_cloud import vertex_url
from toolcast.values.credentials import Secret
from toolcast.values.hooks import CallInfo, RequestInfo
from toolcast.values.settings import Timeouts

NAMES = (
    *("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT"),
    *("GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID", "ANTHROPIC_VERTEX_BASE_URL"),
    *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_VERTEX_BASE_URL", "GOOGLE_API_KEY"),
    *("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "CI"),
)
CLAUDE, GEMINI = "claude-sonnet-4-5@20250929", "gemini-2.5-flash"
WHERE = {"claude": f"publishers/anthropic/models/{CLAUDE}:", "gemini": f"publishers/google/models/{GEMINI}:"}
METHODS = {"claude": ("rawPredict", "streamRawPredict"), "gemini": ("generateContent", "streamGenerateContent?alt=sse")}
WIRES = {"claude": PROTOCOLS["anthropic"], "gemini": PROTOCOLS["google"]}
TURN = Turn("Hm.", "So.", (("call00001", "Album", SEA.model_dump_json()),))
each = pytest.mark.parametrize("name", WIRES)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without Google Cloud, and no machine there."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setattr(
        "google.auth._default._get_gce_credentials", lambda request, quota_project_id=None: (None, None)
    )


@pytest.fixture
def cloud() -> Iterator[GoogleCloud]:
    with GoogleCloud() as cloud:
        yield cloud


def made(name: str, cloud: GoogleCloud | None, **options: Any) -> Any:
    """The LLM on Vertex AI; with `cloud`, on the double, with credentials for it."""
    if cloud is not None:
        options = {"credentials": user(cloud), "base_url": f"{cloud.root}/v1", "project": "my-project", **options}
    if name == "claude":
        return AnthropicVertex(CLAUDE, **{"region": "europe-west1", **options})
    return Google(GEMINI, **{"vertex": True, "location": "europe-west1", **options})


def answer(cloud: GoogleCloud, name: str, turn: Turn = TURN) -> None:
    cloud.answer(whole(WIRES[name].whole(turn), 200, JSON))


def stream(cloud: GoogleCloud, name: str, turn: Turn = TURN) -> None:
    cloud.answer(whole(b"".join(WIRES[name].stream(turn)), 200, "content-type: text/event-stream"))


# -- calls


@each
def test_calls_over_http(name: str, cloud: GoogleCloud, api: API) -> None:
    answer(cloud, name)
    stream(cloud, name)
    with made(name, cloud) as vertex:
        make = ToolOrchestratingLLM(Album, "About {topic}", vertex)
        result = api.run(make, topic="x")
        assert (result.output, result.usage.total_tokens) == (SEA, 13)
        assert api.stream(make, topic="x").final == SEA
    version = "v1" if name == "claude" else "v1/v1beta1"
    place = f"/{version}/projects/my-project/locations/europe-west1/{WHERE[name]}"
    token, *sent = cloud.requests
    assert token.line == "POST /token HTTP/1.1"
    assert [each.line for each in sent] == [f"POST {place}{method} HTTP/1.1" for method in METHODS[name]]
    assert {each.headers["authorization"] for each in sent} == {"Bearer token-1"}
    for request, streamed in zip(sent, (False, True), strict=True):
        body = json.loads(request.body)
        if name == "claude":
            assert body["anthropic_version"] == "vertex-2023-10-16"
            assert body["stream"] is streamed
            assert body["tool_choice"] == {"type": "tool", "name": "Album", "disable_parallel_tool_use": True}
            assert "model" not in body
        assert "anthropic-version" not in request.headers
        assert "x-goog-api-key" not in request.headers


@each
def test_the_default_credentials_and_their_project(
    name: str, cloud: GoogleCloud, api: API, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.json").write_text(json.dumps(service_account(cloud)))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    answer(cloud, name)
    vertex = made(name, None, base_url=f"{cloud.root}/v1")
    assert api.call(ToolOrchestratingLLM(Album, "x", vertex)) == SEA
    assert "/projects/key-project/locations/" in cloud.requests[-1].line
    assert cloud.issued == 1


@each
def test_a_preview_looks_the_project_up_too(
    name: str, cloud: GoogleCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key.json").write_text(json.dumps(service_account(cloud)))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "key.json"))
    request = ToolOrchestratingLLM(Album, "x", made(name, None)).request()
    assert "/projects/key-project/" in request.url
    assert "authorization" not in request.headers


@each
def test_a_token_that_was_revoked_is_replaced_once(name: str, cloud: GoogleCloud, api: API) -> None:
    """Without a retry of the policy: the request was refused for its token alone."""
    vertex = made(name, cloud, max_retries=0)
    for _ in range(2):
        answer(cloud, name, Turn(text="Hello"))
    assert api.chat(vertex, "x").text == "Hello"
    cloud.revoke()
    response = api.chat(vertex, "x")
    assert response.text == "Hello"
    assert [request.headers["authorization"] for request in cloud.requests if "models" in request.line] == [
        *("Bearer token-1", "Bearer token-1", "Bearer token-3"),
    ]


@each
def test_a_token_that_was_revoked_is_replaced_for_other_requests_too(name: str, cloud: GoogleCloud, api: API) -> None:
    vertex = made(name, cloud, max_retries=0)
    for _ in range(2):
        cloud.answer(reply({"input_tokens": 7, "totalTokens": 7}))
    assert api.method(vertex, "count_tokens", "x").tokens == 7
    cloud.revoke()
    assert api.method(vertex, "count_tokens", "x").tokens == 7
    assert cloud.issued == 3
    cloud._token = lambda: reply({"access_token": "wrong", "expires_in": 3600})  # type: ignore[method-assign]  # of the double
    cloud.revoke()
    with pytest.raises(AuthFailed):
        api.method(vertex, "count_tokens", "x")


@each
def test_a_second_refusal_is_an_error(name: str, cloud: GoogleCloud, api: API) -> None:
    cloud.issued, before = 5, 0
    vertex = made(name, cloud, max_retries=2)
    cloud._token = lambda: reply({"access_token": "wrong", "expires_in": 3600})  # type: ignore[method-assign]  # of the double
    with pytest.raises(AuthFailed) as caught:
        api.chat(vertex, "x")
    assert caught.value.status == 401
    assert "GOOGLE_APPLICATION_CREDENTIALS" in str(caught.value)
    assert len(cloud.paths("/v1")) == before + 2
    assert "wrong" not in str(caught.value)


def test_aiohttp_has_a_network_of_its_own_for_tokens(cloud: GoogleCloud) -> None:
    answer(cloud, "claude")
    vertex = made("claude", cloud, network="aiohttp")
    assert AsyncAPI("asyncio").call(ToolOrchestratingLLM(Album, "x", vertex)) == SEA


@each
def test_the_deadline_of_a_call_includes_the_look_up(name: str, cloud: GoogleCloud, api: API) -> None:
    vertex = made(name, cloud, project=None, max_retries=0)
    vertex._credentials.refresh = _never
    if name == "gemini":
        vertex.project = "p"
    with pytest.raises(Timeout):
        api.chat(vertex, "x", settings=Settings(timeout=Timeouts(total=0.05)))
    assert cloud.requests == []


def _never(request: Any) -> None:
    import threading

    threading.Event().wait(2)


@each
def test_tokens_of_ones_own(name: str, cloud: GoogleCloud, api: API) -> None:
    """`auth`, or a header: google-auth is not needed."""
    cloud.any_token = True
    own: list[dict[str, Any]] = [
        {"auth": lambda: {"Authorization": "Bearer mine"}},
        {"headers": {"Authorization": "Bearer mine"}},
    ]
    if name == "claude":
        own.append({"api_key": "mine"})
    for options in own:
        answer(cloud, name, Turn(text="Hello"))
        vertex = made(name, cloud, credentials=None, **options)
        assert api.chat(vertex, "x").text == "Hello"
        assert cloud.requests[-1].headers["authorization"] == "Bearer mine"
    assert cloud.issued == 0


def test_a_key_of_express_mode(cloud: GoogleCloud, api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.any_token = True
    answer(cloud, "gemini", Turn(text="Hello"))
    vertex = Google(GEMINI, vertex=True, api_key="k", base_url=cloud.root)
    assert api.chat(vertex, "x").text == "Hello"
    assert cloud.requests[0].line.startswith(f"POST /v1beta1/publishers/google/models/{GEMINI}:generateContent ")
    assert cloud.requests[0].headers["x-goog-api-key"] == "k"
    monkeypatch.setenv("GOOGLE_API_KEY", "k2")
    express = Google(GEMINI, vertex=True)
    request = ToolOrchestratingLLM(Album, "x", express).request()
    assert request.url.startswith("https://aiplatform.googleapis.com/v1beta1/publishers/google/models/")
    assert request.headers["x-goog-api-key"] == Secret("k2")
    assert express.authentication is None
    with_project = Google(GEMINI, vertex=True, project="p")
    assert with_project.authentication is not None and "/projects/p/locations/global/" in with_project.adapter.base_url


# -- addresses


@pytest.mark.parametrize(
    ("location", "host"),
    [
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("eu", "aiplatform.eu.rep.googleapis.com"),
        ("us-east5", "us-east5-aiplatform.googleapis.com"),
    ],
)
def test_locations(location: str, host: str) -> None:
    """As Anthropic's and Google's SDKs have them."""
    assert vertex_url(location, "v1") == f"https://{host}/v1"
    claude = AnthropicVertex("claude-opus-4-6", region=location, project="a.com:p")
    assert claude.region == claude.location == location
    where = f"projects/a.com:p/locations/{location}/publishers"
    assert claude.adapter.base_url == f"https://{host}/v1/{where}/anthropic/models"
    assert (
        Google("g", project="a.com:p", location=location).adapter.base_url == f"https://{host}/v1beta1/{where}/google"
    )


@pytest.mark.parametrize("location", ["", "US", "a/b", "a.b", "a:b"])
def test_locations_that_are_none(location: str) -> None:
    with pytest.raises(BadRequest, match="no location of Google Cloud"):
        vertex_url(location, "v1")


VARIABLES: list[tuple[dict[str, str], Callable[[], Any], str]] = [
    (
        {"CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "p", "GOOGLE_CLOUD_PROJECT": "q"},
        lambda: AnthropicVertex("m"),
        "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5/publishers/anthropic/models",
    ),
    (
        {"GOOGLE_CLOUD_LOCATION": "eu", "GOOGLE_CLOUD_PROJECT": "q", "ANTHROPIC_VERTEX_BASE_URL": "https://g/v1/"},
        lambda: llm("anthropic-vertex:m"),
        "https://g/v1/projects/q/locations/eu/publishers/anthropic/models",
    ),
    (
        {"GOOGLE_GENAI_USE_VERTEXAI": "True", "GOOGLE_CLOUD_LOCATION": "eu", "GOOGLE_CLOUD_PROJECT": "q"},
        lambda: Google("m"),
        "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/q/locations/eu/publishers/google",
    ),
    (
        {"GOOGLE_GENAI_USE_ENTERPRISE": "0", "GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "q"},
        lambda: Google("m", api_key="k"),
        "https://generativelanguage.googleapis.com/v1beta",
    ),
    (
        {"GOOGLE_CLOUD_PROJECT": "q", "GOOGLE_VERTEX_BASE_URL": "https://g"},
        lambda: llm("google-vertex:m"),
        "https://g/v1beta1/projects/q/locations/global/publishers/google",
    ),
    (
        {"GOOGLE_GENAI_USE_VERTEXAI": "1"},
        lambda: Google("m", api_key="k", base_url="https://gateway"),
        "https://gateway/v1beta",
    ),
    (
        {"GOOGLE_CLOUD_PROJECT": "q"},
        lambda: Google("m", vertex=True, api_version="v1", base_url="https://g/v1/projects/p/locations/l/publishers/google"),
        "https://g/v1/projects/p/locations/l/publishers/google",
    ),
    ({"GOOGLE_CLOUD_PROJECT": "q"}, lambda: Google("m", api_key="k"), "https://generativelanguage.googleapis.com/v1beta"),
    (
        {},
        lambda: Google("m", vertex=True, project="p", api_version="/v1/"),
        "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("variables", "make", "url"), VARIABLES)
def test_variables_of_the_environment(
    variables: dict[str, str], make: Callable[[], Any], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert make().adapter.base_url == url


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("m", "v1beta1/projects/p/locations/l/publishers/google/models/m"),
        ("publishers/meta/models/llama-4", "v1beta1/projects/p/locations/l/publishers/meta/models/llama-4"),
        ("endpoints/123", "v1beta1/projects/p/locations/l/endpoints/123"),
        ("projects/q/locations/k/endpoints/5", "v1beta1/projects/q/locations/k/endpoints/5"),
    ],
)
def test_models_of_other_publishers_and_endpoints(model: str, path: str, cloud: GoogleCloud, api: API) -> None:
    vertex = Google(model, project="p", location="l", base_url=cloud.root, credentials=user(cloud))
    answer(cloud, "gemini", Turn(text="Hello"))
    cloud.answer(reply({"totalTokens": 7}))
    assert api.chat(vertex, "x").text == "Hello"
    assert api.method(vertex, "count_tokens", "x").tokens == 7
    sent = [line for line in (request.line for request in cloud.requests) if "token" not in line.partition(":")[0]]
    assert sent == [f"POST /{path}:generateContent HTTP/1.1", f"POST /{path}:countTokens HTTP/1.1"]


def test_tokens_are_counted_by_a_model_of_their_own(cloud: GoogleCloud, api: API) -> None:
    vertex = made("claude", cloud)
    cloud.answer(reply({"input_tokens": 14}))
    assert api.method(vertex, "count_tokens", "Hello").tokens == 14
    request = cloud.requests[-1]
    place = "/v1/projects/my-project/locations/europe-west1/publishers/anthropic/models"
    assert request.line == f"POST {place}/count-tokens:rawPredict HTTP/1.1"
    assert json.loads(request.body) == {
        "model": CLAUDE,
        "anthropic_version": "vertex-2023-10-16",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }


# -- what is missing, and what is not there


def test_a_region_and_a_project_are_needed() -> None:
    with pytest.raises(
        UnsupportedLLMError, match=r"AnthropicVertex\('m'\) needs a region: pass region=.*CLOUD_ML_REGION"
    ):
        AnthropicVertex("m", project="p").chat("x")
    own = {"auth": lambda: {"authorization": "Bearer x"}}
    with pytest.raises(UnsupportedLLMError, match=r"needs a project of Google Cloud.*ANTHROPIC_VERTEX_PROJECT_ID or"):
        AnthropicVertex("m", region="eu", **own).chat("x")
    with pytest.raises(UnsupportedLLMError, match="pass project=, or set GOOGLE_CLOUD_PROJECT"):
        Google("m", location="eu", **own).chat("x")
    with pytest.raises(AuthFailed, match="no credentials of Google Cloud"):
        Google("m", vertex=True).chat("x")
    with pytest.raises(TypeError, match="project: expected str or None, got int"):
        Google("m", project=5)  # type: ignore[arg-type]  # a mistake


def test_the_tools_that_vertex_ai_runs(cloud: GoogleCloud) -> None:
    claude = made("claude", cloud)
    make = ToolOrchestratingLLM(Album, "x", claude, tools=[WebSearch()])
    assert {"type": "web_search_20250305", "name": "web_search"} in make.preview().body["tools"]
    with pytest.raises(BadRequest, match="does not run"):
        make.with_(tools=[RemoteMCP("a", "https://host/mcp", require_approval="never")]).preview()


def test_settings_and_capabilities(cloud: GoogleCloud) -> None:
    claude = made("claude", cloud)
    assert claude.metadata.provider == "anthropic-vertex"
    assert (claude.metadata.context_window, claude.metadata.capabilities.max_output) == (200_000, 64_000)
    assert claude.metadata.capabilities.json_schema is None
    assert ToolOrchestratingLLM(
        Album, "x", AnthropicVertex("claude-opus-5-5", region="eu", project="p")
    ).preview().mode == ("tool_call")
    body = ToolOrchestratingLLM(Album, "x", claude, mode="json_schema").preview().body
    assert body["output_config"]["format"]["type"] == "json_schema"
    request = ToolOrchestratingLLM(Album, "x", claude, settings=Settings(service_tier="auto")).request()
    assert "service_tier" not in json.loads(request.body) and request.notes == ("service_tier",)
    assert claude.adapter.batches() is None and claude.adapter.files() is None and claude.adapter.embeddings() is None
    gemini = made("gemini", cloud)
    assert gemini.adapter.batches() is None and gemini.adapter.files() is None


# -- credentials stay here


@each
def test_pickles_and_copies(name: str, cloud: GoogleCloud, api: API) -> None:
    vertex = made(name, cloud)
    assert client_of(vertex).passed_credentials == ("credentials=",)
    answer(cloud, name, Turn(text="Hello"))
    assert api.chat(vertex, "x").text == "Hello"
    data = pickle.dumps(vertex)
    assert b"token-1" not in data and b"cAnArY" not in data
    again = pickle.loads(data)
    assert (again.project, again.location) == ("my-project", "europe-west1")
    with pytest.raises(AuthFailed, match="left out: credentials="):
        api.chat(again, "x")
    answer(cloud, name, Turn(text="Hello"))
    copied = copy.deepcopy(vertex)
    assert api.chat(copied, "x").text == "Hello"
    plain: FunctionCallingLLM = pickle.loads(pickle.dumps(made(name, None, project="p", credentials=None)))
    assert isinstance(plain, (AnthropicVertex, Google)) and "/projects/p/" in plain.adapter.base_url


@each
def test_no_text_contains_a_token(name: str, cloud: GoogleCloud, api: API, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Any] = []

    class Watching(Hooks):
        def request(self, call: CallInfo, request: RequestInfo) -> None:
            seen.append((request, request.http, request.url))

    vertex = made(name, cloud, hooks=Watching(), max_retries=0)
    cloud.answer(reply({"error": {"message": "bad token-1 and refresh-cAnArY", "type": "invalid"}}, 400))
    with caplog.at_level("DEBUG"), pytest.raises(BadRequest) as caught:
        api.chat(vertex, "x")
    texts = [repr(caught.value), str(caught.value), caplog.text, repr(vertex), repr(vars(vertex)), repr(seen)]
    assert [text for text in texts if "token-1" in text] == []
    assert seen
    origin = client_of(vertex).request_origin
    assert (
        "token-1" not in repr(origin)
        and origin == client_of(made(name, cloud, credentials=vertex._credentials)).request_origin
    )


def test_replays_need_no_credentials(tmp_path: Path) -> None:
    """A double that answers without a network gets no token."""
    from toolcast.testing import Recorded, ReplayNetwork

    network = ReplayNetwork(
        Recorded([WIRES["claude"].whole(Turn(text="Hello"))], headers={"content-type": "application/json"})
    )
    vertex = made("claude", None, project="p", auth=lambda: {"authorization": "Bearer x"}, network=network)
    assert vertex.chat("x").text == "Hello"
