"""AWS event stream messages, written by hand: the encoder of what toolcast decodes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Literal
from zlib import crc32

HeaderType = Literal["true", "false", "byte", "short", "int", "long", "bytes", "str", "time", "uuid"]


def header(name: str, kind: HeaderType, value: Any = None) -> bytes:
    """The bytes of one header."""
    started = bytes([len(name.encode())]) + name.encode()
    match kind:
        case "true":
            return started + b"\x00"
        case "false":
            return started + b"\x01"
        case "byte":
            return started + b"\x02" + struct.pack("!b", value)
        case "short":
            return started + b"\x03" + struct.pack("!h", value)
        case "int":
            return started + b"\x04" + struct.pack("!i", value)
        case "long":
            return started + b"\x05" + struct.pack("!q", value)
        case "bytes":
            return started + b"\x06" + struct.pack("!H", len(value)) + value
        case "str":
            text = value.encode()
            return started + b"\x07" + struct.pack("!H", len(text)) + text
        case "time":
            return started + b"\x08" + struct.pack("!q", value)
        case "uuid":
            return started + b"\x09" + value


def message(headers: bytes, payload: bytes) -> bytes:
    """The bytes of a message."""
    prelude = struct.pack("!II", 16 + len(headers) + len(payload), len(headers))
    begun = prelude + struct.pack("!I", crc32(prelude)) + headers + payload
    return begun + struct.pack("!I", crc32(begun))


def text_headers(**values: str) -> bytes:
    """Headers with texts: `message_type` is `:message-type`."""
    return b"".join(header(":" + name.replace("_", "-"), "str", value) for name, value in values.items())


def event(kind: str, data: Any) -> bytes:
    """A message with an event, as Bedrock sends it: with padding in its payload."""
    payload = {**data, "p": "abcdefgh"[: len(kind) % 8]} if isinstance(data, Mapping) else data
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return message(text_headers(event_type=kind, content_type="application/json", message_type="event"), body)


def exception(kind: str, data: Any) -> bytes:
    """A message with an exception of the API."""
    headers = text_headers(exception_type=kind, content_type="application/json", message_type="exception")
    return message(headers, json.dumps(data).encode())


def failure(code: str, text: str) -> bytes:
    """A message with an error that the API does not define."""
    return message(text_headers(message_type="error", error_code=code, error_message=text), b"")
