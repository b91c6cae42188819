"""Small GGUF files for tests, as bytes."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

KINDS = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12}
METADATA: Mapping[str, Any] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "llama.context_length": ("I", 2048),
    "llama.rope.freq_base": ("f", 10000.0),
    "tokenizer.ggml.tokens": ["<s>", "a", "ø"],
    "tokenizer.ggml.scores": ("f", [0.0, 1.0, 2.0]),
    "tokenizer.chat_template": "{{ messages }}",
}
TENSORS: Sequence[tuple[str, list[int], int, int]] = (("token_embd.weight", [4, 3], 0, 0), ("out", [32, 2], 8, 64))
"""Name, shape, type and offset: 12 floats of 4 bytes, and two blocks of Q8_0 of 34 bytes."""


def text(value: str) -> bytes:
    """Encode a string."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key: str, value: Any) -> bytes:
    """Encode an entry of the metadata: a text, texts, or `(format, number or numbers)`."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", 8) + text(value)
    if isinstance(value, list):
        return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    format, numbers = value
    if isinstance(numbers, list):
        return text(key) + struct.pack(f"<IIQ{len(numbers)}{format}", 9, KINDS[format], len(numbers), *numbers)
    return text(key) + struct.pack(f"<I{format}", KINDS[format], numbers)


def gguf(
    metadata: Mapping[str, Any] = METADATA,
    tensors: Sequence[tuple[str, list[int], int, int]] = TENSORS,
    *,
    data: int = 64 + 68,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """Return a file with these entries and tensors, and `data` bytes of data."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(entry(key, value) for key, value in metadata.items())
    for name, shape, kind, offset in tensors:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return head + bytes(-len(head) % alignment) + bytes(data)
