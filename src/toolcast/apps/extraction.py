"""The call of `toolcast get` and `toolcast map`: its default prompts, and the settings of the embedded model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ..llms.base import FunctionCallingLLM
from ..llms.local.llama_cpp import LlamaCpp
from ..prompts import ChatPromptTemplate
from ..settings import Settings
from ..structured.orchestrator import ToolOrchestratingLLM

_PROMPT: Final = "Extract the data from this text.\n\n{text}"
_PROMPT_OF_MANY: Final = "Extract all the data from this text, each item that it names.\n\n{text}"
# The embedded model does best with the text alone; without its prompt cache the answer is reproducible.
_EMBEDDED_PROMPT: Final = "{text}"
_EMBEDDED: Final = Settings(temperature=0, extra={"cache_prompt": False})


def prompt_with_text(prompt: str | None, llm: FunctionCallingLLM, *, many: bool = False) -> str:
    """Return the prompt with `{text}`, which follows it if it is not in it; None is the default prompt for `llm`."""
    if prompt is None:
        return _EMBEDDED_PROMPT if isinstance(llm, LlamaCpp) else _PROMPT_OF_MANY if many else _PROMPT
    return prompt if "{text}" in prompt else f"{prompt}\n\n{{text}}"


def make_call(
    output: Any, llm: FunctionCallingLLM, prompt: str | ChatPromptTemplate, *, max_tokens: int | None = None
) -> ToolOrchestratingLLM[Any]:
    """Return the call that extracts `output`, with the settings that suit the LLM."""
    settings = _EMBEDDED if isinstance(llm, LlamaCpp) else None
    if max_tokens is not None:
        settings = replace(settings or Settings(), max_tokens=max_tokens)
    return ToolOrchestratingLLM(output, prompt, llm, settings=settings)
