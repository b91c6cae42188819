"""Tokens of Google Cloud, as google-auth finds and refreshes them, over the network of the LLM."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import anyio
import pytest
from google.auth import exceptions
from google.oauth2.credentials import Credentials as UserCredentials
from google.oauth2.service_account import Credentials as ServiceCredentials

from support.google_cloud import GoogleCloud, reply, service_account, user, user_login, workload
from support.loopback import whole
from toolcast.errors import AuthFailed, BadRequest, ConnectFailed, LLMError, Timeout
from toolcast.llms.credentials import google_credentials
from toolcast.llms.credentials.google_credentials import GoogleTokens
from toolcast.transport.aiohttp_network import AiohttpNetwork
from toolcast.transport.httpx_network import HttpxNetwork
from toolcast.transport.network import AsyncBackend, IOBackend, Network, SyncBackend
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

REQUEST = HTTPRequest("POST", "https://aiplatform.googleapis.com/v1/x", {"accept": "x/y"}, b"{}", ("note",))
NAMES = ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT")


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment without credentials of Google Cloud, and no machine there."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setattr(
        "google.auth._default._get_gce_credentials", lambda request, quota_project_id=None: (None, None)
    )
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda seconds: None)


@pytest.fixture
def cloud() -> Iterator[GoogleCloud]:
    with GoogleCloud() as cloud:
        yield cloud


@pytest.fixture
def network() -> Iterator[Network]:
    network = HttpxNetwork()
    yield network
    network.close()


class Sync:
    """The sync I/O of a call, without a network."""

    def __new__(cls) -> IOBackend:  # type: ignore[misc]  # a function with the name of what it returns
        return SyncBackend(mock.Mock())


def drive(coroutine: Any) -> Any:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it was suspended")


def tokens(network: Any, credentials: Any = None, **options: Any) -> GoogleTokens:
    return GoogleTokens(lambda: network, credentials, **options)


def token_of(made: HTTPRequest) -> str:
    value = made.headers["authorization"]
    assert isinstance(value, Secret)
    return value.reveal()


def write(monkeypatch: pytest.MonkeyPatch, path: Path, content: Any) -> None:
    path.write_text(json.dumps(content))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))


# -- the kinds of credentials


def test_the_key_of_a_service_account(
    cloud: GoogleCloud, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(monkeypatch, tmp_path / "key.json", service_account(cloud))
    found = tokens(network)
    for _ in range(3):
        made = drive(found.authorize(REQUEST, Sync()))
        assert token_of(made) == "Bearer token-1"
    assert (made.body, made.notes, made.headers["accept"]) == (b"{}", ("note",), "x/y")
    assert drive(found.project(Sync())) == "key-project"
    assert cloud.paths() == ["/token"]
    assert b"assertion=" in cloud.requests[0].body
    assert "token-1" not in repr(vars(found)) and "PRIVATE KEY" not in repr(vars(found)) and "token-1" not in repr(made)


def test_a_login_of_a_user(
    cloud: GoogleCloud, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is where gcloud writes it; the project that pays is sent with the token."""
    (tmp_path / "gcloud").mkdir()
    (tmp_path / "gcloud" / "application_default_credentials.json").write_text(json.dumps(user_login()))
    monkeypatch.setattr("google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT", f"{cloud.root}/token")
    monkeypatch.setattr("google.auth._cloud_sdk.get_project_id", lambda: "gcloud-project")
    found = tokens(network)
    made = drive(found.authorize(REQUEST, Sync()))
    assert (token_of(made), made.headers["x-goog-user-project"]) == ("Bearer token-1", "paying-project")
    assert drive(found.project(Sync())) == "gcloud-project"
    assert b"refresh_token=refresh-cAnArY" in cloud.requests[0].body


def test_workload_identity(
    cloud: GoogleCloud, network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(monkeypatch, tmp_path / "workload.json", workload(cloud, tmp_path))
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "env-project")
    found = tokens(network)
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer token-1"
    assert drive(found.project(Sync())) == "env-project"
    assert cloud.paths() == ["/sts"]
    assert b"subject_token=subject-cAnArY" in cloud.requests[0].body


