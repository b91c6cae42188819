"""Forms, read again by the parser of python-multipart and by that of the standard library."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import HTTP

import pytest
from hypothesis import example, given, strategies as st
from python_multipart.multipart import MultipartParser, parse_options_header

from toolcast.providers import file_codec
from toolcast.providers.file_codec import encode_form

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
NAME = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="%\\\u2028\u2029\u0085"), max_size=20)


def parsed(body: bytes, content_type: str) -> list[tuple[dict[str, str], bytes]]:
    """Return the headers and the content of each part."""
    _, options = parse_options_header(content_type)
    parts: list[tuple[dict[str, str], bytes]] = []
    headers: dict[str, str] = {}
    data = {"field": b"", "value": b"", "content": b""}

    def add(name: str):  # a callback of the parser
        def collect(chunk: bytes, start: int, end: int) -> None:
            data[name] += chunk[start:end]

        return collect

    def end_header() -> None:
        headers[data["field"].decode().lower()] = data["value"].decode()
        data["field"] = data["value"] = b""

    def end_part() -> None:
        parts.append((dict(headers), data["content"]))
        headers.clear()
        data["content"] = b""

    parser = MultipartParser(
        options[b"boundary"],
        {
            "on_header_field": add("field"),
            "on_header_value": add("value"),
            "on_header_end": end_header,
            "on_part_data": add("content"),
            "on_part_end": end_part,
        },
    )
    parser.write(body)
    parser.finalize()
    return parts


def options_of(headers: dict[str, str]) -> dict[str, str]:
    _, options = parse_options_header(headers["content-disposition"].encode())
    return {name.decode(): value.decode() for name, value in options.items()}


@given(st.dictionaries(NAME.filter(bool), TEXT, max_size=3), NAME.filter(bool), NAME.filter(bool), st.binary())
@example({}, "file", 'a"b.jsonl', b"\r\n--")
def test_a_form(fields: dict[str, str], name: str, filename: str, content: bytes) -> None:
    body, content_type = encode_form(fields, name, filename, content, "application/jsonl")
    *others, (headers, found) = parsed(body, content_type)
    assert found == content
    assert headers["content-type"] == "application/jsonl"
    quoted = {name: value.replace('"', "%22") for name, value in (("name", name), ("filename", filename))}
    assert options_of(headers) == quoted
    assert [(options_of(head)["name"], value.decode()) for head, value in others] == [
        (name.replace('"', "%22"), value) for name, value in fields.items()
    ]


@given(st.binary(max_size=200))
def test_the_parser_of_the_standard_library(content: bytes) -> None:
    body, content_type = encode_form({"purpose": "batch"}, "file", "a.jsonl", content, "application/octet-stream")
    form = BytesParser(policy=HTTP).parsebytes(b"content-type: " + content_type.encode() + b"\r\n\r\n" + body)
    first, second = form.get_payload()
    assert first.get_payload(decode=True) == b"batch"
    assert second.get_filename() == "a.jsonl"
    # It reads lone CRs and LFs as line ends, as mail has them: binary content is compared by the other parser.
    if not set(content) & set(b"\r\n"):
        assert second.get_payload(decode=True) == content


def test_names_cannot_add_headers() -> None:
    body, content_type = encode_form({}, "file", 'a"\r\nX-Evil: 1', b"x", "text/plain")
    [(headers, _)] = parsed(body, content_type)
    assert set(headers) == {"content-disposition", "content-type"}
    assert options_of(headers)["filename"] == "a%22%0D%0AX-Evil: 1"


def test_the_boundary_is_not_in_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """No content has its own digest, so that a digest is made that changes with the second update alone."""

    class Digest:
        def __init__(self) -> None:
            self.updates = 0

        def update(self, data: bytes) -> None:
            self.updates += data == b"."

        def hexdigest(self) -> str:
            return "01"[self.updates] * 64

    monkeypatch.setattr(file_codec, "sha256", Digest)
    body, content_type = encode_form({}, "file", "a", b"--" + b"0" * 64, "text/plain")
    assert content_type == f"multipart/form-data; boundary={'1' * 32}"
    assert parsed(body, content_type)[0][1] == b"--" + b"0" * 64


def test_equal_forms_are_equal() -> None:
    assert encode_form({}, "file", "a", b"x", "text/plain") == encode_form({}, "file", "a", b"x", "text/plain")
