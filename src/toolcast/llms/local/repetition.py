"""An answer that repeats itself for ever, as small models write them: where it begins to is where it is ended.

`Repetition` finds it in text that comes in pieces; `EndedByRepetition` is a decoder that ends such an answer.
"""

from __future__ import annotations

from typing import Final

from ...events import Event, Finish, TextDelta
from ...providers.base import ResponseDecoder

REPETITION: Final = "repetition"
"""`Finish.raw` of an answer that was ended because it repeated itself."""

_LONGEST: Final = 400
"""Characters of the longest passage whose repetitions are found."""
_TIMES: Final = 3
"""How often a passage must follow itself; short ones more often, until that makes `_LEAST` characters."""
_LEAST: Final = 160
_STEP: Final = 40
"""Characters after which is looked again."""


class Repetition:
    """The end of a text, and whether it is one passage again and again."""

    def __init__(self) -> None:
        self._tail = ""
        self._new = 0

    def take(self, text: str) -> int | None:
        """Add a piece. Return how many characters of it come before the text is found to repeat itself, if it does."""
        for start in range(0, len(text), _STEP):
            piece = text[start : start + _STEP]
            self._tail = f"{self._tail}{piece}"[-(_TIMES + 1) * _LONGEST :]
            self._new += len(piece)
            if self._new >= _STEP:
                self._new = 0
                if self._repeats():
                    return start + len(piece)
        return None

    def _repeats(self) -> bool:
        tail = self._tail
        for length in range(1, _LONGEST + 1):
            same = max(_TIMES * length, _LEAST)
            if same + length > len(tail):
                return False
            if tail.endswith(tail[-length:] * 2) and tail[-same:] == tail[-same - length : -length]:
                return True
        return False


class EndedByRepetition(ResponseDecoder):
    """The events of `inner`, ended with the reason `"other"` once the text repeats itself."""

    def __init__(self, inner: ResponseDecoder) -> None:
        self._inner = inner
        self._repetition = Repetition()
        self._is_over = False

    @property
    def failed(self) -> bool:
        """Return whether nothing more is to be read."""
        return self._is_over or self._inner.failed

    @property
    def model(self) -> str | None:
        """The model that the response names, once it has."""
        return self._inner.model

    @property
    def open_call(self) -> str | None:
        """None: all events are read."""
        return None

    def more_text(self, data: bytes) -> str | None:
        """Return None: all events are read."""
        return None

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that `data` completes."""
        return self._ended(self._inner.feed(data))

    def close(self) -> list[Event]:
        """Return the last events."""
        return [Finish("other", raw=REPETITION)] if self._is_over else self._ended(self._inner.close())

    def _ended(self, events: list[Event]) -> list[Event]:
        """Return the events up to where the text repeats itself."""
        out: list[Event] = []
        for event in events:
            if isinstance(event, TextDelta):
                kept = self._repetition.take(event.text)
                if kept is not None:
                    self._is_over = True
                    return [*out, TextDelta(event.text[:kept])]
            out.append(event)
        return out
