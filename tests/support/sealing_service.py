"""A double of the Responses API whose items have to come back as they were, and are sealed for one service.

Sources:

* A thought that another service has encrypted is refused with the quoted words (github.com/openai/codex/issues/3573 and
  manaflow-ai/subrouter/pull/259, which measured that OpenAI and Azure each refuse the other's; regions of Azure too).
* `namespace` has to come back with a function call, or "Missing namespace for function_call" (vercel/ai, @ai-sdk/openai
  4.0.0-canary.68); `caller` with a call and its result, after the program that made it (ResponseFunctionToolCall and
  FunctionCallOutput of OpenAI's SDK 3.57: "The execution context that produced this tool call").
* A call that the client runs needs its result: "No tool output found for shell call".
"""

from __future__ import annotations

import re
from typing import Any

from support.loopback import Piece
from support.openai_by_rule import OpenAIByRule, invalid
from support.service_double import Received

COMPACTION = {"type": "compaction", "id": "cmp_1"}
CALLER = {"type": "program", "caller_id": "prog_1"}
PROGRAM = {"type": "program", "id": "pr_1", "call_id": "prog_1", "code": "await look()", "fingerprint": "f1"}
SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "shell_1", "action": {"commands": ["ls"]}}


class SealingService(OpenAIByRule):
    """The service. `extra` are items before the first item of each response; `about` are fields of its calls."""

    def __init__(self, seal: str = "a") -> None:
        super().__init__()
        self.seal = seal
        self.extra: list[dict[str, Any]] = []
        self.about: dict[str, Any] = {}
        self.refused: list[str] = []
        self._made: list[str] = []

    def create(self, request: Received) -> tuple[Piece, ...]:
        items = request.json["input"]
        self._check_items(items)
        return super().create(request)

    def _answer(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        (item,) = super()._answer(body)
        about = dict(self.about, call_id=f"{self.seal}_{item['call_id']}") if item["type"] == "function_call" else {}
        self._made += [about["call_id"]] if about else []
        return [self._thought(), *map(self._sealed, self.extra), item | about]

    def _thought(self) -> dict[str, Any]:
        sealed = {"encrypted_content": f"{self.seal}:{len(self.created)}"}
        return {"type": "reasoning", "id": f"rs_{len(self.created)}", "summary": [], **sealed}

    def _sealed(self, item: dict[str, Any]) -> dict[str, Any]:
        return item | ({"encrypted_content": f"{self.seal}:c"} if item["type"] == "compaction" else {})

    def _check_items(self, items: list[dict[str, Any]]) -> None:
        callers = [item["call_id"] for item in items if item.get("type") == "program"]
        results = {item["call_id"]: item for item in items if item.get("type", "").endswith("_output")}
        for place, item in enumerate(items):
            kind = item.get("type", "message")
            if not (content := item.get("encrypted_content", self.seal)).startswith(self.seal):
                self._refuse(f"The encrypted content {content} could not be verified. Reason: Encrypted content could "
                             "not be decrypted or parsed.")  # fmt: skip
            if kind == "reasoning" and (place + 1 == len(items) or items[place + 1].get("role") == "user"):
                self._refuse(f"Item {item['id']} of type 'reasoning' was provided without its required following item.")
            if kind == "shell_call" and item["call_id"] not in results:
                self._refuse(f"No tool output found for shell call {item['call_id']}.")
            if kind != "function_call" or item["call_id"] not in self._made:
                continue
            called = self.about.get("caller") is not None
            if "namespace" in self.about and "namespace" not in item:
                self._refuse(f"Missing namespace for function_call '{item['name']}'.")
            if called and (item.get("caller") != CALLER or results[item["call_id"]].get("caller") != CALLER):
                self._refuse(f"Missing caller for function_call '{item['name']}'.")
            if called and CALLER["caller_id"] not in callers:
                self._refuse("The caller of a function_call is not in the input.")

    def _refuse(self, text: str) -> None:
        self.refused.append(re.sub(r"[\w:]*\d[\w:]*", "", text))
        raise invalid(text)
