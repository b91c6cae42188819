"""`AutoLLM`: an LLM whose answers are made from the schemas of the tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import pydantic

from ..errors import ToolcastError, TryAgain, ValidationError
from ..messages import ToolCallPart
from ..text.json_text import json_text
from ..tools.callable_tool import CallableTool
from ..values.hooks import Hooks
from ..values.option_types import require
from ..values.prices import Prices
from ..values.settings import Settings
from ..values.tool_spec import NamedTool
from .schema_values import NoValue, Place, find_value
from .scripted import ScriptedLLM, ScriptedRequest
from .string_values import Size

_SHOWN = 200
_TEXTS = {
    "minimal": "Ok",
    "typical": "This is the answer of an AutoLLM.",
    "maximal": "# An answer\n\n" + 'It has *Markdown*, "quotes", `code` and 漢字 😀.\n\n' * 20,
}


class AutoLLM(ScriptedLLM):
    """An LLM that makes valid answers from the schemas of its tools, so that a program runs without a script.

    It calls the tool that a request forces. Where it may choose, it calls each function once after a message of the
    user, one per response, and then the first tool for typed output, or else it answers with a text. The arguments are
    valid for Pydantic, and for the output validators of an agent, which are called to try them. They depend on the
    options below, the tool and the number of messages; not on their text, so that concurrent calls and dates in prompts
    change nothing.

    Args:
        seed: Another number gives other answers.
        size: `"minimal"` values have empty strings and lists, no optional fields, and None where it is allowed;
            `"typical"` ones a few words and items; `"maximal"` ones all fields, long texts with unusual characters, and
            the highest numbers.
        model: The name of the model.
        chunk: The number of characters in which text and arguments arrive.
        settings: The settings of the LLM.
        system_prompt: The system prompt.
        max_concurrency: The number of requests at a time.
        hooks: Hooks of its calls.
        prices: The prices of the model.

    Raises:
        ToolcastError: In a call, if no valid arguments were found for a tool: its validators demand what its schema
            does not say. The error names the one that refused the last value. Answer these requests with a function
            that is passed to a `ScriptedLLM`.
    """

    def __init__(
        self,
        seed: int = 0,
        size: Size = "typical",
        *,
        model: str = "auto",
        chunk: int = 4,
        settings: Settings | None = None,
        system_prompt: str | None = None,
        max_concurrency: int | None = None,
        hooks: Sequence[Hooks] | Hooks | None = None,
        prices: Prices | None = None,
    ) -> None:
        require("seed", seed, int, "int")
        if size not in get_args(Size):
            raise ValueError(f"size={size!r}: expected 'minimal', 'typical' or 'maximal'")
        super().__init__(
            self.answer_to,
            model=model,
            chunk=chunk,
            settings=settings,
            system_prompt=system_prompt,
            max_concurrency=max_concurrency,
            hooks=hooks,
            prices=prices,
        )
        self.seed: int = seed
        self.size: Size = size

    async def answer_to(self, request: ScriptedRequest) -> ToolCallPart | str:
        """Return the answer to a request: the call of a tool, or a text."""
        tool = _choose(request)
        if tool is None:
            return _TEXTS[self.size]
        number = len(request.messages)
        return ToolCallPart(f"call_{number}", tool.name, await self._arguments(tool, number))

    async def _arguments(self, tool: CallableTool, number: int) -> str:
        seed = f"{self.seed} {tool.name} {number}"
        try:
            return json_text(await find_value(tool.parameters, seed, self.size, partial(_problems, tool)))
        except NoValue as error:
            raise NoValue(
                f"AutoLLM cannot call the tool {tool.name!r}: {error}. Answer this request with a function: "
                "ScriptedLLM(lambda request: ...)"
            ) from None


def _choose(request: ScriptedRequest) -> CallableTool | None:
    """Return the tool to call; None for a text."""
    choice, tools = request.tool_choice, request.tools
    if choice == "none" or not tools:
        return None
    if isinstance(choice, NamedTool):
        return next(tool for tool in tools if tool.name == choice.name)
    called: set[str] = set()
    for message in request.messages:
        called = set() if message.role == "user" else called | {call.name for call in message.tool_calls}
    outputs = [tool for tool in tools if tool.output_type is not None]
    waiting = [tool for tool in tools if tool.output_type is None and tool.name not in called]
    fallback = tools if choice == "required" else ()
    return next(iter([*waiting, *outputs, *fallback]), None)


async def _problems(tool: CallableTool, value: Any) -> Sequence[tuple[Place, str]]:
    """Return the places in the arguments that the tool or an output validator refuses, each with the reason."""
    text = json_text(value)
    try:
        if tool.try_output is None:
            tool.read(text)
        else:
            await tool.try_output(text)
    except ToolcastError as error:
        cause = error.__cause__
        if not isinstance(error, ValidationError) or error.attempts or not isinstance(cause, pydantic.ValidationError):
            return ()  # of a call that an output validator made
        problems = cause.errors(include_url=False, include_input=False)
        hidden = "it is refused" if tool.hides_input else ""
        outer = ("value",) if tool.wrapped else ()  # which Pydantic's error is without
        return [((*outer, *each["loc"]), hidden or each["msg"]) for each in problems]
    except (TryAgain, ValueError) as error:
        notes: Sequence[str] = getattr(error, "__notes__", ())
        by = next((note.removeprefix("raised by ") for note in notes if "output validator" in note), "a validator")
        reason = "it is refused" if tool.hides_input else f"{by} refused {_shortened(text)}: {error}"
        # A field that the message names is tried first.
        named = [name for name in tool.parameters.get("properties", ()) if not tool.wrapped and _names(error, name)]
        return [((name,), reason) for name in named] or [((), reason)]
    except Exception:  # a validator of the user's, which may need the context that only the call has
        return ()
    return ()


def _names(error: Exception, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", str(error)) is not None


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
