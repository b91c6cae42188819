"""The files that people attach: their types by content, limits, hostile names and bodies, and where they are stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from starlette.exceptions import HTTPException

from support.example_counts import examples
from support.served_chats import ChatClient, chat_client
from toolcast.apps.file_mentions import file_part
from toolcast.apps.web import form_files
from toolcast.apps.web.form_files import ChatFiles, media_type_of, message_part, shown_name
from toolcast.errors import BadRequest
from toolcast.messages import DocumentPart, ImagePart, TextPart
from toolcast.testing import ScriptedLLM
from toolcast.values.capabilities import Capabilities, LLMMetadata


@pytest.fixture
def anyio_backend() -> str:
    """The backend of uvicorn."""
    return "asyncio"


PNG = b"\x89PNG\r\n\x1a\nrest"
SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


class TextLLM(ScriptedLLM):
    """A model that reads text only."""

    @property
    def metadata(self) -> LLMMetadata:
        """The description of the model."""
        return LLMMetadata("text", capabilities=Capabilities(images=False))


async def upload(client: ChatClient, id: str, *files: tuple[str, bytes]) -> Any:
    given = [("file", (name, data, "image/png")) for name, data in files]
    return await client.client.post(f"/chats/{id}/files", files=given)


async def test_attached_files_are_sent_with_the_message(tmp_path: Path) -> None:
    model = ScriptedLLM("I see.")
    async with chat_client(tmp_path, model) as client:
        id = await client.create()
        response = await upload(client, id, ("cat.png", PNG), ("a.txt", b"milk"), ("b.pdf", b"%PDF-1.7"))
        rows = response.json()["files"]
        assert [(row["name"], row["media_type"], row["size"], row["image"]) for row in rows] == [
            ("cat.png", "image/png", 12, True),
            ("a.txt", "text/plain", 4, False),
            ("b.pdf", "application/pdf", 8, False),
        ]
        await client.send(id, "Look.", files=[row["id"] for row in rows])
        text, image, note, document = model.requests[0].messages[-1].parts
        assert isinstance(text, TextPart) and text.text == "Look."
        assert isinstance(image, ImagePart) and image.data == PNG
        assert isinstance(note, TextPart) and file_part(note.text) == ("file a.txt", "milk\n")
        assert isinstance(document, DocumentPart) and (document.name, document.data) == ("b.pdf", b"%PDF-1.7")
        shown = (await client.snapshot(id))["context"]["messages"][0]["parts"]
        assert (shown[1]["data"], shown[1]["size"]) == (None, 12)
        assert (shown[2]["type"], shown[2]["name"], shown[2]["file"][0]) == ("document", "a.txt", "m")
        content = await client.client.get(f"/chats/{id}/files/{shown[2]['file']}")
        assert (content.text, content.headers["content-type"]) == ("milk\n", "application/octet-stream")
        picture = await client.client.get(f"/chats/{id}/files/{shown[1]['file']}")
        assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
        page = await client.client.get(f"/chats/{id}/files/{shown[3]['file']}")
        assert page.headers["content-disposition"] == 'attachment; filename="b.pdf"'


async def test_an_edited_message_keeps_its_files(tmp_path: Path) -> None:
    model = ScriptedLLM("I see.", "I see more.")
    async with chat_client(tmp_path, model) as client:
        id = await client.create()
        rows = (await upload(client, id, ("cat.png", PNG), ("a.txt", b"milk"))).json()["files"]
        await client.send(id, "Look.", files=[row["id"] for row in rows])
        shown = (await client.snapshot(id))["context"]["messages"][0]["parts"]
        await client.dispatch(id, "EDIT_MESSAGE", index=0, message="Look!", files=[part["file"] for part in shown[1:]])
        async with client.chats.reading(id) as chat:
            await chat.machine.run_until()
        before, after = (request.messages[-1].parts for request in model.requests)
        assert after == (TextPart("Look!"), *before[1:])


async def test_files_alone_are_a_message(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("I see.")) as client:
        id = await client.create()
        (row,) = (await upload(client, id, ("a.txt", b"milk"))).json()["files"]
        assert (await client.send(id, "", files=[row["id"]])).status_code == 200


async def test_a_file_is_shown_downloaded_and_removed(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        id = await client.create()
        rows = (await upload(client, id, ("a.png", PNG), ("evil.svg", SVG), ("x.html", b"<h1>x</h1>"))).json()["files"]
        picture, svg, page = [await client.client.get(f"/chats/{id}/files/{row['id']}") for row in rows]
        assert (picture.headers["content-type"], "content-disposition" in picture.headers) == ("image/png", False)
        for response, name in ((svg, "evil.svg"), (page, "x.html")):
            assert response.headers["content-type"] == "application/octet-stream"
            assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
            assert response.headers["x-content-type-options"] == "nosniff"
        path = f"/chats/{id}/files/{rows[0]['id']}"
        assert (await client.client.delete(path)).json() == {}
        assert [(await client.client.request(method, path)).status_code for method in ("GET", "DELETE")] == [404, 404]


@pytest.mark.parametrize(
    "name",
    ["../../etc/passwd", "..\\..\\x", "/etc/passwd", "a\nb", 'a"; filename="b', "\u202eexe.txt", "", ".", "x" * 5000],
)
async def test_names_are_text_and_never_paths(tmp_path: Path, name: str) -> None:
    async with chat_client(tmp_path, ScriptedLLM("Yes.")) as client:
        id = await client.create()
        files = ChatFiles(tmp_path / "files")
        file = files.add(id, name, b"text")
        assert {path.name for path in (tmp_path / "files" / id).iterdir()} == {file.id, f"{file.id}.json"}
        assert len(file.name) <= 200 and file.name.isprintable() and "/" not in file.name
        response = await client.client.get(f"/chats/{id}/files/{file.id}")
        assert (response.status_code, response.text) == (200, "text")
        assert response.headers["content-disposition"].isascii()
        await client.send(id, "Look.", files=[file.id])


@pytest.mark.parametrize("id", ["../x", "a" * 32 + "/..", "A" * 32, "", "0" * 32, "x.json"])
def test_what_is_no_file_is_not_found(tmp_path: Path, id: str) -> None:
    files = ChatFiles(tmp_path)
    with pytest.raises(LookupError):
        files.read("chat", id)
    with pytest.raises(LookupError):
        files.remove("chat", id)


async def test_a_file_of_another_chat_is_not_found(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM("Yes.")) as client:
        one, other = await client.create(), await client.create()
        (row,) = (await upload(client, one, ("a.txt", b"milk"))).json()["files"]
        refused = await client.dispatch(other, "QUEUE_MESSAGE", message="Look.", files=[row["id"]])
        assert (refused.status_code, "attach it again" in refused.json()["error"]) == (404, True)


@pytest.mark.parametrize("files", ["x", [5], {"a": 1}, ["0" * 32] * 11])
async def test_files_of_an_event_are_ids(tmp_path: Path, files: Any) -> None:
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        id = await client.create()
        assert (await client.dispatch(id, "QUEUE_MESSAGE", message="Look.", files=files)).status_code == 400
        odd = await client.dispatch(id, "QUEUE_MESSAGE", message={"role": "user"}, files=["0" * 32])
        assert odd.status_code == 400


async def test_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_files, "MAX_BYTES", 100)
    monkeypatch.setattr(form_files, "_FORM_OVERHEAD", 2000)
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        id = await client.create()
        large = await upload(client, id, ("a.txt", b"x" * 101))
        assert (large.status_code, "a.txt is larger than 100 bytes" in large.json()["error"]) == (413, True)
        huge = await upload(client, id, ("a.txt", b"x" * 100_000))
        assert (huge.status_code, "together" in huge.json()["error"]) == (413, True)
        many = await upload(client, id, *[("a.txt", b"x")] * 11)
        assert many.status_code == 400
        monkeypatch.setattr(form_files, "MAX_CHAT_BYTES", 300)
        assert (await upload(client, id, ("a.txt", b"x" * 100))).status_code == 200
        full = await upload(client, id, ("a.txt", b"x" * 100))
        assert (full.status_code, "a chat can have at most" in full.json()["error"]) == (413, True)


async def test_other_bodies_are_refused(tmp_path: Path) -> None:
    async with chat_client(tmp_path, ScriptedLLM()) as client:
        id = await client.create()
        path = f"/chats/{id}/files"
        form = "multipart/form-data; boundary=x"
        for content, kind, status in (
            (b"{}", "application/json", 415),
            (b"--y", form, 400),
            (b"", form, 400),
            (b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\ntext\r\n--x--\r\n', form, 400),
            (b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\ntext\r\n--x--\r\n', form, 400),
            (b"text", "multipart/form-data", 400),
        ):
            response = await client.client.post(path, content=content, headers={"Content-Type": kind})
            assert (response.status_code, "error" in response.json()) == (status, True), content
        for data in (b"", b"\0\1binary", b"MZ\x90\0\x03"):
            assert (await upload(client, id, ("a.png", data))).status_code == 415


def test_a_text_only_model_gets_no_image() -> None:
    mini = LLMMetadata("mini", capabilities=Capabilities(images=False, documents=False))
    with pytest.raises(BadRequest, match=r"mini does not accept images: remove a\.png"):
        message_part("a.png", "image/png", PNG, mini)
    with pytest.raises(BadRequest, match="mini does not accept documents"):
        message_part("a.pdf", "application/pdf", b"%PDF", mini)
    assert isinstance(message_part("a.pdf", "application/pdf", b"%PDF", LLMMetadata("other")), DocumentPart)


async def test_an_image_for_a_text_only_model_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    model = TextLLM("Yes.")
    async with chat_client(tmp_path, model) as client:
        id = await client.create()
        (row,) = (await upload(client, id, ("a.png", PNG))).json()["files"]
        refused = await client.dispatch(id, "QUEUE_MESSAGE", message="Look.", files=[row["id"]])
        assert (refused.status_code, "does not accept images" in refused.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\nWEBPVP8", "image/webp"),
        (b"RIFF\0\0\0\0WAVE\0", None),
        (b"%PDF-1.4", "application/pdf"),
        (SVG, "text/plain"),
        (b"plain", "text/plain"),
        (b"\xe9t\xe9", "text/plain"),
        (b"\xff\xfea\0", "text/plain"),
        (b"\0", None),
        (b"", None),
    ],
)
def test_the_type_is_that_of_the_content(data: bytes, media_type: str | None) -> None:
    assert media_type_of(data) == media_type


@settings(max_examples=examples(100))
@given(name=st.text(max_size=300))
def test_every_name_is_shown_as_one_line_of_text(name: str) -> None:
    shown = shown_name(name)
    assert 0 < len(shown) <= 200 and "\n" not in shown and json.dumps(shown)


async def test_a_page_of_one_chat_takes_no_files(tmp_path: Path) -> None:
    import httpx

    from support.web_chats import TO_READY, chat
    from toolcast.apps.web import make_app

    headers = {"Authorization": "Bearer t"}
    async with chat(*TO_READY) as machine:
        transport = httpx.ASGITransport(make_app(machine, token="t"))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            listed = (await client.get("/chats")).json()
            assert (listed["single"], listed["limits"]) == (True, None)
            assert (await client.post("/chats/chat/files", files={"file": b"x"})).status_code == 404
            for method in ("GET", "DELETE"):
                assert (await client.request(method, "/chats/chat/files/x")).status_code == 404
            event = {"type": "QUEUE_MESSAGE", "message": "x", "files": ["x"]}
            assert (await client.post("/chats/chat/dispatch", json=event)).status_code == 404
            for method, path in (("POST", "/chats"), ("DELETE", "/chats/chat"), ("PATCH", "/chats/chat")):
                assert (await client.request(method, path, json={"title": "x"})).status_code == 405
            assert (await client.get("/chats/other/events")).status_code == 404


def test_a_removed_folder_is_no_error(tmp_path: Path) -> None:
    ChatFiles(tmp_path).remove_all("chat")
    with pytest.raises(ValueError, match="no id"):
        ChatFiles(tmp_path).add("../x", "a", b"text")


def test_a_file_that_is_too_old_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HTTPException):
        ChatFiles(tmp_path).add("c", "a", b"\0")
    with pytest.raises(HTTPException, match="is empty: there is nothing to send"):
        ChatFiles(tmp_path).add("c", "a.txt", b"")
