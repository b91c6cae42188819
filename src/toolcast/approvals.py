"""A call that waits for a person's word, and the answer to it.

An answer is made by the request it answers, and carries its fingerprint: the call's id, its tool and its exact
arguments. It fits no other call, nor this one with other arguments. Both are plain values that can be stored, so
the answer may come after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, get_args

Action: TypeAlias = Literal["allow", "deny", "allow_session", "edit"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What a person said to a `PermissionRequest`. Made by the request: `allow()`, `deny()`, ...

    `allow_session` also allows the calls like it that follow in this session; `edit` allows the call with
    `arguments` in place of the model's.
    """

    call_id: str
    fingerprint: str
    action: Action
    reason: str = ""
    arguments: str | None = None

    def __post_init__(self) -> None:
        # It may come from a file or another program; what is no clear word must not be taken for a yes.
        if self.action not in ACTIONS:
            raise ValueError(f"unknown action {self.action!r}: use {', '.join(ACTIONS)}")
        if (self.action == "edit") != (self.arguments is not None):
            raise ValueError("an answer has arguments if its action is 'edit', and only then")

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalDecision:
        """The answer that `to_dict` made `data` from."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A tool call that may not run unasked: the tool, its exact `arguments` (JSON text), and the `reason` to ask."""

    call_id: str
    tool: str
    arguments: str
    reason: str = ""

    @property
    def fingerprint(self) -> str:
        """What binds an answer to this call and its exact arguments."""
        return fingerprint(self.call_id, self.tool, self.arguments)

    def allow(self) -> ApprovalDecision:
        """The answer that lets this call run, once."""
        return self._answer("allow")

    def deny(self, reason: str = "") -> ApprovalDecision:
        """The answer that forbids it; the model reads `reason`."""
        return self._answer("deny", reason)

    def allow_session(self) -> ApprovalDecision:
        """The answer that lets this call run, and those like it in this session."""
        return self._answer("allow_session")

    def edit(self, arguments: str | Mapping[str, Any]) -> ApprovalDecision:
        """The answer that lets it run with other arguments; the model is told of them."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return self._answer("edit", arguments=text)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PermissionRequest:
        """The request that `to_dict` made `data` from."""
        return cls(**data)

    def _answer(self, action: Action, reason: str = "", arguments: str | None = None) -> ApprovalDecision:
        return ApprovalDecision(self.call_id, self.fingerprint, action, reason, arguments)


def fingerprint(call_id: str, tool: str, arguments: str) -> str:
    """What tells one call with these very arguments from every other."""
    return sha256(json.dumps([call_id, tool, arguments]).encode()).hexdigest()
