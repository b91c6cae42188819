"""`<think>` tags: thoughts in the text of a response, separated from it as it streams."""

from __future__ import annotations

from ..events import Event, TextDelta, ThinkingDelta


class ThinkTags:
    """Text that may begin with thoughts in `<think>` tags -> thinking and text, wherever it is cut."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"

    def feed(self, text: str) -> list[Event]:
        """What `text` adds to the thoughts and to the text."""
        if self._state == "behind":
            return self._behind(text)
        if self._state == "text":
            return [TextDelta(text)] if text else []
        self._held += text
        if self._state == "start":
            begun = self._held.lstrip()
            if "<think>".startswith(begun):
                return []
            if not begun.startswith("<think>"):
                self._state = "text"
                return self.close()
            self._state = "thinking"
            self._held = begun.removeprefix("<think>")
        return self._thinking()

    def close(self) -> list[Event]:
        """What was held back, because it might have been the beginning of a tag."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [ThinkingDelta(held)] if self._state == "thinking" else [TextDelta(held)]

    def _thinking(self) -> list[Event]:
        thought, tag, text = self._held.partition("</think>")
        if tag:
            self._held = ""
            return [*([ThinkingDelta(thought)] if thought else []), *self._behind(text)]
        kept = next((n for n in range(7, 0, -1) if thought.endswith("</think>"[:n])), 0)
        self._held = thought[len(thought) - kept :]
        thought = thought[: len(thought) - kept]
        return [ThinkingDelta(thought)] if thought else []

    def _behind(self, text: str) -> list[Event]:
        """The text behind the thoughts, without the empty lines it begins with."""
        text = text.lstrip("\n")
        self._state = "text" if text else "behind"
        return [TextDelta(text)] if text else []
