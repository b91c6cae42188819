"""A double of Gemini's long decode: responses that are longer than one request can be.

Source: ai.google.dev/gemini-api/docs/generate-content/long-decode: "If the model reaches the cap and has tokens left,
the response ends with finish_reason: CONTINUATION and a continuation_token. The client sends the same request again
with the token. The model continues from where it stopped." A request that differs in anything else is refused here.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

from support.loopback import Piece, whole
from support.service_double import Received, Refused, ServiceDouble, as_json


class LongDecode(ServiceDouble):
    """The service. A response has `parts` parts, each with a thought or a piece of its text; a call is in the last."""

    routes: ClassVar[Any] = ((r"POST /v1beta/models/[\w.-]+:(streamGenerateContent|generateContent)", "generate"),)

    def __init__(self) -> None:
        super().__init__()
        self.parts = 3
        self.text = "It was a dark and stormy night; the rain fell in torrents."
        self.sent: list[Any] = []

    def generate(self, request: Received, method: str) -> tuple[Piece, ...]:
        body = request.json
        token = body.pop("continuationToken", None)
        if token is not None and (body != self.sent[-1] or token != f"token-{len(self.sent) % self.parts}"):
            raise Refused(400, {"error": {"code": 400, "message": "The continuation token is invalid."}})
        assert (token is None) == (len(self.sent) % self.parts == 0)
        place = len(self.sent) % self.parts
        self.sent.append(body)
        last = place == self.parts - 1
        ended = {"finishReason": "CONTINUATION", "continuationToken": f"token-{place + 1}"}
        ended = {"finishReason": "STOP"} if last else ended
        candidate = {"content": {"role": "model", "parts": self._content(body, place, last)}, "index": 0, **ended}
        counts = {"promptTokenCount": 10 * (place + 1), "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
        answer = {"candidates": [candidate], "usageMetadata": counts, "modelVersion": "gemini-4-argon"}
        if method == "generateContent":
            return as_json(answer)
        return (whole(f"data: {json.dumps(answer)}\r\n\r\n".encode(), 200, "content-type: text/event-stream"),)

    def _content(self, body: dict[str, Any], place: int, last: bool) -> list[dict[str, Any]]:
        config = body.get("generationConfig", {})
        names = [tool["name"] for tool in body.get("tools", [{}])[0].get("functionDeclarations", ())]
        if "functionResponse" in body["contents"][-1]["parts"][-1]:
            names = [name for name in names if name == "Album"]
        if names:
            called = {"functionCall": {"name": names[0], "args": {"title": "Sea"}}}
            return [called if last else {"text": f"Hm {place}. ", "thought": True}]
        schema = config.get("responseJsonSchema") or config.get("responseSchema")
        text = json.dumps({"title": "Sea " * 9}) if schema else self.text
        size = -(-len(text) // self.parts)
        return [{"text": text[place * size : (place + 1) * size]}]
