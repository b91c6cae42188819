"""`POST /objects`: a structured call without a front end's protocol. Plain JSON messages, easy to apply in a browser.

Each message is one change of the growing object: `{"kind": "set" | "text", "path": [...], "value": ...}`, or with
`?format=json-patch` an operation of RFC 6902. The last one is `{"done": true, "value": ...}` with the whole object, or
`{"error": {"code": ..., "message": ...}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from ..parsing.path_changes import PathChange, steps_of
from ..structured.object_streams import ChangeFormat
from ..values.plain_data import to_plain
from .protocol import PublicError, RequestError, RunInput, message_json

_FORMATS = ("data", "json-patch")


class ObjectProtocol:
    """The protocol of `POST /objects`. The body is `{"values": {...}}`, with a value for each variable."""

    name: str = "objects"
    path: str = "/objects"
    headers: Mapping[str, str] = {}

    def parse(self, body: Any) -> RunInput:
        """Return the values of a request; `"stream": false` in it gives one JSON response."""
        fields = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
        values, stream = fields.get("values"), fields.get("stream", True)
        if not isinstance(values, dict) or not isinstance(stream, bool):
            raise RequestError('expected {"values": {...}} with a value for each variable of the prompt')
        return RunInput(values=cast("dict[str, Any]", values), stream=stream)

    def with_format(self, run: RunInput, format: str) -> RunInput:
        """Return the input of a run whose changes have this format. Raises `RequestError` for an unknown one."""
        if format not in _FORMATS:
            raise RequestError(f"format={format!r:.60}: expected one of {', '.join(_FORMATS)}")
        return replace(run, echo={"format": format})

    def change_format(self, run: RunInput) -> ChangeFormat:
        """Return the format of the changes."""
        return "data" if run.echo is None else cast("ChangeFormat", run.echo["format"])

    def encoder(self, run: RunInput) -> ObjectEncoder:
        """Return the encoder of one response."""
        return ObjectEncoder()

    def whole(self, run: RunInput, result: object) -> Any:
        """Return the body of a response that is not streamed."""
        return {"done": True, "value": to_plain(result)}

    def error_body(self, error: PublicError) -> Any:
        """Return the body of a response that is an error."""
        return {"error": {"code": error.code, "message": error.message}}


class ObjectEncoder:
    """Encodes the changes of one structured call."""

    def begin(self) -> list[str]:
        """Return no message."""
        return []

    def feed(self, event: object) -> list[str]:
        """Return the message for one change."""
        if isinstance(event, PathChange):
            return [message_json({"kind": event.kind, "path": steps_of(event.path), "value": event.value})]
        return [message_json(cast("Mapping[str, Any]", event))]

    def end(self, result: object) -> list[str]:
        """Return the last message, with the whole object."""
        return [message_json({"done": True, "value": to_plain(result)})]

    def fail(self, error: PublicError) -> list[str]:
        """Return the last message after an error."""
        return [message_json({"error": {"code": error.code, "message": error.message}})]
