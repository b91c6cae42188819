"""`GrowingObject`: a JSON document that grows by path changes, and is sent whole when it has grown enough."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from ..parsing.path_changes import PathChange, steps_of
from .encoding import message_json

_SHARE: Final = 8
"""A document is sent again when an eighth of its length has been added: in total, a small multiple of its length."""

_LIST: Any = list  # typed as Any, so that isinstance does not narrow JSON data to a list of unknown types


class GrowingObject:
    """A JSON document that changes apply to."""

    def __init__(self) -> None:
        self._document: list[Any] = [None]
        self._sent = 0  # characters when it was last sent, and those added since
        self._added = 0

    @property
    def root(self) -> Any:
        """The document so far."""
        return self._document[0]

    def apply(self, change: PathChange) -> bool:
        """Apply a change. Return True if the document is to be sent."""
        # The root is an element too, so that it is set like any other. A copy: later changes go into the value.
        parent: Any = self._document
        last: Any = 0
        for step in steps_of(change.path):
            parent = parent[last]
            last = int(step) if isinstance(parent, _LIST) else step
        new = parent[last] + change.value if change.kind == "text" else deepcopy(change.value)
        if isinstance(parent, _LIST):
            parent[last : last + 1] = [new]
        else:
            parent[last] = new
        self._added += len(message_json({"": change.value}))
        if self._added * _SHARE < self._sent:
            return False
        self._sent += self._added
        self._added = 0
        return True
