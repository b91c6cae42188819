"""Background responses of the Responses protocol: the requests beside the first, and the stream that is resumed.

A response in the background has an id at once and is polled until it has ended. Each event of its stream has a number,
so that a stream that was cut is resumed after the last event that arrived. No I/O.

Source: https://developers.openai.com/api/docs/guides/background, and the reference of `GET /responses/{response_id}`
and `POST /responses/{response_id}/cancel`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ...values.http_request import HTTPRequest
from ..http_adapter import HTTPAdapter, path_segment
from ..response_decoder import as_dict, as_list, as_str
from ..sse import MEDIA_LIMIT, SSE, ServerSentEvents

_RUNNING: Final = frozenset(("queued", "in_progress"))
_ENDS: Final = frozenset(
    ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "error")
)


class BackgroundRequests:
    """The requests for one response.

    Args:
        adapter: The adapter of the service.
        created: The body of the request that has created the response: what it included is requested again.
    """

    def __init__(self, adapter: HTTPAdapter, created: bytes) -> None:
        self._adapter = adapter
        self._include = [("include[]", str(each)) for each in as_list(_object(created).get("include"))]

    def poll(self, id: str) -> HTTPRequest:
        """Return the request for the response as it is now."""
        return self._get(id, self._include)

    def resume(self, id: str, after: int) -> HTTPRequest:
        """Return the request for the events after the one with the number `after`."""
        query = [*self._include, ("stream", "true"), ("starting_after", str(after))]
        return self._get(id, query, {"accept": self._adapter.accept[1]})

    def cancel(self, id: str) -> HTTPRequest:
        """Return the request that cancels the response."""
        return self._adapter.service_request("POST", f"/responses/{path_segment(id)}/cancel")

    def _get(self, id: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str] | None = None) -> HTTPRequest:
        return self._adapter.service_request("GET", f"/responses/{path_segment(id)}", query=query, headers=headers)


def running_id(body: bytes) -> str | None:
    """Return the id of a response that has not ended, from its JSON; None for any other."""
    response = _object(body)
    return as_str(response.get("id")) or None if as_str(response.get("status")) in _RUNNING else None


class NumberedEvents:
    """The complete events of a stream, each once, from connections that end anywhere.

    Attributes:
        id: The id of the response; empty until an event has named it.
        last: The number of the last event; None if the service does not number them.
        over: The response has ended.
    """

    def __init__(self) -> None:
        self.id: str = ""
        self.last: int | None = None
        self.over: bool = False
        self._events = ServerSentEvents(MEDIA_LIMIT)

    def feed(self, data: bytes) -> bytes:
        """Return the events that `data` completes, as a stream."""
        return b"".join([_framed(event) for event in self._events.feed(data) if self._take(event)])

    def end(self) -> bytes:
        """Return the last event, if the end of the connection completes it, and forget any other rest."""
        events: Iterable[SSE] = self._events.close()
        self._events = ServerSentEvents(MEDIA_LIMIT)
        # An event without the line end behind it may be the start of a longer one, unless it is whole JSON.
        return b"".join([_framed(event) for event in events if _object(event.data) and self._take(event)])

    def cut(self) -> None:
        """Forget the incomplete event of a connection that was lost: the next one repeats it."""
        self._events = ServerSentEvents(MEDIA_LIMIT)

    def _take(self, event: SSE) -> bool:
        """Return True for an event that has not arrived before."""
        chunk = _object(event.data)
        number = chunk.get("sequence_number")
        if type(number) is int:
            if self.last is not None and number <= self.last:
                return False
            self.last = number
        self.id = self.id or as_str(as_dict(chunk.get("response")).get("id"))
        self.over = self.over or as_str(chunk.get("type")) in _ENDS
        return True


def _framed(event: SSE) -> bytes:
    return b"data: " + event.data.replace(b"\n", b"\ndata: ") + b"\n\n"


def _object(data: bytes) -> dict[str, Any]:
    """Return the JSON object in `data`; an empty one for anything else, such as `[DONE]`."""
    try:
        return as_dict(json.loads(data))
    except (ValueError, RecursionError):
        return {}