def test_the_metadata_server_of_a_machine(
    cloud: GoogleCloud, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nonexistent")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("GCE_METADATA_IP", f"127.0.0.1:{cloud.port}")
    monkeypatch.setattr("google.auth.compute_engine._metadata._GCE_METADATA_HOST", f"127.0.0.1:{cloud.port}")
    found = tokens(network)
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer token-1"
    assert drive(found.project(Sync())) == "machine-project"
    assert any(path.startswith("/computeMetadata/v1/instance/service-accounts/default/token") for path in cloud.paths())


def test_credentials_that_are_passed(cloud: GoogleCloud, network: Network) -> None:
    """Those of a service account get the scope that they need."""
    given = ServiceCredentials.from_service_account_info(service_account(cloud))  # type: ignore[no-untyped-call]  # google-auth is untyped
    found = tokens(network, given)
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer token-1"
    assert drive(found.project(Sync())) == "key-project"
    user = tokens(network, UserCredentials("mine"))  # type: ignore[no-untyped-call]  # google-auth is untyped
    assert token_of(drive(user.authorize(REQUEST, Sync()))) == "Bearer mine"
    assert drive(user.project(Sync())) is None
    assert cloud.issued == 1


# -- one look-up for all, and refreshes


class Fake:
    """Credentials whose refresh does what a test wants, and counts."""

    def __init__(self, *results: Any, gate: threading.Event | None = None) -> None:
        self.token: str | None = None
        self.expiry: datetime | None = None
        self.results = list(results)
        self.gate = gate
        self.threads: list[str] = []

    def refresh(self, request: Any) -> None:
        self.threads.append(threading.current_thread().name)
        if self.gate is not None:
            assert self.gate.wait(20)
        result = self.results.pop(0) if self.results else 3600
        if isinstance(result, BaseException):
            raise result
        self.token = f"t{len(self.threads)}"
        self.expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=result)

    def apply(self, headers: dict[str, str]) -> None:
        headers["Authorization"] = f"Bearer {self.token}"


async def test_many_calls_wait_for_one_look_up_and_the_loop_goes_on(anyio_backend: str) -> None:
    gate = threading.Event()
    credentials = Fake(gate=gate)
    found = tokens(mock.Mock(), credentials)
    backend = AsyncBackend(mock.Mock())
    seen: list[str] = []

    async def call() -> None:
        seen.append(token_of(await found.authorize(REQUEST, backend)))

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        gate.set()
    assert (seen, credentials.threads) == (["Bearer t1"] * 50, ["toolcast-google"])


def test_a_token_is_refreshed_before_it_expires() -> None:
    credentials = Fake(400, 3600)
    found = tokens(mock.Mock(), credentials)
    assert [token_of(drive(found.authorize(REQUEST, Sync()))) for _ in range(2)] == ["Bearer t1"] * 2
    assert credentials.expiry is not None
    credentials.expiry -= timedelta(seconds=150)  # 250 seconds are left
    assert [token_of(drive(found.authorize(REQUEST, Sync()))) for _ in range(2)] == ["Bearer t2"] * 2
    assert credentials.threads == ["toolcast-google"] * 2


def test_a_token_that_is_still_valid_is_used_if_it_cannot_be_refreshed() -> None:
    credentials = Fake(100, exceptions.TransportError("down"), exceptions.TransportError("down"))  # type: ignore[no-untyped-call]  # google-auth is untyped
    found = tokens(mock.Mock(), credentials)
    assert [token_of(drive(found.authorize(REQUEST, Sync()))) for _ in range(2)] == ["Bearer t1"] * 2
    assert credentials.expiry is not None
    credentials.expiry -= timedelta(seconds=200)
    with pytest.raises(ConnectFailed, match=r"no token of Google Cloud: TransportError: down\. Nothing was sent"):
        drive(found.authorize(REQUEST, Sync()))
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer t4"


def test_a_token_that_the_service_refused_is_replaced_once() -> None:
    credentials = Fake()
    found = tokens(mock.Mock(), credentials)
    assert not found.renew(REQUEST)
    first = drive(found.authorize(REQUEST, Sync()))
    assert not found.renew(REQUEST)  # without a token
    assert found.renew(first) and found.renew(first)
    second = drive(found.authorize(REQUEST, Sync()))
    assert (token_of(first), token_of(second)) == ("Bearer t1", "Bearer t2")
    assert found.renew(first)  # by a call that was slower: there is another token already
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer t2"
    assert "t1" not in repr(vars(found))


