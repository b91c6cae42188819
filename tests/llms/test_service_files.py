"""Files at an LLM's service, on every API: sizes that are checked before reading, and services without files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from support.google_batches import KEY as GOOGLE_KEY, GoogleBatches
from support.mistral_batches import KEY, MistralBatches
from toolcast import AnthropicVertex, Google, Mistral, OpenAI, OpenAICompatible, OpenAIResponses
from toolcast.async_support.sync_driver import run
from toolcast.errors import BadRequest, LimitExceeded, NotFound, UnsupportedLLMError
from toolcast.llms.service_files import PathContent, delete_file, describe_file, fetch_file, upload_file
from toolcast.providers.chat_completions.files import OpenAIFiles
from toolcast.providers.file_codec import BytesContent, StoredFile
from toolcast.testing import ScriptedLLM


def mistral(server: MistralBatches) -> Mistral:
    return Mistral("mistral-ocr-latest", base_url=f"{server.base}/v1", api_key=KEY, max_retries=0)


class Files:
    """The functions on a sync or an async API."""

    def __init__(self, backend: str) -> None:
        self._backend = backend

    def __call__(self, function: Callable[..., Any], llm: Any, *args: Any, **options: Any) -> Any:
        if self._backend == "sync":
            return run(function(llm, *args, llm.sync_backend(), **options))

        async def call() -> Any:
            try:
                return await function(llm, *args, llm.async_backend(), **options)
            finally:
                await llm.aclose()

        return anyio.run(call, backend=self._backend)


@pytest.fixture(params=["sync", "asyncio", "trio"])
def files(request: pytest.FixtureRequest) -> Files:
    return Files(str(request.param))


def test_a_file_from_its_upload_to_its_end(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a b.pdf"
    path.write_bytes(b"%PDF")
    with MistralBatches() as server:
        llm = mistral(server)
        file: StoredFile = files(upload_file, llm, path)
        assert (file.name, file.size, file.state) == ("a b.pdf", 4, "ready")
        assert server.named[file.id]["purpose"] == "ocr"
        described = files(describe_file, llm, file.id)
        assert (described.id, described.created) == (file.id, file.created)
        assert files(fetch_file, llm, file.id) == b"%PDF"
        files(delete_file, llm, file.id)
        with pytest.raises(NotFound):
            files(describe_file, llm, file.id)


def test_a_large_file_in_parts(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(bytes(20 * 1024 * 1024))
    with GoogleBatches() as server:
        server.lost_parts = 1
        llm = Google("gemini-2.5-flash", base_url=server.base, api_key=GOOGLE_KEY, max_retries=0)
        file = files(upload_file, llm, path, name="b.txt", media_type="text/markdown")
        assert server.files[file.id] == path.read_bytes()
    assert (file.name, file.media_type) == ("b.txt", "text/markdown")


def test_names_are_visible_text(files: Files, tmp_path: Path) -> None:
    """A lone surrogate cannot be sent, and control characters and direction marks mislead who reads the name."""
    path = tmp_path / "a\udcff\u202efdp.exe\n.pdf"
    path.write_bytes(b"%PDF")
    with MistralBatches() as server:
        assert files(upload_file, mistral(server), path).name == "a__fdp.exe_.pdf"
        assert files(upload_file, mistral(server), b"x", name="é 名\ud800.pdf").name == "é 名_.pdf"


def test_an_error_of_the_service(files: Files) -> None:
    with MistralBatches() as server, pytest.raises(BadRequest, match="unknown purpose 'other'"):
        files(upload_file, mistral(server), b"abc", name="a.pdf", purpose="other")


def test_the_limit_of_a_download(files: Files) -> None:
    with MistralBatches() as server:
        llm = mistral(server)
        file = files(upload_file, llm, b"abc", name="a.pdf")
        with pytest.raises(LimitExceeded):
            files(fetch_file, llm, file.id, limit=2)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    with path.open("wb") as file:
        file.truncate(512 * 1024 * 1024 + 1)  # sparse: it takes no space on the disk
    with MistralBatches() as server:
        llm = mistral(server)
        with pytest.raises(BadRequest, match=r"'a.pdf' has 536,870,913 bytes, but a file of mistral has at most 536,"):
            run(upload_file(llm, path, llm.sync_backend()))
        assert not server.log


def test_an_empty_file() -> None:
    llm = Mistral("m", api_key=KEY)
    with pytest.raises(BadRequest, match=r"'a.pdf' is empty"):
        run(upload_file(llm, b"", llm.sync_backend(), name="a.pdf"))


def test_an_unknown_type() -> None:
    llm = Mistral("m", api_key=KEY)
    with pytest.raises(BadRequest, match="'file': the extension has no known media type"):
        run(upload_file(llm, b"abc", llm.sync_backend()))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadRequest, match="no regular file"):
        PathContent(tmp_path / "pipe")


def test_a_file_that_becomes_shorter(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    content = PathContent(path)
    path.write_bytes(bytes(50))
    assert content.read(0, 50) == bytes(50)
    with pytest.raises(BadRequest, match="became shorter"):
        content.read(40, 100)


def test_a_file_that_becomes_longer(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(bytes(100))
    content = PathContent(path)
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
        run(describe_file(llm, "a", llm.sync_backend()))


def test_a_failed_file() -> None:
    from toolcast.http_request import HTTPResponse

    codec = OpenAIFiles(Mistral("m", api_key=KEY).adapter)  # type: ignore[arg-type]  # its adapter is one behind HTTP
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
