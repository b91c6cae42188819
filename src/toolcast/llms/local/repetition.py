"""An answer that repeats itself for ever, as small models write them: where it begins to is where it is ended.

`Repetition` finds it in text that comes in pieces; `EndedByRepetition` is a decoder that ends such an answer.
"""

from __future__ import annotations

from typing import Final

from ...events import Event, Finish, TextDelta
from ...providers.base import DecoderWrapper, ResponseDecoder

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


class EndedByRepetition(DecoderWrapper):
    """The events of `inner`, ended with the reason `"other"` once the text repeats itself."""

    def __init__(self, inner: ResponseDecoder) -> None:
        super().__init__(inner)
        self._repetition = Repetition()
        self._is_over = False

    @property
    def failed(self) -> bool:
        """Return whether nothing more is to be read."""
        return self._is_over or super().failed

    def close(self) -> list[Event]:
        """Return the last events."""
        return [Finish("other", raw=REPETITION)] if self._is_over else super().close()

    def _changed(self, events: list[Event]) -> list[Event]:
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
