"""The request for a person's approval of a tool call, and the decision.

A decision is created by its request and contains its fingerprint: of the call's id, its tool and its exact arguments.
It is valid for no other call, nor for this one with other arguments. Both are plain values that can be stored, so the
decision may be made after a restart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, get_args

from ..lazy.lazy_dataclasses import dataclass

Action: TypeAlias = Literal["allow", "deny", "allow_session", "edit"]
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's decision on a `PermissionRequest`, created by its methods: `allow()`, `deny()`, ...

    `allow_session` also allows similar calls later in this session; `edit` allows the call with `arguments` in place of
    the model's.
    """

    call_id: str
    fingerprint: str
    action: Action
    reason: str = ""
    arguments: str | None = None

    def __post_init__(self) -> None:
        # It may come from a file or another program, and an unknown action must not allow the call.
        if self.action not in ACTIONS:
            raise ValueError(f"unknown action {self.action!r}: use {', '.join(ACTIONS)}")
        if (self.action == "edit") != (self.arguments is not None):
            raise ValueError("an answer has arguments if its action is 'edit', and only then")

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalDecision:
        """Return the decision from the data of `to_dict`."""
        return cls(**data)


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """A tool call that needs approval: the tool, its exact `arguments` (JSON text), and the `reason` to ask."""

    call_id: str
    tool: str
    arguments: str
    reason: str = ""

    @property
    def fingerprint(self) -> str:
        """The fingerprint that binds a decision to this call and its exact arguments."""
        return fingerprint(self.call_id, self.tool, self.arguments)

    def allow(self) -> ApprovalDecision:
        """Return the decision to run this call once."""
        return self._answer("allow")

    def deny(self, reason: str = "") -> ApprovalDecision:
        """Return the decision not to run this call; the model reads `reason`."""
        return self._answer("deny", reason)

    def allow_session(self) -> ApprovalDecision:
        """Return the decision to run this call, and similar ones in this session."""
        return self._answer("allow_session")

    def edit(self, arguments: str | Mapping[str, Any]) -> ApprovalDecision:
        """Return the decision to run the call with other arguments; the model is informed of them."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        return self._answer("edit", arguments=text)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PermissionRequest:
        """Return the request from the data of `to_dict`."""
        return cls(**data)

    def _answer(self, action: Action, reason: str = "", arguments: str | None = None) -> ApprovalDecision:
        return ApprovalDecision(self.call_id, self.fingerprint, action, reason, arguments)


def fingerprint(call_id: str, tool: str, arguments: str) -> str:
    """Return a hash of a call and its exact arguments."""
    return sha256(json.dumps([call_id, tool, arguments]).encode()).hexdigest()
