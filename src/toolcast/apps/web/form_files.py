"""Files that a person attaches on the page: upload with limits, storage, and the parts of messages made of them.

A file is stored under a random id in the folder of its chat, and its name is text beside it, never a path. Its media
type is that of its content; what the browser claims is not read. Only common images are displayed in the page,
never SVG or HTML, which may have scripts.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from ...errors import BadRequest, TryAgain
from ...lazy.lazy_dataclasses import dataclass
from ...messages import DocumentPart, ImagePart, Part, TextPart
from ...stores.store import check_id
from ...text.terminal_text import exposed
from ...toolbox.file_text import text_in
from ...values.capabilities import LLMMetadata
from ..file_mentions import framed_text

MAX_FILES: Final = 10
MAX_BYTES: Final = 20_000_000
"""The limits of the files in a message: their number, and the bytes of one."""

MAX_CHAT_BYTES: Final = 500_000_000
"""The bytes of all files that are stored for one chat."""

_FORM_OVERHEAD: Final = 100_000
_LONGEST_NAME: Final = 200
_ID: Final = re.compile(r"[0-9a-f]{32}")
_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)
IMAGE_TYPES: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
"""The media types that a browser may show within the page."""


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """A file that was attached: its id, its name as text, its media type by its content, and its size in bytes."""

    id: str
    name: str
    media_type: str
    size: int

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serialisable data."""
        own = {"id": self.id, "name": self.name, "media_type": self.media_type, "size": self.size}
        return own | {"image": self.media_type in IMAGE_TYPES}


class ChatFiles:
    """The files of all chats below `folder`, which is created with the first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, chat: str, name: str, data: bytes) -> AttachedFile:
        """Store a file.

        Raises:
            HTTPException: It is empty, or neither an image, a PDF nor text (415), or the chat has no room (413).
        """
        if not data:
            raise HTTPException(415, f"{shown_name(name)} is empty: there is nothing to send")
        media_type = media_type_of(data)
        if media_type is None:
            raise HTTPException(
                415, f"{shown_name(name)}: only images (PNG, JPEG, GIF, WebP), PDF and text can be sent"
            )
        place = self._place(chat)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if sum(path.stat().st_size for path in place.iterdir()) + len(data) > MAX_CHAT_BYTES:
            raise HTTPException(413, f"the files of a chat can have at most {MAX_CHAT_BYTES:,} bytes together")
        file = AttachedFile(token_hex(16), shown_name(name), media_type, len(data))
        for path, content in (
            (place / file.id, data),
            (place / f"{file.id}.json", json.dumps(file.to_dict()).encode()),
        ):
            path.touch(mode=0o600)
            path.write_bytes(content)
        return file

    def find(self, chat: str, id: str) -> AttachedFile:
        """Return the description of a file. Raises `LookupError` if there is none."""
        if not _ID.fullmatch(id):
            raise LookupError(f"no file {id!r:.60}")
        try:
            data = json.loads((self._place(chat) / f"{id}.json").read_bytes())
        except OSError:
            raise LookupError(f"no file {id!r}: it was removed; attach it again") from None
        return AttachedFile(id, data["name"], data["media_type"], data["size"])

    def read(self, chat: str, id: str) -> tuple[AttachedFile, bytes]:
        """Return a file and its content. Raises `LookupError` if there is none."""
        file = self.find(chat, id)
        return file, (self._place(chat) / file.id).read_bytes()

    def remove(self, chat: str, id: str) -> None:
        """Remove a file. Raises `LookupError` if there is none."""
        file = self.find(chat, id)
        for path in (self._place(chat) / f"{file.id}.json", self._place(chat) / file.id):
            path.unlink(missing_ok=True)

    def remove_all(self, chat: str) -> None:
        """Remove the files of a chat."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._place(chat))

    def _place(self, chat: str) -> Path:
        return self._folder / check_id(chat)


def media_type_of(data: bytes) -> str | None:
    """Return the media type of the content of a file; None if it is none that can be sent."""
    found = next((media_type for signature, media_type in _SIGNATURES if signature.match(data)), None)
    if found is not None or not data:
        return found
    try:
        text_in(data, "the file").text.encode()
    except (TryAgain, UnicodeError):
        return None
    return "text/plain"


def shown_name(name: str) -> str:
    """Return the name of a file as text: without folders, invisible characters are exposed, and it is shortened."""
    last = exposed(" ".join(re.split(r"[/\\]", name)[-1].split()))
    return last[:_LONGEST_NAME] or "file"


def message_part(name: str, media_type: str, data: bytes, metadata: LLMMetadata) -> Part:
    """Return the part of a message for a file.

    Raises:
        BadRequest: The model does not accept a file of this type.
    """
    if media_type == "text/plain":
        return TextPart(framed_text("file", name, text_in(data, name).text))
    capabilities, model = metadata.capabilities, metadata.model_name
    is_image = media_type in IMAGE_TYPES
    accepted = capabilities.images if is_image else capabilities.documents
    if accepted is False:
        kind = "images" if is_image else "documents"
        raise BadRequest(f"{model} does not accept {kind}: remove {name}, or select another model")
    if is_image:
        return ImagePart(data=data, media_type=media_type)
    return DocumentPart(data=data, media_type=media_type, name=name)


async def uploaded_files(
    request: Request, store: Callable[[str, bytes], Awaitable[AttachedFile]]
) -> list[AttachedFile]:
    """Store the files in the field `file` of a form, and return them.

    Raises:
        HTTPException: The request is no such form, or has too many or too large files.
    """
    kind, _, _ = request.headers.get("content-type", "").partition(";")
    if kind.strip().lower() != "multipart/form-data":
        raise HTTPException(415, "expected Content-Type multipart/form-data")
    limited = Request(request.scope, _limit_body(request, MAX_FILES * MAX_BYTES + _FORM_OVERHEAD))
    async with limited.form(max_files=MAX_FILES, max_fields=1) as form:
        files = [each for each in form.getlist("file") if isinstance(each, UploadFile)]
        if not files:
            raise HTTPException(400, "expected files in the field 'file'")
        if large := [each for each in files if (each.size or 0) > MAX_BYTES]:
            raise HTTPException(413, f"{shown_name(large[0].filename or '')} is larger than {MAX_BYTES:,} bytes")
        return [await store(each.filename or "", await each.read()) for each in files]


def _limit_body(request: Request, limit: int) -> Any:
    """Return the `receive` of a request, which raises once the body is larger than `limit` bytes."""
    received = 0

    async def receive() -> Mapping[str, Any]:
        nonlocal received
        message = cast("Mapping[str, Any]", await request.receive())
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, f"the files are larger than {limit:,} bytes together")
        return message

    return receive
