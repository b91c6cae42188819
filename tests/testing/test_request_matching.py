"""Requests match if they differ only in what changes from run to run, and a mismatch shows what differs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcast.testing.request_matching import RecordedRequest, describe_difference, find_match
from toolcast.values.credentials import Secret
from toolcast.values.http_request import HTTPRequest

URL = "https://api.example/v1/chat"


def made(data: Any = None, url: str = URL, **headers: str) -> RecordedRequest:
    body = data if isinstance(data, bytes) else b"" if data is None else json.dumps(data).encode()
    return RecordedRequest("POST", url, {name.replace("_", "-"): value for name, value in headers.items()}, body)


SAME = {
    "the order of keys": ({"a": 1, "b": [{"c": 1, "d": 2}]}, {"b": [{"d": 2, "c": 1}], "a": 1}),
    "the order of keys in arguments": ({"arguments": '{"a": 1, "b": 2}'}, {"arguments": '{"b":2,"a":1}'}),
    "generated ids": ({"id": "call_a1b2c3d4e5"}, {"id": "call_z9y8x7w6v5"}),
    "UUIDs": (
        {"a": "run 0b7a3a58-6f0e-4ed3-9f4c-2f1f2f3f4f5f"},
        {"a": "run 5f0e3a58-0b7a-4ed3-9f4c-2f1f2f3f4f5f"},
    ),
    "ids under the name of an id": ({"tool_call_id": "a"}, {"tool_call_id": "b"}),
    "a date": ({"a": "Today is 2026-11-23."}, {"a": "Today is 2027-01-02."}),
    "a date and a time": ({"a": "at 2026-11-23T06:50:37.123Z"}, {"a": "at 2027-01-02 16:05"}),
    "a date in words": ({"a": "Monday, November 23, 2026"}, {"a": "Tuesday, December 1, 2026"}),
    "another date in words": ({"a": "Mon, 23 Nov 2026 06:50:37 GMT"}, {"a": "Tue, 01 Dec 2026 16:00:00 GMT"}),
    "a time": ({"a": "It is 6:50 PM."}, {"a": "It is 11:07 AM."}),
    "a time stamp": ({"created": 1700000000}, {"created": 1800000000.5}),
    "a credential": ({"a": "use [key] now"}, {"a": "use sk-1 now"}),
}
DIFFERENT = {
    "a text": ({"a": "x"}, {"a": "y"}),
    "a type": ({"a": "1"}, {"a": 1}),
    "a key": ({"a": 1}, {"a": 1, "b": 2}),
    "the order of a list": ({"a": [1, 2]}, {"a": [2, 1]}),
    "an empty list and an empty object": ({"a": []}, {"a": {}}),
    "a model with digits": ({"model": "gpt-5.4"}, {"model": "gpt-5.5"}),
    "which of two ids is meant": (
        {"a": ["call_a1b2c3d4e5", "call_b1b2c3d4e5"], "b": "call_a1b2c3d4e5"},
        {"a": ["call_a1b2c3d4e5", "call_b1b2c3d4e5"], "b": "call_b1b2c3d4e5"},
    ),
    "around a credential": ({"a": "use [key] now"}, {"a": "use sk-1 then"}),
    "a number that is no time stamp": ({"n": 1700000000}, {"n": 1800000000}),
    "a body and none": ({"a": 1}, None),
}


@pytest.mark.parametrize("case", SAME)
def test_what_changes_from_run_to_run_is_ignored(case: str) -> None:
    old, new = SAME[case]
    assert find_match(made(new), [made(old)]) == 0


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_the_program_changed_is_not(case: str) -> None:
    old, new = DIFFERENT[case]
    assert find_match(made(new), [made(old)]) is None
    assert describe_difference(made(new), [made(old)])


def test_equal_requests_come_before_those_that_differ_in_a_date() -> None:
    days = [made({"a": f"2026-11-{day}"}) for day in (10, 11, 12)]
    assert [find_match(day, days) for day in days] == [0, 1, 2]
    assert find_match(made({"a": "2027-01-01"}), days) == 0


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("http://127.0.0.1:1234/v1", "http://localhost:5678/v1", True),
        ("http://127.0.0.1:1234/v1", "http://127.0.0.1:1234/v2", False),
        (f"{URL}?a=1&b=2", f"{URL}?b=2&a=1", True),
        (f"{URL}?a=1", f"{URL}?a=2", False),
        (URL, URL.replace("https", "http"), False),
        (URL, URL.replace("api", "other"), False),
        (f"{URL}/call_a1b2c3d4e5", f"{URL}/call_z9y8x7w6v5", True),
    ],
)
def test_urls(old: str, new: str, same: bool) -> None:
    assert (find_match(made(url=new), [made(url=old)]) == 0) is same


def test_the_boundary_of_a_multipart_body() -> None:
    def upload(boundary: str, content: bytes) -> RecordedRequest:
        mark = boundary.encode()
        body = b"--%b\r\ncontent-disposition: form-data\r\n\r\n%b\r\n--%b--\r\n" % (mark, content, mark)
        return made(body, content_type=f'multipart/form-data; boundary="{boundary}"')

    assert find_match(upload("abc123", b"x"), [upload("def456", b"x")]) == 0
    assert find_match(upload("abc123", b"x"), [upload("def456", b"y")]) is None
    assert find_match(upload("abc123", b"\xff"), [upload("def456", b"\xff")]) == 0
    assert "body line 4: x" in describe_difference(upload("a", b"y"), [upload("b", b"x")])


def test_deep_bodies_are_compared() -> None:
    old, new = (b'{"a":' * 50_000 + leaf + b"}" * 50_000 for leaf in (b"1", b"2"))
    assert find_match(made(old), [made(old)]) == 0
    assert find_match(made(new), [made(old)]) is None
    nested: Any = 1
    for _ in range(200):
        nested = [nested]
    assert find_match(made(nested), [made(nested)]) == 0


def test_a_difference_is_shown_where_it_begins_and_not_in_full() -> None:
    old, new = "a" * 500 + "\nOLD" + "b" * 500, "a" * 500 + "\nNEW" + "b" * 500
    text = describe_difference(made({"prompt": new}), [made({"x": 1}), made({"prompt": old})])
    minus, plus = text.splitlines()
    assert minus.startswith("  - body.prompt: …aaa") and "\\nOLD" in minus and minus.endswith("bbb…")
    assert "NEW" in plus and len(plus) < 200


def test_many_differences_are_counted() -> None:
    old, new = ({f"k{number}": number + plus for number in range(30)} for plus in (0, 1))
    assert describe_difference(made(new), [made(old)]).endswith("  and 18 more differences")


def test_the_host_of_an_address_and_the_headers_that_are_recorded() -> None:
    headers = {"Content-Type": "a/b", "x-secret": "x", "accept": Secret("y")}
    for host in ("192.0.2.1:80", "[2001:db8::1]:80", "192.0.2.1"):
        request = HTTPRequest("GET", f"http://{host}/x", headers, b"", (), "api.example")
        found = RecordedRequest.of(request)
        assert found.url == f"http://api.example{':80' if host.endswith(':80') else ''}/x"
        assert found.headers == {"content-type": "a/b"}


@pytest.mark.parametrize("body", [b'{"a": NaN}', b'"text"', b'["\\ud800"]', b"\xff", b"{", b"", b'{"a": 1.50}'])
def test_any_body_is_read_as_it_was_written(body: bytes) -> None:
    request = made(body)
    again = RecordedRequest.from_dict(json.loads(json.dumps(request.to_dict())))
    assert again.exact == request.exact
    assert find_match(request, [again]) == 0
