"""Images and recordings in responses: from base64 text to bytes, with their media types.

Nothing is written to a file, and no URL is fetched. A frame is limited in length (sse.MEDIA_LIMIT), and so is an image;
a recording can have many, so the bytes of a response are limited here.

Sources: ai.google.dev/gemini-api/docs/image-generation and .../speech-generation, developers.openai.com/api/docs/
guides/tools-image-generation and .../audio, openrouter.ai/docs/features/multimodal/image-generation and .../audio.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from ..errors import LimitExceeded, MalformedEvent
from ..messages import ImagePart

MOST_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of images and recordings in one response."""

PCM: Final = "audio/pcm;rate=24000"
"""The media type of OpenAI's `pcm16`: 16-bit samples, little-endian, one channel."""

_TYPE: Final = r"(?:image|audio)/[\w.+-]+(?:;[ \w.+=\"-]*)*"
# The first bytes of files, by media type. WebP and WAV are both RIFF files.
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\xff\xf1", "audio/aac"),
    (b"\xff\xf9", "audio/aac"),
)


class MediaBytes:
    """A decoder of the base64 texts of one response, with the limit of its bytes."""

    __slots__ = ("_decoded", "_rest")

    def __init__(self) -> None:
        self._decoded = 0
        self._rest = ""  # base64 characters whose group of four is incomplete

    def whole(self, text: str) -> bytes:
        """Return the bytes of a complete base64 text. Raise `MalformedEvent` if it is none."""
        self._decoded += len(text) * 3 // 4
        if self._decoded > MOST_BYTES:
            raise LimitExceeded(f"the images and recordings of the answer are longer than {MOST_BYTES} bytes")
        try:
            return b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise MalformedEvent(
                f"an image or a recording in the answer is no base64: {text[:40]!r}. Send the request again."
            ) from None

    def more(self, text: str) -> bytes:
        """Return the bytes of a further chunk of base64 text, which may end in the middle of a group of four."""
        text = self._rest + text
        end = len(text) - len(text) % 4
        self._rest = text[end:]
        return self.whole(text[:end])

    def end(self) -> None:
        """Raise `MalformedEvent` if the last chunk was cut off."""
        if self._rest:
            raise MalformedEvent("a recording in the answer was cut off. Send the request again.")


def media_type_of(data: bytes, declared: str, kind: str) -> str | None:
    """Return the media type of an image or a recording: by its first bytes, else the declared one.

    Args:
        data: The bytes.
        declared: The media type that the service declares; empty if it does not.
        kind: The expected kind: `image` or `audio`.

    Returns:
        The media type, or None if the declared one is none of this kind, so that the data are left alone.
    """
    if kind == "image" and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if kind == "audio" and data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return "audio/wav"
    # Samples without a header can begin with any bytes, so what is declared as them is not looked at.
    if not declared.startswith(("audio/pcm", "audio/L16", "audio/l16")):
        for start, media_type in _SIGNATURES:
            if data.startswith(start) and media_type.startswith(kind):
                return media_type
    return declared if declared.startswith(f"{kind}/") and re.fullmatch(_TYPE, declared) else None


def image_of_url(url: str, media: MediaBytes, opaque: Mapping[str, Any] | None = None) -> ImagePart | None:
    """Return the image of a `data:` URL, or one by its URL; None for anything else. No URL is fetched."""
    head, mark, text = url.partition(";base64,")
    if mark and head.startswith("data:"):
        data = media.whole(text)
        declared = head.removeprefix("data:")
        media_type = media_type_of(data, declared, "image")
        if media_type is None:
            return None
        return ImagePart(data=data, media_type=media_type, opaque=_with_type(opaque, declared, media_type))
    return ImagePart(url=url, opaque=opaque) if url.startswith(("https://", "http://")) else None


def _with_type(opaque: Mapping[str, Any] | None, declared: str, media_type: str) -> Mapping[str, Any] | None:
    """Return `opaque`, with the declared media type where that is another one, as it is sent back."""
    return opaque if declared == media_type else {**(opaque or {}), "media_type": declared}
