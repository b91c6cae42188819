from __future__ import annotations

import pytest

from toolcast.messages import DocumentPart
from toolcast.serve.protocol import RequestError
from toolcast.serve.request_fields import Attachments, Fields

FIELDS = Fields({"text": "a", "flag": True, "none": None, "list": [{"x": 1}], "object": {"y": "b"}})


def test_fields_are_read() -> None:
    assert FIELDS.text("text") == "a"
    assert FIELDS.text("missing", "default") == FIELDS.text("none", "default") == "default"
    assert [FIELDS.flag(name) for name in ("flag", "none", "missing")] == [True, False, False]
    assert [name in FIELDS for name in ("text", "none", "missing")] == [True, False, False]
    assert FIELDS.objects("list")[0].value("x") == 1
    assert FIELDS.object("object").text("y") == "b"
    assert FIELDS.object("missing").values() == {}


def test_errors_name_the_place() -> None:
    with pytest.raises(RequestError, match=r"^list\[0\]\.x: expected a string, got the number 1$"):
        FIELDS.objects("list")[0].text("x")
    with pytest.raises(RequestError, match=r"^object\.z: expected a list, got nothing$"):
        FIELDS.object("object").objects("z")
    with pytest.raises(RequestError, match=r"^text: expected true or false, got a string$"):
        FIELDS.flag("text")
    with pytest.raises(RequestError, match=r"^the body: expected an object, got the number 1\.5$"):
        Fields(1.5)


def test_files_are_parts_of_messages() -> None:
    attachments = Attachments(10, remote=True)
    assert attachments.part("url", "data:text/csv,a%2Cb", name="a.csv") == DocumentPart(
        data=b"a,b", media_type="text/csv", name="a.csv"
    )
    assert attachments.part("url", "HTTPS://example.com/a") == DocumentPart("HTTPS://example.com/a")
    for url in ("file:///etc/passwd", "ftp://example.com/a", "data:text/csv", ""):
        with pytest.raises(RequestError, match=r"^url: expected a data URL, got"):
            attachments.part("url", url)
    with pytest.raises(RequestError, match=r"^url: expected a file of at most 10 bytes, got 11$"):
        attachments.part("url", "data:text/csv,12345678901")
