"""The encoding of a form with a file as `multipart/form-data` (RFC 7578)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

_QUOTED: Final = {'"': "%22", "\r": "%0D", "\n": "%0A"}


def encode_form(
    fields: Mapping[str, str], name: str, filename: str, content: bytes, content_type: str
) -> tuple[bytes, str]:
    """Return the body of a form with one file, and the value of its header `content-type`.

    Args:
        fields: The other fields of the form, which come first.
        name: The name of the field with the file.
        filename: The name of the file.
        content: The content of the file.
        content_type: The media type of the file.
    """
    boundary = _boundary(content, *fields.values())
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(field)}"\r\n\r\n{value}\r\n'.encode()
        for field, value in fields.items()
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"; filename="{_quoted(filename)}"\r\n'
    parts += [f"{head}Content-Type: {content_type}\r\n\r\n".encode(), content, f"\r\n--{boundary}--\r\n".encode()]
    return b"".join(parts), f"multipart/form-data; boundary={boundary}"


def _boundary(content: bytes, *values: str) -> str:
    """Return a boundary that occurs in none of the values; equal forms have equal ones, so that recordings match."""
    everything = (content, *(value.encode() for value in values))
    digest = sha256()
    for each in everything:
        digest.update(each)
    while any(digest.hexdigest()[:32].encode() in each for each in everything):
        digest.update(b".")
    return digest.hexdigest()[:32]


def _quoted(text: str) -> str:
    """Return a name with the escapes of HTML forms, which servers read (RFC 7578, section 2, and the HTML standard)."""
    return re.sub('["\r\n]', lambda found: _QUOTED[found[0]], text)
