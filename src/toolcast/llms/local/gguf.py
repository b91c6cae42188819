"""The header of a GGUF model file, read in Python before llama.cpp's own parser sees a file from elsewhere.

The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3: magic number,
version, number of tensors, number of metadata entries; the metadata; name, shape, type and offset of each tensor; the
data. All numbers are little-endian. Every count and length in the file is untrusted: each has a limit, nothing is
allocated by it, and tensors have to lie within the file, so that a download that was cut off is found.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import IO, Final, TypeAlias

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass

MAGIC: Final = b"GGUF"

_MOST_ENTRIES: Final = 10_000
_MOST_TENSORS: Final = 100_000
_LONGEST_NAME: Final = 1 << 16
_LONGEST_STRING: Final = 1 << 23
_LONGEST_ARRAY: Final = 1 << 23
_LARGEST_HEADER: Final = 1 << 28
_MOST_DIMENSIONS: Final = 4
_STRING: Final = 8
_ARRAY: Final = 9
_FORMATS: Final[Mapping[int, str]] = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
"""The types of numbers in metadata, as formats of `struct`."""
_BLOCKS: Final[Mapping[int, tuple[int, int]]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36), 10: (256, 84),
    11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66), 17: (256, 74),
    18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136), 24: (1, 1), 25: (1, 2),
    26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54), 35: (256, 66), 39: (32, 17),
}  # fmt: skip
"""The types of tensors: the elements of a block, and its bytes (`ggml_type`). Others are newer than this table."""

Scalar: TypeAlias = str | int | float | bool


class DamagedModelFile(ToolcastError):
    """A model file that is no GGUF file, is incomplete, or has a header that makes no sense."""


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """The facts in the header of a model file.

    Attributes:
        version: The version of the format.
        metadata: The entries that are no arrays.
        tensors: The number of tensors.
        parameters: The number of their elements.
    """

    version: int
    metadata: Mapping[str, Scalar]
    tensors: int
    parameters: int

    @property
    def architecture(self) -> str:
        """The architecture of the model, such as `llama`; an empty text if the file does not name it."""
        return self._text("general.architecture")

    @property
    def name(self) -> str:
        """The name that the authors of the file gave the model; may be an empty text."""
        return self._text("general.name")

    @property
    def context_length(self) -> int | None:
        """The context in tokens that the model was trained for; None if the file does not name it."""
        found = self.metadata.get(f"{self.architecture}.context_length")
        return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None

    @property
    def chat_template(self) -> str:
        """The template of a conversation; an empty text for a model that does not chat."""
        return self._text("tokenizer.chat_template")

    def _text(self, key: str) -> str:
        found = self.metadata.get(key)
        return found if isinstance(found, str) else ""


def read_header(path: Path) -> GGUFHeader:
    """Return the header of the model file at `path`.

    Raises:
        DamagedModelFile: It is no complete GGUF file.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        try:
            return parse_header(file, path.stat().st_size)
        except DamagedModelFile as error:
            raise DamagedModelFile(f"{path}: {error}") from None


def parse_header(file: IO[bytes], size: int) -> GGUFHeader:
    """Return the header of an open model file of `size` bytes.

    Raises:
        DamagedModelFile: See `read_header`.
    """
    if file.read(len(MAGIC)) != MAGIC:
        raise DamagedModelFile("it is not a GGUF model file")
    reader = _Reader(file, size)
    version = reader.number("I")
    if version not in (2, 3):
        known = "written on a big-endian machine" if version in (2 << 24, 3 << 24) else f"of version {version}"
        raise DamagedModelFile(f"it is a GGUF file {known}; versions 2 and 3 are supported, little-endian")
    tensors = reader.count("Q", _MOST_TENSORS, "tensors")
    entries = reader.count("Q", _MOST_ENTRIES, "metadata entries")
    metadata: dict[str, Scalar] = {}
    for _ in range(entries):
        key = reader.string(_LONGEST_NAME)
        value = reader.value()
        if value is not None:
            metadata[key] = value
    parameters, end = _read_tensors(reader, tensors)
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or isinstance(alignment, bool) or not 0 < alignment <= 1 << 20:
        raise DamagedModelFile(f"its alignment is {alignment!r}")
    data = -(-reader.position // alignment) * alignment
    if tensors and data + end > size:
        raise DamagedModelFile(f"it is incomplete: it has {size:,} bytes, and its tensors need {data + end:,}")
    return GGUFHeader(version, metadata, tensors, parameters)


def _read_tensors(reader: _Reader, count: int) -> tuple[int, int]:
    """Return the number of elements of all tensors, and the position in the data at which the last one ends."""
    parameters = end = 0
    for _ in range(count):
        name = reader.string(_LONGEST_NAME)
        dimensions = [reader.number("Q") for _ in range(reader.count("I", _MOST_DIMENSIONS, "dimensions"))]
        kind, offset = reader.number("I"), reader.number("Q")
        elements = prod(dimensions)
        per_block, block = _BLOCKS.get(kind, (1, 0))
        if dimensions and dimensions[0] % per_block:
            raise DamagedModelFile(f"the tensor {name[:80]!r} has rows of {dimensions[0]}, no multiple of {per_block}")
        parameters += elements
        end = max(end, offset + elements // per_block * block)
    return parameters, end


class _Reader:
    """Reads numbers and strings after the magic number of a file of `size` bytes."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._limit = min(size, _LARGEST_HEADER)
        self.position: int = len(MAGIC)

    def bytes(self, count: int) -> bytes:
        self._advance(count)
        data = self._file.read(count)
        if len(data) < count:
            raise DamagedModelFile("it is incomplete: it ends within its header")
        return data

    def number(self, format: str) -> int:
        found: int = struct.unpack(f"<{format}", self.bytes(struct.calcsize(f"<{format}")))[0]
        return found

    def count(self, format: str, limit: int, things: str) -> int:
        """Return a number of things that are read one by one."""
        found = self.number(format)
        if found > limit:
            raise DamagedModelFile(f"its header is damaged: {found:,} {things}, more than {limit:,}")
        return found

    def string(self, limit: int = _LONGEST_STRING) -> str:
        return self.bytes(self.count("Q", limit, "characters in a text")).decode("utf-8", "replace")

    def value(self) -> Scalar | None:
        """Return a number or a text; None for an array, which is skipped."""
        kind = self.number("I")
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            self._skip_array()
            return None
        format = self._format(kind)
        found: Scalar = struct.unpack(f"<{format}", self.bytes(struct.calcsize(f"<{format}")))[0]
        return found

    def _skip_array(self) -> None:
        kind, count = self.number("I"), self.count("Q", _LONGEST_ARRAY, "elements of an array")
        if kind == _STRING:
            for _ in range(count):
                self._skip(self.count("Q", _LONGEST_STRING, "characters in a text"))
        elif kind == _ARRAY:
            raise DamagedModelFile("its header is damaged: it has arrays of arrays")
        else:
            self._skip(count * struct.calcsize(f"<{self._format(kind)}"))

    def _format(self, kind: int) -> str:
        if kind not in _FORMATS:
            raise DamagedModelFile(f"its header is damaged: {kind} is no type of metadata")
        return _FORMATS[kind]

    def _skip(self, count: int) -> None:
        self._advance(count)
        self._file.seek(count, 1)

    def _advance(self, count: int) -> None:
        self.position += count
        if self.position > self._limit:
            raise DamagedModelFile("it is incomplete: it ends within its header")
