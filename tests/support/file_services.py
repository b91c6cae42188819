"""Doubles of services with files on the loopback interface: OpenAI, Anthropic, Google, Mistral, from their references.

Each stores files, refuses those that it does not know, answers each message that refers to one with the content of the
files (`read: ...`), and refuses a reference to a file that it does not store. `chats` are the bodies of these requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import urlsplit

from support.google_batches import KEY as GOOGLE_KEY, GoogleBatches
from support.loopback import Piece
from support.mistral_batches import KEY as MISTRAL_KEY, MistralBatches, form_of
from support.service_double import Received, Refused, ServiceDouble, as_file, as_json
from toolcast import Anthropic, Google, Mistral, OpenAI, OpenAIResponses
from toolcast.llms.http_llm import ServiceLLM

KEY = "files-double"
EPOCH = 4_000_000_000
"""The time of the services in seconds since 1970: files expire later than the tests run."""


def _values(value: Any, name: str) -> Iterator[Any]:
    """Yield the value of each field `name` in JSON."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key == name:
                yield each
            yield from _values(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _values(each, name)


def _completion(text: str) -> tuple[Piece, ...]:
    return as_json(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": EPOCH,
            "model": "m",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    )


class OpenAIFiles(ServiceDouble):
    """OpenAI's files, with chat completions and Responses."""

    key_headers: ClassVar[tuple[str, ...]] = ("authorization",)
    routes: ClassVar = (
        (r"POST /v1/files", "upload"),
        (r"GET /v1/files/([^/]+)", "describe"),
        (r"GET /v1/files/([^/]+)/content", "content"),
        (r"DELETE /v1/files/([^/]+)", "delete_file"),
        (r"POST /v1/chat/completions", "chat"),
        (r"POST /v1/responses", "respond"),
        (r"POST /v1/messages", "message"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.named: dict[str, dict[str, Any]] = {}
        self.forms: list[dict[str, tuple[str, bytes]]] = []
        self.chats: list[Any] = []
        self.lifetime: int | None = None
        """The lifetime of the next files in seconds."""

    def authorize(self, request: Received) -> None:
        if not any(KEY in request.headers.get(name, "") for name in self.key_headers):
            raise Refused(401, {"error": {"message": "Incorrect API key provided"}})

    def upload(self, request: Received) -> tuple[Piece, ...]:
        form = form_of(request)
        self.forms.append(form)
        name, content = form["file"]
        id = f"file-{len(self.forms):04}"
        self.files[id] = content
        self.named[id] = self.document(id, name, len(content), form, request)
        return as_json(self.named[id])

    def document(self, id: str, name: str, size: int, form: dict[str, Any], request: Received) -> dict[str, Any]:
        """Return the description of a new file."""
        asked = form.get("expires_after[seconds]")
        seconds = self.lifetime if asked is None else int(asked[1])
        return {
            "id": id,
            "object": "file",
            "bytes": size,
            "created_at": EPOCH,
            "filename": name,
            "purpose": form["purpose"][1].decode(),
            "status": "processed",
            "expires_at": None if seconds is None else EPOCH + seconds,
        }

    def described(self, id: str) -> dict[str, Any]:
        """Return the description of a file, or refuse the request."""
        if id not in self.files:
            raise Refused(404, {"error": {"message": f"No such File object: {id}"}})
        return self.named[id]

    def describe(self, request: Received, id: str) -> tuple[Piece, ...]:
        return as_json(self.described(id))

    def delete_file(self, request: Received, id: str) -> tuple[Piece, ...]:
        self.described(id)
        del self.files[id]
        return as_json({"id": id, "object": "file", "deleted": True})

    def content(self, request: Received, id: str) -> tuple[Piece, ...]:
        self.described(id)
        return as_file(self.files[id], "application/octet-stream")

    def read(self, body: Any) -> str:
        """Return the answer to a request: the content of its files."""
        self.chats.append(body)
        found = [self.files[self.described(id)["id"]] for id in _values(body, "file_id")]
        return "read: " + ", ".join(each.decode() for each in found)

    def chat(self, request: Received) -> tuple[Piece, ...]:
        return _completion(self.read(request.json))

    def respond(self, request: Received) -> tuple[Piece, ...]:
        text = {"type": "output_text", "text": self.read(request.json), "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
        return as_json({"id": "resp_1", "model": "m", "status": "completed", "output": [item]})

    def message(self, request: Received) -> tuple[Piece, ...]:
        text = {"type": "text", "text": self.read(request.json)}
        return as_json(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m",
                "content": [text],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        )


class AnthropicFiles(OpenAIFiles):
    """Anthropic's files, with the Messages API."""

    key_headers = ("x-api-key", "authorization")

    def document(self, id: str, name: str, size: int, form: dict[str, Any], request: Received) -> dict[str, Any]:
        """Return the description of a new file."""
        if unknown := set(form) - {"file", "expires_in_seconds"}:
            raise Refused(400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(unknown)}})
        asked = form.get("expires_in_seconds")
        seconds = self.lifetime if asked is None else int(asked[1])
        kind = re.search(rb"\r\nContent-Type: (\S+)\r\n", request.body)
        assert kind is not None
        return {
            "id": id,
            "type": "file",
            "filename": name,
            "mime_type": kind[1].decode(),
            "size_bytes": size,
            "created_at": _moment(EPOCH),
            "downloadable": False,
            "expires_at": None if seconds is None else _moment(EPOCH + seconds),
        }


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class GoogleFiles(GoogleBatches):
    """Google's files, with `generateContent`. `looks`: the number of looks at a new file until it is processed."""

    routes: ClassVar = (
        *GoogleBatches.routes,
        (r"POST /v1beta/models/[^/:]+:generateContent", "generate"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.clock = lambda: EPOCH
        self.chats: list[Any] = []
        self.looks = 0
        self.end = "ACTIVE"

    def store(self, content: bytes, name: str, kind: str, source: str) -> dict[str, Any]:
        stored = super().store(content, name, kind, source)
        stored["state"] = "PROCESSING" if self.looks else self.end
        return stored

    def describe(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id in self.files and self.named[id]["state"] == "PROCESSING":
            self.looks -= 1
            self.named[id]["state"] = "PROCESSING" if self.looks else self.end
        return super().describe(request, id)

    def generate(self, request: Received) -> tuple[Piece, ...]:
        self.chats.append(request.json)
        found: list[bytes] = []
        # Protobuf's JSON has two names of each field; the official client uses both.
        for uri in [*_values(request.json, "fileUri"), *_values(request.json, "file_uri")]:
            id = uri.rpartition("/v1beta/")[2]
            if id not in self.files:
                raise Refused(403, {"error": {"code": 403, "message": "no permission to access the File"}})
            found.append(self.files[id])
        text = "read: " + ", ".join(each.decode() for each in found)
        content = {"role": "model", "parts": [{"text": text}]}
        return as_json({"candidates": [{"content": content, "finishReason": "STOP"}], "modelVersion": "m"})


class MistralFiles(MistralBatches):
    """Mistral's files, with signed URLs and chat completions."""

    routes: ClassVar = (
        (r"GET /v1/files/([^/]+)/url", "sign"),
        *MistralBatches.routes,
        (r"POST /v1/chat/completions", "chat"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.chats: list[Any] = []
        self.signed = 0

    def store(self, name: str, content: bytes, purpose: str, source: str) -> dict[str, Any]:
        stored = super().store(name, content, purpose, source)
        stored["mimetype"] = None
        return stored

    def sign(self, request: Received, id: str) -> tuple[Piece, ...]:
        if id not in self.files:
            raise self.not_found(request)
        self.signed += 1
        return as_json({"url": f"https://files.example/{id}?expiry={request.query['expiry']}&sig={self.signed}"})

    def chat(self, request: Received) -> tuple[Piece, ...]:
        self.chats.append(request.json)
        urls = [url for name in ("document_url", "input_audio", "url") for url in _values(request.json, name)]
        ids = [urlsplit(url).path[1:] for url in urls] + list(_values(request.json, "file_id"))
        if gone := [id for id in ids if id not in self.files]:
            raise Refused(400, {"object": "error", "message": f"cannot download {gone[0]}"})
        text = "read: " + ", ".join(self.files[id].decode() for id in ids)
        return _completion(text)


@dataclass(frozen=True)
class FileService:
    """A double, the LLM at it, and the name of its provider."""

    double: Callable[[], Any]
    llm: Callable[..., ServiceLLM]
    provider: str


SERVICES = {
    "openai": FileService(
        OpenAIFiles, lambda url, **options: OpenAI("m", base_url=f"{url}/v1", api_key=KEY, **options), "openai"
    ),
    "responses": FileService(
        OpenAIFiles, lambda url, **options: OpenAIResponses("m", base_url=f"{url}/v1", api_key=KEY, **options), "openai"
    ),
    "anthropic": FileService(
        AnthropicFiles, lambda url, **options: Anthropic("m", base_url=url, api_key=KEY, **options), "anthropic"
    ),
    "google": FileService(
        GoogleFiles, lambda url, **options: Google("m", base_url=url, api_key=GOOGLE_KEY, **options), "google"
    ),
    "mistral": FileService(
        MistralFiles,
        lambda url, **options: Mistral("m", base_url=f"{url}/v1", api_key=MISTRAL_KEY, **options),
        "mistral",
    ),
}


def references(body: Any) -> str:
    """Return the JSON of the last user message in a request."""
    turns = body.get("messages") or body.get("input") or body.get("contents")
    return json.dumps(turns[-1])
