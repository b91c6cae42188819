"""What an error of the library becomes at the command line."""

from __future__ import annotations

import pytest

from toolcast.apps.output import command_line_text
from toolcast.errors import EmptyResponse, NoToolCallError, ValidationError


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "no connection to box: [Errno 111] Connection refused. Is base_url right, and the server running?",
            "no connection to box: Connection refused. Is --host right, and the server running?",
        ),
        ("no connection to box: [WinError 10061] refused.", "no connection to box: refused."),
        ("no connection to box: [Errno -2] Name unknown.", "no connection to box: Name unknown."),
        (
            "ollama q: no connection to 127.0.0.1:11434: [Errno 111] Connection refused. Is base_url right, and the "
            "server running? (after 3 requests in 2.4 s, 2 of them failed with ConnectFailed)",
            "ollama q: no connection to 127.0.0.1:11434: Connection refused. Start Ollama: `ollama serve`. (after 3 "
            "requests in 2.4 s)",
        ),
        (
            "groq m: the service refused the key (401): No. Set GROQ_API_KEY to a valid key, or pass api_key=.",
            "groq m: the service refused the key (401): No. Set GROQ_API_KEY to a valid key, or store one: toolcast "
            "config set-key groq.",
        ),
        ("model 'gpt-4o' not found To fetch the model: ollama pull gpt-4o", "model 'gpt-4o' not found Did you mean "
         "openai:gpt-4o?"),
        ("not found To fetch the model: ollama pull qwen3", "not found To fetch the model: ollama pull qwen3"),
        ("not found To fetch the model: ollama pull gpt-4o:9b", "not found To fetch the model: ollama pull gpt-4o:9b"),
        ("Expected at least one tool call, but got 0 tool calls. So: 'No'", "the model gave no object. So: 'No'"),
        ("it is old. max_attempts=2 lets the model correct itself", "it is old. Ask again, or try another model"),
        ("it is old. max_attempts=4 allows another attempt", "it is old. Ask again, or try another model"),
        ("no. max_attempts=4 allows another attempt, or try another model", "no. Ask again, or try another model"),
        (
            "cannot listen on b:1: [Errno 99] Cannot assign (while attempting to bind on address ('b', 1)); --port 0",
            "cannot listen on b:1: Cannot assign; --port 0",
        ),
        (
            "no API key for openai: set OPENAI_API_KEY, or pass api_key=. Nothing was sent.",
            "no API key for openai: set OPENAI_API_KEY, or run: toolcast config set-key openai. Nothing was sent.",
        ),
        ("Set X_KEY to a valid key, or pass api_key=.", "Set X_KEY to a valid key, or store one: "
         "toolcast config set-key PROVIDER."),
        ("Pass a valid api_key=.", "Give a valid --token."),
        ("it is 404. Check the model and base_url=.", "it is 404. Check the model and --host."),
        ("base_url='ftp://box' is no HTTP URL", "--host 'ftp://box' is no HTTP URL"),
        ("OpenAICompatible('m') needs base_url= or service=", "OpenAICompatible('m') needs --host"),
        ("no base URL for azure: set X, or pass base_url=.", "no base URL for azure: set X, or give --host."),
        (f"it is nothing. {EmptyResponse.advice}", "it is nothing. Send the request again. If it stays empty, check "
         "the model's name and --host."),
        (NoToolCallError.advice, "Ask again, or try another model."),
        (ValidationError.advice, "ask again, or try another model"),
        (
            "no connection within 5 s; allow more with settings=Settings(timeout=Timeouts(connect=...))",
            "no connection within 5 s",
        ),
        ("ended after 9 characters; allow more with settings=Settings(max_tokens=...)", "ended after 9 characters"),
        ("it failed. Compare the request, as preview() shows it, with the API reference.", "it failed."),
        ("stopped; raise max_rounds=, or submit() without text to go on from here", "stopped"),
        ("again; state in the prompt when to stop, or raise max_repeats=", "again; state in the prompt when to stop"),
        ("go on with it (--resume, resume=True), or not", "go on with it (--resume), or not"),
        ("unknown: set a limit, settings=Settings(max_tokens=1000). Nothing was sent.", "unknown: set a limit, "
         "--max-tokens N. Nothing was sent."),
        ("Set a lower limit, settings=Settings(max_tokens=...), or allow more, Budget(usd=...)", "Set a lower limit, "
         "--max-tokens N, or allow more by --budget"),
        ("It is reached: allow more: Budget(tokens=...)", "It is reached: allow more by --budget"),
        ("it needs the prices of x m: pass your own, prices=Prices(input=3, output=15), to the LLM or to Budget. "
         "Nothing was sent.", "it needs the prices of x m; a budget in tokens needs none. Nothing was sent."),
        ("once only. Pass checkpoint=, a file", "once only. Give --checkpoint FILE"),
        (FileNotFoundError(2, "No such file", "x"), "No such file: 'x'"),
        ("nothing of that", "nothing of that"),
    ],
)  # fmt: skip
def test_the_words(text: object, words: str) -> None:
    assert command_line_text(text) == words
