"""The header of a GGUF file: read whole, and refused at every cut and with every kind of damage."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, strategies

from support.gguf_files import METADATA, gguf, text
from toolcast.llms.local.gguf import DamagedModelFile, GGUFHeader, parse_header, read_header

WHOLE = gguf()


def parse(data: bytes) -> GGUFHeader:
    return parse_header(BytesIO(data), len(data))


def test_a_header(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    header = read_header(tmp_path / "m.gguf")
    assert (header.version, header.tensors, header.parameters) == (3, 2, 12 + 64)
    assert (header.architecture, header.name, header.context_length) == ("llama", "Tiny", 2048)
    assert header.chat_template == "{{ messages }}"
    assert header.metadata["llama.rope.freq_base"] == 10000.0
    assert "tokenizer.ggml.tokens" not in header.metadata


def test_numbers_of_every_type() -> None:
    numbers = {f"n.{format}": (format, 1) for format in "BbHhIifQqd?"}
    assert set(parse(gguf(numbers, [], data=0)).metadata.values()) == {1}


def test_a_header_without_the_facts() -> None:
    header = parse(gguf({"general.architecture": ("I", 3), "general.alignment": ("I", 8)}, [], data=0))
    assert (header.architecture, header.name, header.context_length, header.chat_template) == ("", "", None, "")


def test_every_cut_is_found() -> None:
    for length in range(len(WHOLE)):
        with pytest.raises(DamagedModelFile):
            parse(WHOLE[:length])


@given(strategies.data())
def test_damage_raises_no_other_error(data: strategies.DataObject) -> None:
    damaged = bytearray(WHOLE)
    for _ in range(data.draw(strategies.integers(1, 8))):
        damaged[data.draw(strategies.integers(0, len(damaged) - 1))] = data.draw(strategies.integers(0, 255))
    try:
        parse(bytes(damaged))
    except DamagedModelFile as error:
        assert len(str(error)) < 300


@given(strategies.binary(max_size=300))
def test_anything_after_the_magic_number(data: bytes) -> None:
    with suppress(DamagedModelFile):
        parse(b"GGUF" + data)


HUGE = 2**63
HEAD = b"GGUF" + struct.pack("<I", 3)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not a GGUF model file"),
        (b"<!doctype html>", "not a GGUF model file"),
        (b"GGUF" + struct.pack("<I", 1), "of version 1; versions 2 and 3"),
        (b"GGUF" + struct.pack(">I", 3), "big-endian"),
        (HEAD + struct.pack("<QQ", HUGE, 0), "tensors, more than"),
        (HEAD + struct.pack("<QQ", 0, HUGE), "metadata entries, more than"),
        (HEAD + struct.pack("<QQQ", 0, 1, HUGE), "characters in a text, more than"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<I", 99), "99 is no type of metadata"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", 9, 9, 1), "arrays of arrays"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", 9, 99, 1), "99 is no type"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", 9, 0, HUGE), "elements of an array"),
        (HEAD + struct.pack("<QQ", 0, 1) + text("k") + struct.pack("<IIQ", 9, 10, 1 << 22), "ends within its header"),
        (HEAD + struct.pack("<QQ", 1, 0) + text("t") + struct.pack("<I", 9), "9 dimensions, more than 4"),
        (gguf(METADATA, [("t", [33], 8, 0)]), "rows of 33, no multiple of 32"),
        (gguf(METADATA, [("t", [2**60, 2**60], 0, 0)]), "it is incomplete: it has"),
        (gguf(METADATA, [("t", [4], 0, HUGE)]), "it is incomplete: it has"),
        (gguf({"general.alignment": ("I", 0)}), "its alignment is 0"),
        (gguf({"general.alignment": "x"}), "its alignment is 'x'"),
    ],
)
def test_what_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(DamagedModelFile, match=why):
        parse(data)


def test_types_of_tensors_that_are_newer_than_this_library_are_not_measured() -> None:
    assert parse(gguf(METADATA, [("t", [7], 999, 0)], data=1)).parameters == 7


def test_a_file_that_shrinks_meanwhile() -> None:
    with pytest.raises(DamagedModelFile, match="ends within its header"):
        parse_header(BytesIO(WHOLE[:50]), len(WHOLE))


def test_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(WHOLE[:100])
    with pytest.raises(DamagedModelFile, match=r"m\.gguf: it is incomplete"):
        read_header(tmp_path / "m.gguf")


def test_a_length_allocates_nothing() -> None:
    """Each length is compared with the size of the file before anything of that length is read."""
    data = HEAD + struct.pack("<QQQ", 0, 1, 60_000) + b"k"
    tracemalloc.start()
    with pytest.raises(DamagedModelFile):
        parse(data)
    assert tracemalloc.get_traced_memory()[1] < 50_000
    tracemalloc.stop()
