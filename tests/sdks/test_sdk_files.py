"""Uploaded files through the official clients and through toolcast, at doubles: the same requests, field by field."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from support.file_services import KEY, SERVICES, OpenAIFiles
from support.google_batches import KEY as GOOGLE_KEY
from support.loopback import Request
from support.mistral_batches import KEY as MISTRAL_KEY, form_of
from support.service_double import Received
from toolcast import OpenAIResponses, user

pytestmark = pytest.mark.networked

FILE = b"%PDF-1.7 not really"
NAME, PDF = "a b.pdf", "application/pdf"
QUESTION = "What is in it?"
DAY = 24 * 3600


def openai(url: str, kind: str) -> None:
    from openai import OpenAI as Client

    with Client(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as sdk:
        after: Any = {"anchor": "created_at", "seconds": DAY}
        file = sdk.files.create(file=(NAME, FILE, kind), purpose="user_data", expires_after=after)
        part: Any = {"type": "file", "file": {"file_id": file.id}}
        sdk.chat.completions.create(
            model="m", messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}, part]}]
        )
        sdk.files.retrieve(file.id)
        sdk.files.delete(file.id)


def responses(url: str, kind: str) -> None:
    from openai import OpenAI as Client

    with Client(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as sdk:
        after: Any = {"anchor": "created_at", "seconds": DAY}
        file = sdk.files.create(file=(NAME, FILE, kind), purpose="user_data", expires_after=after)
        part: Any = {"type": "input_file", "file_id": file.id}
        if kind != PDF:
            part = {"type": "input_image", "file_id": file.id, "detail": "auto"}
        sdk.responses.create(
            model="m",
            input=[{"role": "user", "content": [{"type": "input_text", "text": QUESTION}, part]}],
            store=False,
            include=["reasoning.encrypted_content"],
        )
        sdk.files.retrieve(file.id)
        sdk.files.delete(file.id)


def anthropic(url: str, kind: str) -> None:
    from anthropic import Anthropic as Client

    with Client(base_url=url, api_key=KEY, max_retries=0) as sdk:
        file = sdk.files.upload(file=(NAME, FILE, kind), expires_in_seconds=DAY)
        source: Any = {"type": "file", "file_id": file.id}
        part: Any = {"type": "document", "source": source, "title": NAME}
        if kind != PDF:
            part = {"type": "image", "source": source}
        sdk.messages.create(
            model="m",
            max_tokens=100,
            messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}, part]}],
        )
        sdk.files.retrieve_metadata(file.id)
        sdk.files.delete(file.id)


def google(url: str, kind: str) -> None:
    from google import genai
    from google.genai import types

    options: Any = {"base_url": url, "api_version": "v1beta"}
    with genai.Client(api_key=GOOGLE_KEY, http_options=options) as sdk:
        about: Any = {"mime_type": kind, "display_name": NAME}
        file = sdk.files.upload(file=io.BytesIO(FILE), config=about)
        parts: Any = [types.Part(text=QUESTION), types.Part.from_uri(file_uri=str(file.uri), mime_type=kind)]
        sdk.models.generate_content(model="m", contents=types.Content(role="user", parts=parts))
        sdk.files.get(name=str(file.name))
        sdk.files.delete(name=str(file.name))


def mistral(url: str, kind: str) -> None:
    from mistralai.client import Mistral as Client

    with Client(server_url=url, api_key=MISTRAL_KEY) as sdk:
        content: Any = {"file_name": NAME, "content": FILE, "content_type": kind}
        file = sdk.files.upload(file=content, purpose="ocr")
        signed = sdk.files.get_signed_url(file_id=file.id).url
        part: Any = {"type": "document_url", "document_url": signed, "document_name": NAME}
        if kind != PDF:
            part = {"type": "image_url", "image_url": {"url": signed}}
        sdk.chat.complete(model="m", messages=[{"role": "user", "content": [{"type": "text", "text": QUESTION}, part]}])
        sdk.files.retrieve(file_id=file.id)
        sdk.files.get_signed_url(file_id=file.id)  # toolcast renews it with the description
        sdk.files.delete(file_id=file.id)


OFFICIAL: dict[str, Callable[[str, str], None]] = {
    "openai": openai,
    "responses": responses,
    "anthropic": anthropic,
    "google": google,
    "mistral": mistral,
}


def meant(request: Request, base: str) -> Any:
    """Return the meaning of a request: method, path, query, and body."""
    method, target, _ = request.line.split()
    path, _, query = target.partition("?")
    headers = request.headers
    assert "anthropic-beta" not in headers
    if "x-goog-upload-offset" in headers:  # a part, in which the client repeats the headers of the start
        return method, path, headers["x-goog-upload-command"], headers["x-goog-upload-offset"], request.body
    uploading = {name: value for name, value in headers.items() if name.startswith("x-goog-upload")}
    body: Any = request.body
    if headers.get("content-type", "").startswith("multipart/"):
        body = form_of(Received(method, path, {}, headers, body))
        body.pop("visibility", None)  # the client repeats the default
    elif body:
        body = json.loads(body.decode().replace(base, "BASE"))
        if body.get("stream") is False:  # the default
            del body["stream"]
        body.pop("max_tokens", None)
        if "x-goog-api-key" in headers:
            body = in_camel_case(body)
            body.get("file", {}).pop("sizeBytes", None)  # which is in a header, too; the service ignores it here
    return method, path, query, uploading, body or None


def in_camel_case(value: Any) -> Any:
    """Return JSON with the names of fields that Google's reference has: the client writes some as Protobuf has them."""
    if isinstance(value, list):
        return [in_camel_case(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub(r"_([a-z])", lambda found: found[1].upper(), name): in_camel_case(each) for name, each in value.items()
    }


CASES = [(name, kind) for name in OFFICIAL for kind in (PDF, "image/png") if (name, kind) != ("openai", "image/png")]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_life_of_a_file(name: str, kind: str) -> None:
    service = SERVICES[name]
    with service.double() as theirs, service.double() as other:
        OFFICIAL[name](theirs.base, kind)
        llm = service.llm(other.base)
        lifetime = {} if name in ("google", "mistral") else {"expires_in": DAY}
        ref = llm.upload(FILE, name=NAME, media_type=kind, **lifetime)
        assert llm.chat([user(QUESTION, ref)]).text == f"read: {FILE.decode()}"
        llm.describe_file(ref)
        llm.delete_file(ref)
        assert [meant(each, other.base) for each in other.requests] == [
            meant(each, theirs.base) for each in theirs.requests
        ]


def test_the_life_of_a_file_of_xai() -> None:
    """The client of OpenAI at xAI, as docs.x.ai has it."""
    from openai import OpenAI as Client

    with OpenAIFiles() as theirs, OpenAIFiles() as other:
        with Client(base_url=f"{theirs.base}/v1", api_key=KEY, max_retries=0) as sdk:
            file = sdk.files.create(file=(NAME, FILE, PDF), purpose="assistants")
            part: Any = {"type": "input_file", "file_id": file.id}
            sdk.responses.create(
                model="grok-4.5",
                input=[{"role": "user", "content": [{"type": "input_text", "text": QUESTION}, part]}],
                store=False,
                include=["reasoning.encrypted_content"],
            )
            sdk.files.delete(file.id)
        llm = OpenAIResponses("grok-4.5", service="xai", base_url=f"{other.base}/v1", api_key=KEY)
        ref = llm.upload(FILE, name=NAME)
        llm.chat([user(QUESTION, ref)])
        llm.delete_file(ref)
        assert [meant(each, other.base) for each in other.requests] == [
            meant(each, theirs.base) for each in theirs.requests
        ]
