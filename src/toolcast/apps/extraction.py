"""The call of `toolcast get` and `toolcast map`: its default prompts, and the settings of the embedded model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..llms.base import FunctionCallingLLM
from ..llms.provider_llms import LlamaCpp
from ..settings import Settings
from ..structured.orchestrator import ToolOrchestratingLLM

_PROMPT: Final = "Extract the data from this text.\n\n{text}"
_PROMPT_OF_MANY: Final = "Extract all the data from this text, each item that it names.\n\n{text}"
# The embedded model does best with the text alone; without its prompt cache the answer is reproducible.
_EMBEDDED_PROMPT: Final = "{text}"
_EMBEDDED: Final = Settings(temperature=0, extra={"cache_prompt": False})


def make_call(
    output: Any,
    llm: FunctionCallingLLM,
    prompt: str | None = None,
    *,
    many: bool = False,
    max_tokens: int | None = None,
) -> ToolOrchestratingLLM[Any]:
    """Return the call that extracts `output`; without a prompt the text is sent with the default one.

    Args:
        output: The output type.
        llm: The LLM.
        prompt: A prompt template. Default: one with the variable `text`.
        many: The output is a list of all items in the text.
        max_tokens: The limit on the tokens of an answer.
    """
    embedded = isinstance(llm, LlamaCpp)
    if prompt is None:
        prompt = _EMBEDDED_PROMPT if embedded else _PROMPT_OF_MANY if many else _PROMPT
    settings = _EMBEDDED if embedded else None
    if max_tokens is not None:
        settings = replace(settings or Settings(), max_tokens=max_tokens)
    return ToolOrchestratingLLM(output, prompt, llm, settings=settings)


def with_text(prompt: str | None) -> str | None:
    """Return the prompt with the text behind it if it has no `{text}`."""
    return prompt if prompt is None or "{text}" in prompt else f"{prompt}\n\n{{text}}"
