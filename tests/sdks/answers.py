"""The answers written by hand: what each service sends, and what that means."""

from __future__ import annotations

from typing import Any

from sdks.decoded import Decoded
from sdks.written import Answer, Written

OSLO = {"city": "Oslo"}
OSLO_TEXT = '{"city": "Oslo"}'
CUT_TEXT = '{"city": "Os'
FAR = {"city": "Longyearbyen on Svalbard"}


def chat(message: Answer, finish: str, **usage: Any) -> Answer:
    """A chat completion, of OpenAI or of Mistral."""
    tokens = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16, **usage}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    about = {"id": "c1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
    return {**about, "choices": [choice], "usage": tokens}


def function(text: str = OSLO_TEXT, id: str = "call_1", name: str = "weather") -> Answer:
    """A call in a chat completion."""
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def response(*output: Answer, incomplete: str | None = None, **usage: Any) -> Answer:
    """A response of OpenAI."""
    about = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-4o", "error": None}
    details = {"reason": incomplete} if incomplete else None
    state = {"status": "incomplete" if incomplete else "completed", "incomplete_details": details}
    fixed = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "metadata": {}}
    read, written = {"input_tokens_details": {"cached_tokens": 0}}, {"output_tokens_details": {"reasoning_tokens": 0}}
    tokens = {"input_tokens": 9, "output_tokens": 7, "total_tokens": 16, **read, **written, **usage}
    return {**about, **state, **fixed, "output": list(output), "usage": tokens}


def output_item(text: str, kind: str = "output_text", id: str = "msg_1", **more: Any) -> Answer:
    """A message in a response."""
    part = {"type": kind, "refusal": text} if kind == "refusal" else {"type": kind, "text": text, "annotations": []}
    return {"type": "message", "id": id, "role": "assistant", "status": "completed", "content": [part], **more}


def call_item(text: str = OSLO_TEXT, id: str = "1", name: str = "weather", status: str = "completed") -> Answer:
    """A call in a response."""
    ids = {"id": f"fc_{id}", "call_id": f"call_{id}"}
    return {"type": "function_call", **ids, "name": name, "arguments": text, "status": status}


def thought_item(*texts: str, encrypted: str = "Z0FBQUFB") -> Answer:
    """A thought in a response."""
    summary = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": encrypted}


def message(*content: Answer, stop: str = "end_turn", usage: Answer | None = None, **more: Any) -> Answer:
    """A message of Anthropic."""
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}
    tokens = {"input_tokens": 9, "output_tokens": 7, **(usage or {})}
    return {**about, "content": list(content), "stop_reason": stop, "stop_sequence": None, "usage": tokens, **more}


def gemini(*parts: Answer, stop: str = "STOP", **usage: Any) -> Answer:
    """A response of Gemini; without parts its content is missing."""
    content = {"content": {"role": "model", "parts": list(parts)}} if parts else {}
    return {"candidates": [{**content, "finishReason": stop, "index": 0}], "usageMetadata": gemini_tokens(**usage)}


def gemini_tokens(**usage: Any) -> Answer:
    """What a response of Gemini has cost."""
    return {"promptTokenCount": 9, "candidatesTokenCount": 7, "totalTokenCount": 16, **usage}


def ollama(decoded: Answer, stop: str = "stop", **more: Any) -> Answer:
    """An answer of Ollama."""
    about = {"model": "llama3.2", "created_at": "2026-01-01T00:00:00Z", "done": True, "done_reason": stop}
    whole = {"message": {"role": "assistant", "content": "", **decoded}}
    return {**about, **whole, "prompt_eval_count": 9, "eval_count": 7, **more}


def converse(*content: Answer, stop: str = "end_turn", **usage: Any) -> Answer:
    """A response of Converse."""
    tokens = {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16, **usage}
    output = {"message": {"role": "assistant", "content": list(content)}}
    return {"output": output, "stopReason": stop, "usage": tokens, "metrics": {"latencyMs": 1}}


def bedrock_call(arguments: Any = OSLO, id: str = "tooluse_1", name: str = "weather") -> Answer:
    """A call in a response of Converse."""
    return {"toolUse": {"toolUseId": id, "name": name, "input": arguments}}


def text(words: str) -> Answer:
    """A text block of Anthropic or chunk of Mistral."""
    return {"type": "text", "text": words}