def test_a_refused_token_is_not_used_although_it_cannot_be_refreshed() -> None:
    credentials = Fake(3600, exceptions.RefreshError("revoked"))  # type: ignore[no-untyped-call]  # google-auth is untyped
    found = tokens(mock.Mock(), credentials)
    found.renew(drive(found.authorize(REQUEST, Sync())))
    with pytest.raises(AuthFailed, match=r"RefreshError: revoked\. Check the credentials, or log in again"):
        drive(found.authorize(REQUEST, Sync()))


def test_a_look_up_that_takes_too_long() -> None:
    gate = threading.Event()
    found = tokens(mock.Mock(), Fake(gate=gate), seconds=0.05)
    with pytest.raises(Timeout, match=r"no token of Google Cloud within 0\.05 s") as caught:
        drive(found.authorize(REQUEST, Sync()))
    assert caught.value.phase == "connect"
    with pytest.raises(Timeout) as caught:
        drive(found.project(Sync(), 0.01))
    assert caught.value.phase == "total"
    gate.set()


# -- what goes wrong


def test_no_credentials() -> None:
    found = tokens(mock.Mock())
    for ask in (found.authorize(REQUEST, Sync()), found.project(Sync())):
        with pytest.raises(
            AuthFailed, match=r"no credentials of Google Cloud: .*gcloud auth application-default login"
        ):
            drive(ask)


def test_credentials_without_a_token() -> None:
    credentials = Fake()
    credentials.refresh = lambda request: None  # type: ignore[method-assign]  # one that finds nothing
    with pytest.raises(AuthFailed, match="have no token"):
        drive(tokens(mock.Mock(), credentials).authorize(REQUEST, Sync()))


@pytest.mark.parametrize(
    ("failure", "kind", "text"),
    [
        (reply({"error": "invalid_grant", "error_description": "Account not found"}, 400), AuthFailed, "invalid_grant"),
        (whole(b"", 503), ConnectFailed, "RefreshError"),
    ],
)
def test_a_service_of_tokens_that_refuses(
    failure: bytes, kind: type[LLMError], text: str, cloud: GoogleCloud, network: Network
) -> None:
    cloud.failures = [failure] * 8
    given = ServiceCredentials.from_service_account_info(service_account(cloud))  # type: ignore[no-untyped-call]  # google-auth is untyped
    found = tokens(network, given)
    with pytest.raises(kind, match=text):
        drive(found.authorize(REQUEST, Sync()))
    cloud.failures = []
    assert token_of(drive(found.authorize(REQUEST, Sync()))) == "Bearer token-1"


def test_a_service_of_tokens_that_cannot_be_reached(network: Network) -> None:
    """The error names the address, and no credential."""
    with GoogleCloud() as gone:
        given = user(gone)
    with pytest.raises(ConnectFailed, match="no token of Google Cloud") as caught:
        drive(tokens(network, given).authorize(REQUEST, Sync()))
    assert caught.value.retryable
    assert "cAnArY" not in str(caught.value)
    assert caught.value.__cause__ is None and caught.value.__context__ is None


def test_a_network_without_a_sync_api(cloud: GoogleCloud) -> None:
    """Look-ups go through a network of their own then; an address that no network takes stays an error."""
    assert token_of(drive(tokens(AiohttpNetwork(), user(cloud)).authorize(REQUEST, Sync()))) == "Bearer token-1"
    network = HttpxNetwork()
    with mock.patch.object(network, "open", side_effect=BadRequest("no")), pytest.raises(ConnectFailed, match="no"):
        drive(tokens(network, user(cloud)).authorize(REQUEST, Sync()))


def test_nothing_of_a_credential_is_logged(
    cloud: GoogleCloud, network: Network, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        drive(tokens(network, user(cloud)).authorize(REQUEST, Sync()))
    assert "cAnArY" not in caplog.text and "token-1" not in caplog.text


def test_without_google_auth(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    google_credentials._google_auth.cache_clear()
    monkeypatch.setattr(google_credentials, "import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[google\]', or pass auth="):
        drive(tokens(mock.Mock()).authorize(REQUEST, Sync()))
    google_credentials._google_auth.cache_clear()
