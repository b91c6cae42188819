"""Uploaded files as parts of messages, over HTTP: their life at each provider, on each API."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.file_services import EPOCH, SERVICES, GoogleFiles, MistralFiles, OpenAIFiles, references
from support.google_batches import KEY as GOOGLE_KEY, GoogleBatches
from support.loopback import CLOSE, whole
from support.mistral_batches import KEY as MISTRAL_KEY
from support.openai_batches import VirtualClock
from support.service_files import fetch_file
from toolcast import (
    AnthropicVertex,
    Configs,
    FallbackLLM,
    FunctionCallingLLM,
    Google,
    Message,
    Mistral,
    OpenAI,
    OpenAICompatible,
    OpenAIResponses,
    ToolOrchestratingLLM,
    assistant,
    user,
)
from toolcast.agents.engine.engine import Engine
from toolcast.agents.sessions.session import Session
from toolcast.chat.events import QueueMessage
from toolcast.errors import BadRequest, LLMError, NotFound, Overloaded, StreamInterrupted, Timeout, UnsupportedLLMError
from toolcast.llms import CachedLLM, ChatRequest, MemoryCache, RedactedLLM, uploads
from toolcast.llms.client import client_of
from toolcast.messages import FILE_LIMIT, AudioPart, DocumentPart, FileRef, ImagePart, VideoPart
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.anthropic.files import AnthropicFiles
from toolcast.providers.chat_completions.files import OpenAIFiles as OpenAIFilesCodec
from toolcast.providers.file_codec import BytesContent, StoredFile
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.values.http_request import HTTPResponse

PDF = "application/pdf"


class Calls:
    """The methods of an LLM on the sync or an async API."""

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def __call__(self, llm: Any, method: str, *args: Any, **options: Any) -> Any:
        if self._backend == "sync":
            return getattr(llm, method)(*args, **options)

        async def call() -> Any:
            try:
                return await getattr(llm, f"a{method}")(*args, **options)
            finally:
                await llm.aclose()

        return anyio.run(call, backend=self._backend)


@pytest.fixture(params=["sync", "asyncio", "trio"])
def calls(request: pytest.FixtureRequest) -> Calls:
    return Calls(str(request.param))


def openai(server: OpenAIFiles, **options: Any) -> OpenAI:
    return OpenAI("m", base_url=f"{server.base}/v1", api_key="files-double", **options)


@pytest.mark.parametrize("name", SERVICES)
def test_a_file_from_its_upload_to_its_end(calls: Calls, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a b.pdf"
    path.write_bytes(b"one two")
    service = SERVICES[name]
    with service.double() as server:
        llm = service.llm(server.base, max_retries=0)
        ref: FileRef = calls(llm, "upload", path)
        assert (ref.provider, ref.name, ref.size, ref.media_type) == (service.provider, "a b.pdf", 7, PDF)
        again = Message.from_dict(user("Read.", ref).to_dict())  # as in a session
        assert again.parts[1] == ref
        assert calls(llm, "chat", [again]).text == "read: one two"
        assert ref.id in references(server.chats[0])
        assert b"one two".hex() not in references(server.chats[0])
        described: FileRef = calls(llm, "describe_file", ref)
        assert replace(described, uri=None, expires_at=None) == replace(ref, uri=None, expires_at=None)
        found = calls(llm, "describe_file", ref.id)  # its type is that of its name, where the service has none
        assert (found.id, found.media_type) == (ref.id, PDF)
        calls(llm, "delete_file", ref)
        with pytest.raises(NotFound):
            calls(llm, "describe_file", ref)
        with pytest.raises(NotFound):
            calls(llm, "delete_file", ref.id)
        with pytest.raises(LLMError):
            calls(llm, "chat", [again])


@pytest.mark.parametrize("name", SERVICES)
def test_equal_content_is_not_uploaded_twice(calls: Calls, name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"content")
    service = SERVICES[name]
    uploads = r"POST (/upload)?/v1(beta)?/files"
    with service.double() as server:
        llm = service.llm(server.base, max_retries=0)
        first = calls(llm, "upload", path, reuse=True)
        before = server.count(uploads)
        second = calls(llm, "upload", b"content", name="other.pdf", reuse=True)
        assert second.id == first.id
        assert server.count(uploads) == before
        assert calls(llm, "upload", b"Content", name="a.pdf", reuse=True).id != first.id
        assert calls(llm, "upload", b"content", name="a.txt", reuse=True).id != first.id
        assert calls(llm, "upload", b"content", name="a.pdf").id != first.id
        calls(llm, "delete_file", first)
        third = calls(llm, "upload", path, reuse=True)
        assert third.id != first.id
        del server.files[third.id]  # as another program would
        assert calls(llm, "upload", path, reuse=True).id not in (first.id, third.id)


def test_a_file_that_expires_soon_is_uploaded_again() -> None:
    clock = VirtualClock()
    clock.seconds = EPOCH
    with OpenAIFiles() as server:
        llm = openai(server)
        llm.clock = clock
        first = llm.upload(b"a", name="a.pdf", expires_in=3600, reuse=True)
        assert first.expires_at == EPOCH + 3600
        assert server.forms[0]["expires_after[anchor]"][1] == b"created_at"
        clock.seconds = EPOCH + 2900
        assert llm.upload(b"a", name="a.pdf", expires_in=3600, reuse=True) == first
        clock.seconds = EPOCH + 3100
        assert llm.upload(b"a", name="a.pdf", expires_in=3600, reuse=True).id != first.id
        assert llm.upload(b"a", name="a.pdf", expires_in=7200, reuse=True).id != first.id


def test_another_lifetime_is_another_file() -> None:
    with OpenAIFiles() as server:
        llm = openai(server)
        assert llm.upload(b"a", name="a.pdf", reuse=True).expires_at is None
        assert llm.upload(b"a", name="a.pdf", reuse=True, expires_in=4000).expires_at == EPOCH + 4000
        assert len(server.forms) == 2


def test_a_file_that_changes_between_two_readings_is_not_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"before")

    def change(content: Any) -> str:
        found = digest(content)
        path.write_bytes(b"behind")
        return found

    digest: Callable[[Any], str] = uploads._digest
    monkeypatch.setattr(uploads, "_digest", change)
    with OpenAIFiles() as server:
        llm = openai(server)
        ref = llm.upload(path, reuse=True)
        assert server.files[ref.id] == b"behind"
        assert llm.upload(b"before", name="a.pdf", reuse=True).id != ref.id


def test_what_is_read_twice_is_hashed_once() -> None:
    hashed = uploads._Hashed(BytesContent(b"abcdef"))
    for start, size in ((0, 4), (0, 4), (2, 2), (3, 3), (3, 3)):
        assert hashed.read(start, size) == b"abcdef"[start : start + size]
    assert hashed.digest == sha256(b"abcdef").hexdigest()


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_the_content_of_a_file(name: str) -> None:
    service = SERVICES[name]
    with service.double() as server:
        llm = service.llm(server.base)
        ref = llm.upload(b"content", name="a.pdf")
        assert fetch_file(llm, ref.id) == b"content"


def test_a_codec_without_links() -> None:
    codec = AnthropicFiles(AnthropicAdapter())
    assert codec.link("file-1") is None
    with pytest.raises(NotImplementedError, match="AnthropicFiles has no links"):
        codec.read_link(HTTPResponse(200, {}, b""))


def test_no_more_than_a_thousand_files_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolcast.llms.uploads._MOST_REMEMBERED", 2)
    with OpenAIFiles() as server:
        llm = openai(server)
        for content in (b"a", b"b", b"c"):
            llm.upload(content, name="a.pdf", reuse=True)
        assert len(llm.uploads) == 2
        assert pickle.loads(pickle.dumps(llm)).uploads == copy(llm).uploads == {}


@pytest.mark.parametrize(
    ("name", "shortest", "longest"),
    [("openai", 3_600, 2_592_000), ("anthropic", 3_600, 7_776_000)],
)
def test_lifetimes(name: str, shortest: int, longest: int) -> None:
    service = SERVICES[name]
    with service.double() as server:
        llm = service.llm(server.base)
        for seconds in (shortest - 1, longest + 1, float("nan")):
            with pytest.raises(BadRequest, match=r"lives for 3,600 to"):
                llm.upload(b"a", name="a.pdf", expires_in=seconds)
        assert not server.log
        ref = llm.upload(b"a", name="a.pdf", expires_in=float(longest))
        assert ref.expires_at == EPOCH + longest


@pytest.mark.parametrize("name", ["google", "mistral"])
def test_a_lifetime_that_cannot_be_chosen(name: str) -> None:
    with pytest.raises(BadRequest, match="no choice of a file's lifetime"):
        SERVICES[name].llm("http://host").upload(b"a", name="a.pdf", expires_in=3600)


# -- files elsewhere, and files that are no more


@pytest.mark.parametrize("name", SERVICES)
def test_a_file_of_another_provider_is_refused_before_sending(calls: Calls, name: str) -> None:
    service = SERVICES[name]
    with service.double() as server:
        llm = service.llm(server.base)
        foreign = FileRef("other", "file-1", media_type=PDF)
        with pytest.raises(BadRequest, match=f"'file-1' is stored by other, and {service.provider} has no access"):
            calls(llm, "chat", [user(foreign)])
        for method in ("delete_file", "describe_file"):
            with pytest.raises(BadRequest, match="'file-1' is stored by other, not by"):
                calls(llm, method, foreign)
            with pytest.raises(BadRequest, match="'' is no id of a file at"):
                calls(llm, method, "")
        assert not server.log


@pytest.mark.parametrize(
    "llm",
    [
        AnthropicVertex("claude-sonnet-4-6", project="p", region="l", auth=dict),
        OpenAICompatible("m", service="groq", api_key="k"),
        OpenAICompatible("m", service="azure-v1", api="chat", base_url="http://host", api_key="k"),
        OpenAICompatible("m", service="xai", api_key="k"),
    ],
)
def test_messages_that_refer_to_no_files(llm: Any) -> None:
    ref = FileRef(llm.adapter.provider, "file-1", media_type=PDF)
    with pytest.raises(BadRequest, match="takes no uploaded files in these messages"):
        client_of(llm).preview(ChatRequest((user(ref),)))
    with pytest.raises(UnsupportedLLMError, match=r"cannot refer to uploaded files|no files that toolcast can upload"):
        llm.upload(b"a", name="a.pdf")


def test_a_fallback_to_another_provider_is_an_error() -> None:
    with OpenAIFiles() as server, SERVICES["anthropic"].double() as other:
        first, second = openai(server, max_retries=0), SERVICES["anthropic"].llm(other.base)
        ref = first.upload(b"a", name="a.pdf")
        server.fail("POST /v1/chat", whole(b"{}", 503))
        both = FallbackLLM([first, second])
        with pytest.raises(LLMError, match="is stored by openai, and anthropic has no access"):
            both.chat([user(ref)])
        assert not other.log
        with pytest.raises(UnsupportedLLMError, match="no LLM of one service"):
            both.upload(b"a", name="a.pdf")


def test_an_expired_reference_is_refused_before_sending(calls: Calls) -> None:
    with OpenAIFiles() as server:
        llm = openai(server)
        ref = FileRef("openai", "file-1", media_type=PDF, name="a.pdf", expires_at=1.0)
        with pytest.raises(BadRequest, match="the reference to the file 'file-1' at openai has expired"):
            calls(llm, "chat", [user("Read.", ref)])
        assert not server.log


def test_an_expired_reference_of_an_earlier_turn_is_named() -> None:
    """Otherwise the conversation could not go on."""
    ref = FileRef("openai", "file-1", media_type=PDF, name="plan.pdf", expires_at=1.0)
    old = (user("Read.", ref), assistant("Done."))
    headers = {"content-type": "application/json"}
    network = ReplayNetwork(*[Recorded([b'{"choices": [{"message": {"content": "Fine."}}]}'], headers=headers)] * 2)
    llm = OpenAI("gpt-4.1", api="chat", api_key="k", network=network, max_retries=0)
    for _ in range(2):
        assert llm.chat((*old, user("And?"))).text == "Fine."
        assert b"[file: plan.pdf, application/pdf]" in network.requests[-1].body
    with pytest.raises(BadRequest, match="'file-1' at openai has expired"):
        llm.chat((*old, user("And?", ref)))


def test_the_signed_url_of_mistral_is_renewed() -> None:
    clock = VirtualClock()
    clock.seconds = EPOCH
    with MistralFiles() as server:
        llm = SERVICES["mistral"].llm(server.base)
        llm.clock = clock
        ref = llm.upload(b"a", name="a.pdf")
        assert ref.uri is not None
        assert "expiry=24" in ref.uri
        assert ref.expires_at == EPOCH + 24 * 3600
        clock.seconds += 25 * 3600
        with pytest.raises(BadRequest, match="has expired"):
            llm.chat([user(ref)])
        renewed = llm.describe_file(ref)
        assert renewed.uri != ref.uri
        assert renewed.media_type == PDF
        assert llm.chat([user(renewed)]).text == "read: a"


def test_the_link_expires_with_its_file() -> None:
    clock = VirtualClock()
    clock.seconds = EPOCH
    with MistralFiles() as server:
        llm = SERVICES["mistral"].llm(server.base)
        llm.clock = clock
        ref = llm.upload(b"a", name="a.pdf")
        server.named[ref.id]["expires_at"] = EPOCH + 60
        assert llm.describe_file(ref).expires_at == EPOCH + 60


# -- processing


def test_a_video_is_used_when_it_has_been_processed(calls: Calls) -> None:
    with GoogleFiles() as server:
        server.looks = 3
        llm = SERVICES["google"].llm(server.base)
        llm.clock = clock = VirtualClock()
        ref = calls(llm, "upload", b"frames", name="a.mp4")
        assert clock.sleeps == [1.0, 1.5, 2.25]
        assert ref.media_type == "video/mp4"
        assert calls(llm, "chat", [user("What happens?", ref)]).text == "read: frames"
        sent = server.chats[0]["contents"][0]["parts"][1]
        assert sent == {"fileData": {"mimeType": "video/mp4", "fileUri": ref.uri}}


def test_a_video_that_cannot_be_processed() -> None:
    with GoogleFiles() as server:
        server.looks, server.end = 1, "FAILED"
        llm = SERVICES["google"].llm(server.base)
        llm.clock = VirtualClock()
        with pytest.raises(BadRequest, match="google could not process the file 'files/0002'"):
            llm.upload(b"frames", name="a.mp4")


def test_the_limit_of_the_processing() -> None:
    with GoogleFiles() as server:
        server.looks = 5
        llm = SERVICES["google"].llm(server.base)
        llm.clock = clock = VirtualClock()
        with pytest.raises(Timeout, match=r"llm.describe_file\('files/0002'\)"):
            llm.upload(b"frames", name="a.mp4", timeout=2)
        assert clock.sleeps == [1.0, 1.0]
        assert llm.describe_file("files/0002", timeout=None).id == "files/0002"
        assert llm.chat([user(llm.describe_file("files/0002"))]).text == "read: frames"


def test_a_file_that_is_still_being_processed_is_not_used_again() -> None:
    with GoogleFiles() as server:
        llm = SERVICES["google"].llm(server.base)
        llm.clock = VirtualClock()
        first = llm.upload(b"a", name="a.mp4", reuse=True)
        server.named[first.id]["state"] = "FAILED"
        assert llm.upload(b"a", name="a.mp4", reuse=True).id != first.id


# -- sources


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("openai", 512 * 1024**2),
        ("responses", 512 * 1024**2),
        ("anthropic", 500 * 1024**2),
        ("google", 2 * 1024**3),
        ("mistral", 512 * 1024**2),
    ],
)
def test_a_file_that_is_too_large_is_not_read(name: str, limit: int, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with path.open("wb") as file:
        file.truncate(limit + 1)  # sparse: it takes no space on the disk
    path.chmod(0)  # reading it would be an error, too, but for the superuser
    service = SERVICES[name]
    with service.double() as server:
        with pytest.raises(BadRequest, match=f"has {limit + 1:,} bytes, but a file of .* has at most {limit:,}"):
            service.llm(server.base).upload(path, reuse=True)
        assert not server.log


def test_a_file_that_grows_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 9 * 1024**2)
    with GoogleFiles() as server:
        llm = SERVICES["google"].llm(server.base)

        def grow(line: str) -> None:
            with path.open("ab") as file:
                file.write(b"y" * 1000)

        server.processed = grow
        ref = llm.upload(path)
        assert server.files[ref.id] == b"x" * 9 * 1024**2
        assert ref.size == 9 * 1024**2


def test_a_file_that_becomes_shorter_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b"x" * 9 * 1024**2)
    with GoogleFiles() as server:
        llm = SERVICES["google"].llm(server.base)
        server.processed = lambda line: os.truncate(path, 10)
        with pytest.raises(BadRequest, match="became shorter while it was uploaded"):
            llm.upload(path)
        assert not server.files


@pytest.mark.parametrize("source", ["https://host/a.pdf", "http://host/a.pdf", "data:text/plain;base64,YQ=="])
def test_a_url_is_not_fetched(source: str) -> None:
    with pytest.raises(BadRequest, match="is a URL, which is not fetched"):
        OpenAI("m", api_key="k").upload(source)


def test_sources() -> None:
    with OpenAIFiles() as server:
        llm = openai(server)
        for content in (bytearray(b"abc"), memoryview(b"abc")):
            ref = llm.upload(content, name="a.pdf")  # type: ignore[arg-type]  # works all the same
            assert server.files[ref.id] == b"abc"
        with pytest.raises(TypeError, match="expected a path or bytes, got int"):
            llm.upload(1)  # type: ignore[arg-type]  # on purpose
        with pytest.raises(TypeError, match="purpse"):
            llm.upload(b"a", purpse="x")  # type: ignore[call-arg]  # on purpose
        with pytest.raises(FileNotFoundError):
            llm.upload("no such file.pdf")
        assert server.forms[0]["purpose"][1] == b"user_data"
        llm.upload(b"a", name="a.pdf", purpose="assistants")
        assert server.forms[-1]["purpose"][1] == b"assistants"


# -- connections


@pytest.mark.parametrize("name", ["openai", "anthropic", "mistral"])
def test_an_upload_whose_connection_is_cut_is_sent_again(calls: Calls, name: str) -> None:
    service = SERVICES[name]
    with service.double() as server:
        server.fail("POST /v1/files", CLOSE)
        server.fail("POST /v1/files", whole(b"{}", 503))
        llm = service.llm(server.base, max_retries=2)
        llm.clock = VirtualClock()
        ref = calls(llm, "upload", b"content", name="a.pdf")
        assert server.files[ref.id] == b"content"
        assert server.count("POST /v1/files") == 3
        server.fail("POST /v1/files", CLOSE)
        with pytest.raises(StreamInterrupted):
            calls(service.llm(server.base, max_retries=0), "upload", b"content", name="a.pdf")


def test_a_part_whose_connection_is_cut_is_continued(calls: Calls) -> None:
    content = bytes(range(256)) * 4096 * 20  # 20 MB: three parts
    with GoogleFiles() as server:
        llm = SERVICES["google"].llm(server.base, max_retries=0)
        server.lost_parts = 2
        ref = calls(llm, "upload", content, name="a.pdf", reuse=True)
        assert server.files[ref.id] == content
        assert calls(llm, "upload", content, name="a.pdf", reuse=True).id == ref.id


def test_a_request_whose_model_is_busy_keeps_the_file() -> None:
    with OpenAIFiles() as server:
        llm = openai(server, max_retries=0)
        ref = llm.upload(b"a", name="a.pdf")
        server.fail("POST /v1/chat", whole(b"{}", 503))
        with pytest.raises(Overloaded):
            llm.chat([user(ref)])
        assert llm.chat([user(ref)]).text == "read: a"


# -- other LLMs


def test_wrappers() -> None:
    with OpenAIFiles() as server:
        llm = openai(server)
        cached = CachedLLM(llm, MemoryCache())
        ref = cached.upload(b"a", name="a.pdf")
        assert cached.chat([user(ref)]).text == cached.chat([user(ref)]).text == "read: a"
        assert len(server.chats) == 1
        assert cached.describe_file(ref) == ref
        other = cached.upload(b"b", name="a.pdf")
        assert cached.chat([user(other)]).text == "read: b"
        cached.delete_file(ref)
        assert set(server.files) == {other.id}


def test_the_text_and_the_name_of_a_redacted_file(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "Ada.txt"
    path.write_text("Ada met Bob.")
    with OpenAIFiles() as server:
        llm = RedactedLLM(CachedLLM(openai(server), MemoryCache()), lambda text: text.replace("Ada", "[NAME]"))
        ref = calls(llm, "upload", path)
        assert server.files[ref.id] == b"[NAME] met Bob."
        assert ref.name == "[NAME].txt"
        picture = calls(llm, "upload", b"Ada", name="a.png")
        assert server.files[picture.id] == b"Ada"
        calls(llm, "chat", [user(replace(ref, name="Ada"), replace(ref, name=None))])
        assert "Ada" not in references(server.chats[0])
        with path.open("wb") as file:
            file.truncate(FILE_LIMIT + 1)
        with pytest.raises(BadRequest, match="bytes of text, and at most 52,428,800 are redacted"):
            calls(llm, "upload", path)


class Summary(BaseModel):
    """A summary."""

    text: str


def test_a_session_with_a_file_is_resumed_in_another_process(tmp_path: Path) -> None:
    with OpenAIFiles() as server:
        llm = openai(server)
        ref = llm.upload(b"content", name="a.pdf")
        with Session(Engine(llm), id="mine", store=SQLiteStore(tmp_path / "store.db")) as session:
            assert session.run(user("Read.", ref)).text == "read: content"
        again = openai(server)
        with Session.resume("mine", Engine(again), SQLiteStore(tmp_path / "store.db")) as session:
            assert session.engine.history[0] == user("Read.", ref)
            assert session.run("And?").text == "read: content"
        assert [ref.id in references({"messages": chat["messages"][:1]}) for chat in server.chats] == [True, True]


def test_a_file_in_the_prompt_of_a_structured_call() -> None:
    summarize = ToolOrchestratingLLM(
        Summary, prompt="Summarize {file}.", llm=(llm := ScriptedLLM(Summary(text="short")))
    )
    ref = FileRef("openai", "file-1", media_type=PDF)
    assert summarize(file=ref) == Summary(text="short")
    assert llm.requests[0].messages[-1].parts[1] == ref


def test_a_file_in_a_queued_message() -> None:
    ref = FileRef("openai", "file-1", media_type=PDF)
    assert QueueMessage(user(ref)).message.parts == (ref,)


def test_a_scripted_llm_takes_the_place_of_the_service() -> None:
    with OpenAIFiles() as server:
        with Configs.use(llm=ScriptedLLM("x")):
            assert openai(server).upload(b"a", name="a.pdf").id in server.files  # the default is no replacement
        with pytest.raises(UnsupportedLLMError):
            ScriptedLLM("x").upload(b"a", name="a.pdf")


# -- parts of messages from files


@pytest.mark.parametrize(
    ("part", "name"),
    [(ImagePart, "a.png"), (AudioPart, "a.wav"), (VideoPart, "a.mp4"), (DocumentPart, "a.pdf")],
)
def test_the_size_limit_of_a_part(part: Any, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"12345")
    assert part.from_file(path, limit=5).data == b"12345"
    with pytest.raises(ValueError, match=r"has 5 bytes or more, and the limit is 4: upload it"):
        part.from_file(path, limit=4)
    with path.open("wb") as file:
        file.truncate(FILE_LIMIT + 1)
    with pytest.raises(ValueError, match="the limit is 52,428,800"):
        part.from_file(str(path))


def test_a_part_from_a_file_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(b"1234")
    stat: Callable[..., os.stat_result] = Path.stat

    def grown(self: Path, **options: Any) -> os.stat_result:
        found = stat(self, **options)
        path.write_bytes(b"12345")
        return found

    monkeypatch.setattr(Path, "stat", grown)
    with pytest.raises(ValueError, match="has 5 bytes or more, and the limit is 4"):
        DocumentPart.from_file(path, limit=4)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_part_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.pdf")
    with pytest.raises(ValueError, match="is no regular file"):
        DocumentPart.from_file(tmp_path / "a.pdf")


def test_files_are_methods_of_every_llm() -> None:
    for method in ("upload", "aupload", "describe_file", "adescribe_file", "delete_file", "adelete_file"):
        assert callable(getattr(FunctionCallingLLM, method))


# Content and names


def mistral(server: MistralFiles) -> Mistral:
    return Mistral("mistral-ocr-latest", base_url=f"{server.base}/v1", api_key=MISTRAL_KEY, max_retries=0)


def test_a_large_file_in_parts(calls: Calls, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(bytes(20 * 1024 * 1024))
    with GoogleBatches() as server:
        server.lost_parts = 1
        llm = Google("gemini-2.5-flash", base_url=server.base, api_key=GOOGLE_KEY, max_retries=0)
        file = calls(llm, "upload", path, name="b.txt", media_type="text/markdown")
        assert server.files[file.id] == path.read_bytes()
    assert (file.name, file.media_type) == ("b.txt", "text/markdown")


def test_names_are_visible_text(calls: Calls, tmp_path: Path) -> None:
    """A lone surrogate cannot be sent, and control characters and direction marks mislead who reads the name."""
    path = tmp_path / "a\udcff\u202efdp.exe\n.pdf"
    path.write_bytes(b"%PDF")
    with MistralFiles() as server:
        assert calls(mistral(server), "upload", path).name == "a__fdp.exe_.pdf"
        assert calls(mistral(server), "upload", b"x", name="é 名\ud800.pdf").name == "é 名_.pdf"


def test_an_error_of_the_service(calls: Calls) -> None:
    with MistralFiles() as server, pytest.raises(BadRequest, match="unknown purpose 'other'"):
        calls(mistral(server), "upload", b"abc", name="a.pdf", purpose="other")


def test_an_empty_file() -> None:
    llm = Mistral("m", api_key=MISTRAL_KEY)
    with pytest.raises(BadRequest, match=r"'a.pdf' is empty"):
        llm.upload(b"", name="a.pdf")


def test_an_unknown_type() -> None:
    llm = Mistral("m", api_key=MISTRAL_KEY)
    with pytest.raises(BadRequest, match="'file': the extension has no known media type"):
        llm.upload(b"abc")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadRequest, match="no regular file"):
        uploads.PathContent(tmp_path / "pipe")


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    content = uploads.PathContent(path)
    path.write_bytes(bytes(50))
    assert content.read(0, 50) == bytes(50)
    with pytest.raises(BadRequest, match="became shorter"):
        content.read(40, 100)


def test_a_file_that_becomes_longer(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    content = uploads.PathContent(path)
    path.write_bytes(bytes(150))
    assert content.read(90, 100) == bytes(10)


@pytest.mark.parametrize(
    "llm",
    [
        AnthropicVertex("claude-sonnet-4-6", project="p", region="l", auth=dict),
        OpenAICompatible("m", service="deepseek", api_key="k"),
        ScriptedLLM(["Hello"]),
    ],
)
def test_no_files(llm: Any) -> None:
    with pytest.raises(UnsupportedLLMError):
        llm.describe_file("a")


def test_a_failed_file() -> None:
    codec = OpenAIFilesCodec(Mistral("m", api_key=MISTRAL_KEY).adapter)  # type: ignore[arg-type]  # its adapter is one behind HTTP
    found = codec.read(HTTPResponse(200, {}, b'{"id": "a", "status": "error", "expires_at": 5}'))
    assert found == StoredFile("a", expires=5, state="failed")


@pytest.mark.parametrize(
    ("llm", "purpose"),
    [
        (OpenAI("gpt-4o", api_key="k"), "user_data"),
        (OpenAIResponses("gpt-4o", api_key="k"), "user_data"),
        (OpenAICompatible("m", service="groq", api_key="k"), "batch"),
    ],
)
def test_files_of_services_with_the_protocol_of_openai(llm: Any, purpose: str) -> None:
    codec = llm.adapter.files()
    request = next(codec.upload("a.txt", "text/plain", BytesContent(b"abc")))
    assert request.url.endswith("/v1/files")
    assert f'name="purpose"\r\n\r\n{purpose}\r\n'.encode() in request.body
