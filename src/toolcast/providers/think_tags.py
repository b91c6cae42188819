"""`<think>` tags: thoughts in the text of a response, separated from it as it streams."""

from __future__ import annotations

from ..events import Event, TextDelta, ThinkingDelta


class ThinkTags:
    """A parser of text that may begin with thoughts in `<think>` tags, cut anywhere."""

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
            if "<think>".startswith(begun):
                return []
            if not begun.startswith("<think>"):
                self._state = "text"
                return self.close()
            self._state = "thinking"
            self._delayed = begun.removeprefix("<think>")
        return self._thinking()

    def close(self) -> list[Event]:
        """Return the text that was delayed because it might have been the start of a tag."""
        delayed, self._delayed = self._delayed, ""
        if not delayed:
            return []
        return [ThinkingDelta(delayed)] if self._state == "thinking" else [TextDelta(delayed)]

    def _thinking(self) -> list[Event]:
        thought, tag, text = self._delayed.partition("</think>")
        if tag:
            self._delayed = ""
            return [*([ThinkingDelta(thought)] if thought else []), *self._behind(text)]
        tag_start = next((n for n in range(7, 0, -1) if thought.endswith("</think>"[:n])), 0)
        self._delayed = thought[len(thought) - tag_start :]
        thought = thought[: len(thought) - tag_start]
        return [ThinkingDelta(thought)] if thought else []

    def _behind(self, text: str) -> list[Event]:
        """Return the text after the thoughts, without the empty lines it begins with."""
        text = text.lstrip("\n")
        self._state = "text" if text else "behind"
        return [TextDelta(text)] if text else []