def use(arguments: Any = OSLO, id: str = "toolu_1", name: str = "weather") -> Answer:
    """A call in a message of Anthropic."""
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def thoughts(words: str) -> Answer:
    """The thoughts in a chat completion of Mistral."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": words}]}


USED = (9, 7)
WEATHER, CLOCK = ("weather", OSLO), ("clock", {})
CUT = ("weather", CUT_TEXT)
CLOCK_CALL = function("", "call_2", "clock")
SIGNED = {"type": "thinking", "thinking": "They ask for Oslo.", "signature": "RXFRQkNr"}
HIDDEN = {"type": "redacted_thinking", "data": "RW13S0Fo"}
REFUSED = {"type": "refusal", "category": "cyber", "explanation": "That is against the rules."}
THOUGHT = {"text": "They ask for Oslo.", "thought": True}
GEMINI_CALL = {"functionCall": {"name": "weather", "args": OSLO}}
BEDROCK_THOUGHT = {"reasoningContent": {"reasoningText": {"text": "They ask for Oslo.", "signature": "RXFRQkNr"}}}
BEDROCK_HIDDEN = {"reasoningContent": {"redactedContent": "RW13S0Fo"}}
OLLAMA_CALL = {"function": {"name": "weather", "arguments": OSLO}}
MISTRAL_CALLS = [
    {"id": "gSIMJiOkT", "function": {"name": "weather", "arguments": OSLO_TEXT}},
    {"id": "Qz81kLm3P", "function": {"name": "clock", "arguments": "{}"}},
]


def cohere(finish: str = "COMPLETE", **message: Any) -> Answer:
    """A response of Cohere, which bills fewer tokens than it reads."""
    counts = {"billed_units": {"input_tokens": 9.0, "output_tokens": 7.0}}
    usage = {**counts, "tokens": {"input_tokens": 500.0, "output_tokens": 20.0}}
    return {"id": "c1", "finish_reason": finish, "message": {"role": "assistant", **message}, "usage": usage}


COHERE_THOUGHT = {"type": "thinking", "thinking": "They ask for Oslo."}

ANSWERS: dict[str, Written] = {
    # -- OpenAI, chat completions
    "chat: refusal": Written(
        "openai",
        chat({"refusal": "I cannot help with that."}, "stop"),
        Decoded("I cannot help with that.", (), USED, "refusal"),
    ),
    "chat: filtered": Written(
        "openai",
        chat({"content": "To begin with"}, "content_filter"),
        Decoded("To begin with", (), USED, "content_filter"),
    ),
    "chat: a named tool": Written(
        "openai", chat({"tool_calls": [function()]}, "stop"), Decoded("", (WEATHER,), USED, "tool_use")
    ),
    "chat: text and calls": Written(
        "openai",
        chat({"content": "Let me see.", "tool_calls": [function(), CLOCK_CALL]}, "tool_calls"),
        Decoded("Let me see.", (WEATHER, CLOCK), USED, "tool_use"),
    ),
    "chat: cut in a call": Written(
        "openai", chat({"tool_calls": [function(CUT_TEXT)]}, "length"), Decoded("", (CUT,), USED, "max_tokens")
    ),
    "chat: cached and thought": Written(
        "openai",
        chat(
            {"content": "Cold."},
            "stop",
            prompt_tokens=100,
            completion_tokens=40,
            total_tokens=140,
            prompt_tokens_details={"cached_tokens": 80},
            completion_tokens_details={"reasoning_tokens": 30},
        ),
        Decoded("Cold.", (), (100, 40), "end_turn"),
    ),
    # -- OpenAI, responses
    "responses: refusal": Written(
        "responses", response(output_item("I cannot.", "refusal")), Decoded("I cannot.", (), USED, "refusal")
    ),
    "responses: a thought and a call": Written(
        "responses",
        response(thought_item("They ask.", "I look."), call_item()),
        Decoded("", (WEATHER,), USED, "tool_use", "They ask.\n\nI look.", ("Z0FBQUFB",)),
    ),
    "responses: a hidden thought": Written(
        "responses",
        response(thought_item(), output_item("Cold.")),
        Decoded("Cold.", (), USED, "end_turn", "", ("Z0FBQUFB",)),
    ),
    "responses: cut in a call": Written(
        "responses",
        response(call_item(CUT_TEXT, status="incomplete"), incomplete="max_output_tokens"),
        Decoded("", (CUT,), USED, "max_tokens"),
    ),
    "responses: filtered": Written(
        "responses",
        response(output_item("To begin with", status="incomplete"), incomplete="content_filter"),
        Decoded("To begin with", (), USED, "content_filter"),
    ),
    "responses: texts and calls": Written(
        "responses",
        response(output_item("One. "), call_item(), output_item("Two.", id="msg_2"), call_item("{}", "2", "clock")),
        Decoded("One. Two.", (WEATHER, CLOCK), USED, "tool_use"),
    ),
    "responses: cached and thought": Written(
        "responses",
        response(
            output_item("Cold."),
            input_tokens=100,
            output_tokens=40,
            input_tokens_details={"cached_tokens": 80},
            output_tokens_details={"reasoning_tokens": 30},
        ),
        Decoded("Cold.", (), (100, 40), "end_turn"),
    ),
    # -- Anthropic
    "anthropic: refusal": Written(
        "anthropic",
        message(stop="refusal", stop_details=REFUSED),
        Decoded("That is against the rules.", (), USED, "refusal"),
    ),
    "anthropic: refusal after text": Written(
        "anthropic", message(text("To begin with"), stop="refusal"), Decoded("To begin with", (), USED, "refusal")
    ),
    "anthropic: thoughts and a call": Written(
        "anthropic",
        message(SIGNED, HIDDEN, text("Let me see."), use(), stop="tool_use"),
        Decoded("Let me see.", (WEATHER,), USED, "tool_use", "They ask for Oslo.", ("RXFRQkNr", "RW13S0Fo")),
    ),
    "anthropic: a thought left out": Written(
        "anthropic",
        message({**SIGNED, "thinking": ""}, text("Cold.")),
        Decoded("Cold.", (), USED, "end_turn", "", ("RXFRQkNr",)),
    ),
    "anthropic: calls and text": Written(
        "anthropic",
        message(use(), text("And now:"), use({}, "toolu_2", "clock"), stop="tool_use"),
        Decoded("And now:", (WEATHER, CLOCK), USED, "tool_use"),
    ),
    "anthropic: stop sequence": Written(
        "anthropic",
        message(text("Cold."), stop="stop_sequence", stop_sequence="END"),
        Decoded("Cold.", (), USED, "stop_sequence"),
    ),
    "anthropic: max tokens": Written(
        "anthropic", message(text("It is fo"), stop="max_tokens"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "anthropic: pause": Written(
        "anthropic", message(text("I go on."), stop="pause_turn"), Decoded("I go on.", (), USED, "pause")
    ),
    "anthropic: cached": Written(
        "anthropic",
        message(text("Cold."), usage={"cache_read_input_tokens": 80, "cache_creation_input_tokens": 11}),
        Decoded("Cold.", (), (100, 7), "end_turn"),
    ),
    # -- Gemini
    "gemini: prompt blocked": Written(
        "gemini",
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}},
        Decoded("", (), (9, 0), "content_filter"),
    ),
    "gemini: answer blocked": Written(
        "gemini", gemini(stop="SAFETY", candidatesTokenCount=0), Decoded("", (), (9, 0), "content_filter")
    ),
    "gemini: blocked after text": Written(
        "gemini", gemini({"text": "To begin with"}, stop="SAFETY"), Decoded("To begin with", (), USED, "content_filter")
    ),
    "gemini: thoughts and calls": Written(
        "gemini",
        gemini(THOUGHT, {**GEMINI_CALL, "thoughtSignature": "RXFRQkNr"}, GEMINI_CALL, thoughtsTokenCount=30),
        Decoded("", (WEATHER, WEATHER), (9, 37), "tool_use", "They ask for Oslo.", ("RXFRQkNr",)),
    ),
    "gemini: a signature alone": Written(
        "gemini",
        gemini({"text": "Cold."}, {"text": "", "thoughtSignature": "RXFRQkNr"}),
        Decoded("Cold.", (), USED, "end_turn", "", ("RXFRQkNr",)),
    ),
    "gemini: text and a call": Written(
        "gemini", gemini({"text": "Let me see."}, GEMINI_CALL), Decoded("Let me see.", (WEATHER,), USED, "tool_use")
    ),
    "gemini: max tokens": Written(
        "gemini", gemini({"text": "It is fo"}, stop="MAX_TOKENS"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "gemini: all on thoughts": Written(
        "gemini",
        gemini(stop="MAX_TOKENS", candidatesTokenCount=0, thoughtsTokenCount=30),
        Decoded("", (), (9, 30), "max_tokens"),
    ),
    "gemini: a call it could not write": Written(
        "gemini",
        gemini(stop="MALFORMED_FUNCTION_CALL", candidatesTokenCount=0),
        Decoded("", (), (9, 0), "error"),
    ),
    "gemini: cached": Written(
        "gemini",
        gemini({"text": "Cold."}, promptTokenCount=100, cachedContentTokenCount=80),
        Decoded("Cold.", (), (100, 7), "end_turn"),
    ),
    # -- Mistral
    "mistral: calls at once": Written(
        "mistral", chat({"tool_calls": MISTRAL_CALLS}, "tool_calls"), Decoded("", (WEATHER, CLOCK), USED, "tool_use")
    ),
    "mistral: a thought and text": Written(
        "mistral",
        chat({"content": [thoughts("They ask."), text("Cold.")]}, "stop"),
        Decoded("Cold.", (), USED, "end_turn", "They ask."),
    ),
    "mistral: a thought and calls": Written(
        "mistral",
        chat({"content": [thoughts("They ask.")], "tool_calls": MISTRAL_CALLS}, "tool_calls"),
        Decoded("", (WEATHER, CLOCK), USED, "tool_use", "They ask."),
    ),
    "mistral: max tokens": Written(
        "mistral", chat({"content": "It is fo"}, "length"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "mistral: context full": Written(
        "mistral", chat({"content": "It is fo"}, "model_length"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "mistral: cut in a call": Written(
        "mistral", chat({"tool_calls": [function(CUT_TEXT)]}, "length"), Decoded("", (CUT,), USED, "max_tokens")
    ),
    "mistral: error": Written(
        "mistral", chat({"content": "It is fo"}, "error"), Decoded("It is fo", (), USED, "error")
    ),
    # -- Ollama
    "ollama: usage": Written("ollama", ollama({"content": "Cold."}), Decoded("Cold.", (), USED, "end_turn")),
    "ollama: a thought and text": Written(
        "ollama",
        ollama({"thinking": "They ask.", "content": "Cold."}),
        Decoded("Cold.", (), USED, "end_turn", "They ask."),
    ),
    "ollama: a thought and calls": Written(
        "ollama",
        ollama({"thinking": "They ask.", "tool_calls": [OLLAMA_CALL, {**OLLAMA_CALL, "id": "call_2"}]}),
        Decoded("", (WEATHER, WEATHER), USED, "tool_use", "They ask."),
    ),
    "ollama: max tokens": Written(
        "ollama", ollama({"content": "It is fo"}, "length"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "ollama: the prompt was cached": Written(
        "ollama", ollama({"content": "Cold."}, prompt_eval_count=0), Decoded("Cold.", (), (0, 7), "end_turn")
    ),
    # -- Bedrock
    "bedrock: text": Written("bedrock", converse({"text": "Cold é."}), Decoded("Cold é.", (), USED, "end_turn")),
    "bedrock: text and calls": Written(
        "bedrock",
        converse({"text": "Let me see."}, bedrock_call(), bedrock_call({}, "tooluse_2", "clock"), stop="tool_use"),
        Decoded("Let me see.", (WEATHER, CLOCK), USED, "tool_use"),
    ),
    "bedrock: thoughts and a call": Written(
        "bedrock",
        converse(BEDROCK_THOUGHT, BEDROCK_HIDDEN, bedrock_call(), stop="tool_use"),
        Decoded("", (WEATHER,), USED, "tool_use", "They ask for Oslo.", ("RXFRQkNr", "RW13S0Fo")),
    ),
    "bedrock: max tokens": Written(
        "bedrock", converse({"text": "It is fo"}, stop="max_tokens"), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "bedrock: stop sequence": Written(
        "bedrock", converse({"text": "Cold."}, stop="stop_sequence"), Decoded("Cold.", (), USED, "stop_sequence")
    ),
    "bedrock: guarded": Written(
        "bedrock",
        converse({"text": "Not this."}, stop="guardrail_intervened"),
        Decoded("Not this.", (), USED, "content_filter"),
    ),
    "bedrock: cached": Written(
        "bedrock",
        converse({"text": "Cold."}, cacheReadInputTokens=80, cacheWriteInputTokens=11, totalTokens=107),
        Decoded("Cold.", (), (100, 7), "end_turn"),
    ),
    # -- Cohere
    "cohere: text": Written("cohere", cohere(content=[text("Cold é.")]), Decoded("Cold é.", (), USED, "end_turn")),
    "cohere: a plan and calls": Written(
        "cohere",
        cohere("TOOL_CALL", tool_plan="I will look.", tool_calls=[function(), function("{}", "call_2", "clock")]),
        Decoded("", (WEATHER, CLOCK), USED, "tool_use", "I will look."),
    ),
    "cohere: a thought and text": Written(
        "cohere",
        cohere(content=[COHERE_THOUGHT, text("Cold.")]),
        Decoded("Cold.", (), USED, "end_turn", "They ask for Oslo."),
    ),
    "cohere: a thought and a call": Written(
        "cohere",
        cohere("TOOL_CALL", content=[COHERE_THOUGHT], tool_calls=[function()]),
        Decoded("", (WEATHER,), USED, "tool_use", "They ask for Oslo."),
    ),
    "cohere: max tokens": Written(
        "cohere", cohere("MAX_TOKENS", content=[text("It is fo")]), Decoded("It is fo", (), USED, "max_tokens")
    ),
    "cohere: stop sequence": Written(
        "cohere", cohere("STOP_SEQUENCE", content=[text("Cold.")]), Decoded("Cold.", (), USED, "stop_sequence")
    ),
}
