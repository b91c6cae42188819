"""Thoughts in tags at the start of a response's text, separated from it as it streams."""

from __future__ import annotations

from ..events import Event, TextDelta, ThinkingDelta
from ..parsing.thoughts import find_end, find_tag, part_start


class ThinkTags:
    """A parser of text that may begin with thoughts in tags, cut anywhere."""

    def __init__(self) -> None:
        self._delayed = ""
        self._state = "start"

    def feed(self, text: str) -> list[Event]:
        """Return the thinking and text deltas of `text`."""
        if self._state == "behind":
            return self._behind(text)
        if self._state == "text":
            return [TextDelta(text)] if text else []
        self._delayed += text
        if self._state == "start":
            begun = self._delayed.lstrip()
            tag = find_tag(begun)
            if tag is None or tag.start() or tag["begin"] is None:
                if not part_start(begun):
                    return []
                self._state = "text"
                return self.close()
            self._state = "thinking"
            self._delayed = begun[tag.end() :]
        return self._thinking()

    def close(self) -> list[Event]:
        """Return the text that was delayed because it might have been the start of a tag."""
        delayed, self._delayed = self._delayed, ""
        if not delayed:
            return []
        return [ThinkingDelta(delayed)] if self._state == "thinking" else [TextDelta(delayed)]

    def _thinking(self) -> list[Event]:
        end = find_end(self._delayed)
        if end is not None:
            thought, text = self._delayed[: end.start()], self._delayed[end.end() :]
            self._delayed = ""
            return [*([ThinkingDelta(thought)] if thought else []), *self._behind(text)]
        at = part_start(self._delayed)
        thought, self._delayed = self._delayed[:at], self._delayed[at:]
        return [ThinkingDelta(thought)] if thought else []

    def _behind(self, text: str) -> list[Event]:
        """Return the text after the thoughts, without the empty lines it begins with."""
        text = text.lstrip("\n")
        self._state = "text" if text else "behind"
        return [TextDelta(text)] if text else []
