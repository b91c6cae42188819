"""Files in a message: `@path` puts the content of a file into it, and the path of an image the image.

A mention is an `@` at the start of a word. After a backslash it is a plain one, and so is an `@` before anything that
is no path of a file. Only what a person types is read in this way, never the text of a pipe, a page or a model.

Text files and the lists of folders must be below the working directory. Images may be anywhere, as screenshots are;
they are recognized by their content. Protected paths are refused in both.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ..agents.permissions.protected_paths import protected_name, resolved_path
from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import ImagePart, Message, TextPart, user
from ..text.json_text import json_text
from ..values.capabilities import LLMMetadata

TEXT_LIMIT: Final = 256 * 1024
"""The size limit of a text file, in bytes."""
TOTAL_LIMIT: Final = 1024 * 1024
"""The size limit of all texts of a message together, in bytes."""
IMAGE_LIMIT: Final = 20 * 1024 * 1024
"""The size limit of an image, in bytes."""

_MENTION: Final = re.compile(r"""(?<![\w\\@.])@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\[ ()&'"]|[^\s"'`])+))""")
_DRAGGED: Final = re.compile(r"""(?<!\S)(?:'([^'\n]+)'|"([^"\n]+)"|((?:\\[^\n]|[^\s\\])+))(?!\S)""")
_AFTER_WORDS: Final = ".,;:!?)]}>"
_IMAGE_SUFFIXES: Final = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_FILE_NAME: Final = re.compile(r"[^/\s]/|^[\w-]+\.(?:py|md|txt|json|ya?ml|toml|csv|html?|[jt]sx?|css|sh|png|jpe?g)$")
"""Mentions that look like files. If they name none, a note is shown; others, such as names of people, are text."""
_MOST_ENTRIES: Final = 200
_CHARACTERS_PER_TOKEN: Final = 4
_FRAMED: Final = re.compile(r'\n\n<(file|folder) path="([^"\n]*)">\n(.*)</\1>', re.DOTALL)
_START: Final = 16
"""Bytes by which images are recognized."""


@dataclass(frozen=True, slots=True)
class MessageWithFiles:
    """A message, `notes` for the person about the files in it, and those of them that are `warnings`."""

    message: Message
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Mentioned:
    """A path as it was typed, and where the file system resolves it to."""

    name: str
    full: str


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a mentioned path: a text or an image, and what it is."""

    part: TextPart | ImagePart
    size: int
    note: str


def message_with_files(
    text: str, root: str | os.PathLike[str], metadata: Callable[[], LLMMetadata]
) -> MessageWithFiles:
    """Return the user's message for a typed text, with the files that it mentions.

    Args:
        text: The text as it was typed. It is the first part of the message.
        root: The working directory.
        metadata: Returns the metadata of the LLM, by which images are refused. It is called for images only.

    Raises:
        ToolcastError: A file is protected, outside of the working directory, binary, too large, or not readable, or the
            model does not read images.
    """
    folder = os.path.realpath(root)
    contents: dict[str, _Content] = {}
    warnings: list[str] = []
    for path in _mentioned(text):
        if (found := _find(path, folder)) is not None:
            contents.setdefault(found.full, _read(found, folder))
        elif _FILE_NAME.search(path):
            warnings.append(f"@{path} names no file: it is sent as text.")
    for path in _dragged(text):
        if (found := _find(path, folder)) is not None:
            contents.setdefault(found.full, _read(found, folder))
    if any(isinstance(content.part, ImagePart) for content in contents.values()):
        require_images(metadata())
    if sum(content.size for content in contents.values() if isinstance(content.part, TextPart)) > TOTAL_LIMIT:
        raise ToolcastError(f"the files have more than {format_size(TOTAL_LIMIT)} together: mention fewer of them")
    parts = [content.part for content in contents.values()]
    notes = (*warnings, *(content.note for content in contents.values()))
    return MessageWithFiles(user(text.replace("\\@", "@"), *parts), notes, tuple(warnings))


def require_images(metadata: LLMMetadata) -> None:
    """Raise `ToolcastError` if the model is known not to read images."""
    if metadata.capabilities.images is False:
        raise ToolcastError(
            f"{metadata.model_name} does not read images: choose another model with /model, or remove the image"
        )


def typed_text(message: Message) -> str:
    """Return the text of a user message without the files in it."""
    return next((part.text for part in message.parts if isinstance(part, TextPart)), "")


def file_part(text: str) -> tuple[str, str] | None:
    """Return the heading and the content of a text that `message_with_files` has added; None for any other text."""
    found = _FRAMED.fullmatch(text)
    return None if found is None else (f"{found[1]} {found[2]}", found[3])


def image_type(data: bytes) -> str | None:
    """Return the media type of an image by its first bytes: PNG, JPEG, GIF or WebP; None for anything else."""
    for start, kind in (
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
    ):
        if data.startswith(start):
            return kind
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def decoded_text(data: bytes, name: str) -> str:
    """Return the text of a file.

    Raises:
        ToolcastError: It is a binary file, or a text in another encoding than UTF-8.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if not any(byte < 32 and byte not in b"\t\n\f\r\x1b" for byte in data):
            raise ToolcastError(
                f"{name} is no text in UTF-8: convert it, for example with `iconv -f ISO-8859-1 -t UTF-8`"
            ) from None
        text = "\0"
    if "\0" in text:
        raise ToolcastError(
            f"{name} is a binary file: only text in UTF-8 and images (PNG, JPEG, GIF, WebP) can be sent"
        )
    return text


def is_mentionable(path: str) -> bool:
    """Return whether a path may be completed: one that is not protected."""
    return protected_name(path) is None


def format_size(size: int) -> str:
    """Return a number of bytes for a person."""
    if size < 1000:
        return f"{size} bytes"
    return f"{size / 1000:,.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:,.1f} MB"


def _mentioned(text: str) -> Iterator[str]:
    for found in _MENTION.finditer(text):
        yield found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3])


def _dragged(text: str) -> Iterator[str]:
    """Yield the absolute paths of images that are words of the text: a terminal writes that for a dragged file."""
    for found in _DRAGGED.finditer(text):
        word = found[1] or found[2] or re.sub(r"\\(.)", r"\1", found[3])
        if word.startswith("file://"):
            word = unquote(urlsplit(word).path)
        if word.lower().endswith(_IMAGE_SUFFIXES) and (word.startswith("~/") or Path(word).is_absolute()):
            yield word


def _find(path: str, folder: str) -> _Mentioned | None:
    """Return the file or folder that is meant, without the punctuation of a sentence; None if there is none."""
    for name in dict.fromkeys((path, path.rstrip(_AFTER_WORDS))):
        try:
            full = resolved_path(_expanded(name), folder)
            if name and os.path.exists(full):  # noqa: PTH110  # a Path raises an error where a folder cannot be read
                return _Mentioned(name, full)
        except ValueError:  # no path: it contains a NUL
            continue
    return None


def _expanded(name: str) -> str:
    return os.path.expanduser(name)


def protected_by(name: str, full: str, folder: str) -> str | None:
    """Return the protected name in a path, as it was typed or with its links followed; None if it may be sent."""
    texts = (_expanded(name), full)
    return next(filter(None, (protected_name(text, root=folder, braces=False) for text in texts)), None)


def _read(mentioned: _Mentioned, folder: str) -> _Content:
    """Return the content of a file or folder.

    Raises:
        ToolcastError: See `message_with_files`.
    """
    name, path = mentioned.name, Path(mentioned.full)
    if protected := protected_by(name, mentioned.full, folder):
        raise ToolcastError(f"@{name} is protected ({protected}): its content is not sent to a model")
    try:
        kind = path.stat().st_mode
        is_inside = path.is_relative_to(folder)
        if stat.S_ISDIR(kind) and is_inside:
            return _folder_content(name, path)
        if stat.S_ISREG(kind):
            return _file_content(name, path, is_inside=is_inside)
    except OSError as error:
        raise ToolcastError(f"cannot read @{name}: {error.strerror}") from error
    if is_inside:
        raise ToolcastError(f"@{name} is neither a file nor a folder")
    raise _outside(name)


def _file_content(name: str, path: Path, *, is_inside: bool) -> _Content:
    with path.open("rb") as file:
        start = file.read(_START)
        media_type = image_type(start)
        if media_type is None and not is_inside:
            raise _outside(name)
        limit = TEXT_LIMIT if media_type is None else IMAGE_LIMIT
        data = start + file.read(limit + 1 - len(start))
    if len(data) > limit:
        size = format_size(path.stat().st_size)
        raise ToolcastError(f"@{name} has {size}, and the limit is {format_size(limit)}: mention a part of it")
    if media_type is not None:
        part = ImagePart(data=data, media_type=media_type)
        return _Content(part, len(data), f"@{name}: {media_type}, {format_size(len(data))}")
    text = decoded_text(data, f"@{name}")
    tokens = len(text) // _CHARACTERS_PER_TOKEN
    note = f"@{name}: {format_size(len(data))}, about {tokens:,} tokens"
    return _Content(TextPart(framed_text("file", name, text)), len(data), note)


def _folder_content(name: str, path: Path) -> _Content:
    """Return the list of a folder, without the protected names in it."""
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in os.scandir(path))
    names = [each for each in names if is_mentionable(each)]
    shown = names[:_MOST_ENTRIES]
    more = [f"... and {len(names) - len(shown):,} more"] if len(shown) < len(names) else []
    text = "\n".join([*shown, *more])
    return _Content(
        TextPart(framed_text("folder", name, text)), len(text), f"@{name}: a folder with {len(names):,} entries"
    )


def framed_text(kind: str, name: str, text: str) -> str:
    """Return the text between two lines that name it, which the model can tell from the message."""
    end = "" if text.endswith("\n") else "\n"
    return f"\n\n<{kind} path={json_text(name)}>\n{text}{end}</{kind}>"


def _outside(name: str) -> ToolcastError:
    return ToolcastError(f"@{name} is outside of the working directory: only images may be")
