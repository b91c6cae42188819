"""A double of the services of Google Cloud on the loopback interface: tokens, the metadata server, and Vertex AI.

Each token it issues is another one, `token-1`, `token-2`, ...; requests to any other path are answered from the queue
of `Loopback`, if their token is the newest one, and else with status 401.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2.credentials import Credentials

from support.loopback import Loopback, Piece, Request, whole

JSON = "content-type: application/json"


def reply(content: Any, status: int = 200, *headers: str) -> bytes:
    """A complete answer with a JSON body."""
    return whole(json.dumps(content).encode(), status, JSON, *headers)


class GoogleCloud(Loopback):
    """The double.

    Attributes:
        lasts: The seconds for which a token is valid.
        failures: Answers to the next requests for tokens.
        issued: The number of tokens so far.
        machine: The metadata server answers.
        any_token: Requests are answered whatever their token is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.lasts = 3600
        self.failures: list[bytes] = []
        self.issued = 0
        self.machine = True
        self.any_token = False

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self, *starts: str) -> list[str]:
        """The paths of the requests so far, that begin so."""
        return [path for path in (each.line.split(" ")[1] for each in self.requests) if path.startswith(starts or "/")]

    def revoke(self) -> None:
        """Accept no token but the next one."""
        self.issued += 1

    def _pieces(self, request: Request) -> tuple[Piece, ...]:
        path = request.line.split(" ")[1]
        if path in ("/token", "/sts"):
            return (self._token(),)
        if request.headers.get("metadata-flavor") == "Google":
            return (self._metadata(path),)
        if self.any_token or request.headers.get("authorization") == f"Bearer token-{self.issued}":
            return super()._pieces(request)
        return (reply({"error": {"code": 401, "message": "no such token", "status": "UNAUTHENTICATED"}}, 401),)

    def _token(self) -> bytes:
        if self.failures:
            return self.failures.pop(0)
        self.issued += 1
        found = {"access_token": f"token-{self.issued}", "expires_in": self.lasts, "token_type": "Bearer"}
        return reply(found | {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"})

    def _metadata(self, path: str) -> bytes:
        """What the metadata server of a machine says."""
        flavor = "metadata-flavor: Google"
        if not self.machine:
            return whole(b"", 404)
        if path.endswith("/project/project-id"):
            return whole(b"machine-project", 200, flavor, "content-type: application/text")
        if "/token" in path:
            return self._token().replace(b"\r\n", f"\r\n{flavor}\r\n".encode(), 1)
        if "universe" in path:
            return whole(b"googleapis.com", 200, flavor, "content-type: application/text")
        if "service-accounts" in path:
            return reply({"email": "me@machine", "scopes": ["a"], "aliases": ["default"]}, 200, flavor)
        return whole(b"computeMetadata/", 200, flavor, "content-type: application/text")


@cache
def _private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def service_account(cloud: GoogleCloud) -> dict[str, str]:
    """The content of the file with the key of a service account."""
    return {
        "type": "service_account",
        "project_id": "key-project",
        "private_key_id": "1",
        "private_key": _private_key(),
        "client_email": "me@key-project.iam.gserviceaccount.com",
        "token_uri": f"{cloud.root}/token",
    }


def user(cloud: GoogleCloud) -> Credentials:
    """The credentials of a user."""
    secrets = {"client_secret": "client-cAnArY", "refresh_token": "refresh-cAnArY"}
    return Credentials(None, token_uri=f"{cloud.root}/token", client_id="c", **secrets)  # type: ignore[no-untyped-call]  # google-auth is untyped


def user_login() -> dict[str, str]:
    """The content of the file that `gcloud auth application-default login` writes."""
    return {
        "type": "authorized_user",
        "client_id": "c",
        "client_secret": "client-cAnArY",
        "refresh_token": "refresh-cAnArY",
        "quota_project_id": "paying-project",
    }


def workload(cloud: GoogleCloud, directory: Path) -> dict[str, Any]:
    """The configuration of workload identity federation, with a token in a file."""
    (directory / "subject").write_text("subject-cAnArY")
    return {
        "type": "external_account",
        "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/o",
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{cloud.root}/sts",
        "credential_source": {"file": str(directory / "subject")},
    }
