"""`toolcast get`: extract JSON from a text, by a schema in one line.

    toolcast get 'name, age int' 'Ingrid is 51.'
    toolcast get 'name, age int, city' < letter.txt
    toolcast get --many 'name, price float?' --file menu.txt | jq .name

With `--many` each object is a line, printed as soon as it is complete. Only JSON is written to stdout: indented on a
terminal, where the object grows while the model writes, else on one line.

The call of `toolcast get` and `toolcast map`: its default prompts, and the settings of the embedded model.

JSON on a terminal: an object that grows in place while the model writes, then indented and highlighted.

Without rich it is indented, and printed when it is complete.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import GenericAlias
from typing import Any, Final, TextIO

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from ..errors import ToolcastError
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.local.llama_cpp import LlamaCpp
from ..messages import ImagePart, user
from ..prompts import ChatPromptTemplate, PromptTemplate
from ..structured.orchestrator import ToolOrchestratingLLM
from ..text.live_display import can_redraw
from ..text.terminal_text import visible
from ..values.settings import Settings
from .api_keys import choose_llm
from .call_log import logged_call
from .command_parser import add_model_options
from .config_file import choose_model, config_path, read_config
from .file_mentions import decoded_text, image_type, message_with_files, protected_by
from .model_facts import ServedModels
from .output_type_argument import SCHEMA_HELP, LoadType, schema_argument
from .pull_command import load_with_progress
from .waiting_line import WaitingLine

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


def print_json(text: str, stream: TextIO) -> None:
    """Print JSON to a terminal, highlighted if rich is installed; `NO_COLOR` leaves the colours out."""
    if find_spec("rich") is None:
        print(text, file=stream, flush=True)
        return
    from rich.console import Console
    from rich.highlighter import JSONHighlighter

    Console(file=stream).print(JSONHighlighter()(text), soft_wrap=True)


def print_growing(snapshots: Iterable[Any], adapter: TypeAdapter[Any], stream: TextIO) -> None:
    """Draw each of the `snapshots` of an object over the one before, and print the last one, the object itself."""
    if find_spec("rich") is None:
        *_, last = snapshots
        print_json(_indented(adapter, last), stream)
        return
    from rich.console import Console
    from rich.highlighter import JSONHighlighter
    from rich.live import Live

    console, highlight, last = Console(file=stream), JSONHighlighter(), None
    with Live(
        console=console, transient=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
    ) as live:
        for last in snapshots:
            try:
                text = _indented(adapter, last)
            except PydanticSerializationError:  # of a type of the user's, which serializes complete objects only
                continue
            shown = highlight("\n".join(text.split("\n")[1 - console.height :]))
            shown.no_wrap, shown.overflow = True, "ellipsis"
            live.update(shown, refresh=True)
    print_json(_indented(adapter, last), stream)


def _indented(adapter: TypeAdapter[Any], value: Any) -> str:
    return adapter.dump_json(value, by_alias=True, indent=2, warnings=False).decode()


_EXAMPLES: Final = """examples:
  toolcast get 'name, age int' 'Ingrid is 51.'
  toolcast get 'title, year int?, genre novel|essay' --file review.txt
  toolcast get --many 'item, price float, tags list' < receipt.txt | jq .price
  toolcast get 'total float, shop' @receipt.png -m anthropic:claude-sonnet-4-5
  toolcast get 'author {name, born date?} "who wrote it"' < page.txt
  toolcast get invoice.schema.json --file bill.txt   a JSON Schema
  toolcast get shop.models:Invoice --file bill.txt   a class of yours"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast get`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "schema",
        metavar="SCHEMA",
        type=_schema,
        help=SCHEMA_HELP,
    )
    parser.add_argument(
        "text",
        nargs="?",
        metavar="TEXT",
        help="the text; @FILE in it puts in a file or an image; default: that of --file or standard input",
    )
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="the file with the text, or an image; default: standard input"
    )
    parser.add_argument(
        "--many",
        action="store_true",
        help="extract any number of objects, one per line, each as soon as it is complete",
    )
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        help="the prompt; {text} is replaced by the text, which otherwise follows the prompt",
    )
    parser.add_argument("--pretty", action="store_true", help="indent the JSON in a pipe, too")
    parser.add_argument("--no-log", action="store_true", help="do not log the call; see `toolcast logs`")
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the extracted objects as JSON and return the exit code."""
    llm = choose_llm(choose_model(arguments.model), arguments.host, arguments.token)
    text, images = _input(arguments.text, arguments.file, llm)
    load_with_progress(llm, sys.stderr)
    schema, load_type = arguments.schema
    kind = load_type()
    output: Any = GenericAlias(list, (kind,)) if arguments.many else kind
    prompt = prompt_with_text(arguments.prompt, llm, many=arguments.many)
    _check_variables(prompt)
    call = make_call(output, llm, _with_images(prompt, text, images) if images else prompt)
    values = {} if images else {"text": text}
    is_logged = not arguments.no_log and read_config(config_path()).log
    with (
        logged_call(f"get {schema}: {text}", enabled=is_logged),
        WaitingLine(f"Waiting for {visible(llm.metadata.model_name)}", sys.stderr) as waiting,
    ):
        _print_extracted(call, values, TypeAdapter(kind), waiting, many=arguments.many, pretty=arguments.pretty)
    return 0


def _print_extracted(
    call: ToolOrchestratingLLM[Any],
    values: Mapping[str, Any],
    adapter: TypeAdapter[Any],
    waiting: WaitingLine,
    *,
    many: bool,
    pretty: bool,
) -> None:
    """Print the extracted objects: at a terminal the object while it grows, in a pipe JSON on one line."""
    at_terminal = sys.stdout.isatty()
    if at_terminal and not many and can_redraw(sys.stdout):
        with call.stream(**values) as stream:
            print_growing(waiting.until_first(stream), adapter, sys.stdout)
        return
    for found in waiting.until_first(_extract(call, values, many=many)):
        json = adapter.dump_json(found, by_alias=True, indent=2 if pretty or at_terminal else None).decode()
        if at_terminal:
            print_json(json, sys.stdout)
        else:
            print(json, flush=True)


def _schema(text: str) -> tuple[str, LoadType]:
    """Return the schema as it was written, and the function that loads its type."""
    return text, schema_argument(text)


def _input(given: str | None, file: Path | None, llm: FunctionCallingLLM) -> tuple[str, list[ImagePart]]:
    """Return the text of the command line with the files that it mentions, or that of the file or of standard input.

    Raises:
        ToolcastError: The text is empty, there are two, or a file may not be sent.
    """
    if given is not None and file is not None:
        raise ToolcastError("pass the text or --file, not both")
    images: list[ImagePart] = []
    if given is not None:
        text, images = _mentioned(given, llm)
    elif file is not None and _is_image(file):
        text, images = _mentioned(f'@"{file}"', llm)
    else:
        text = _read_text(file)
    if not text.strip():
        raise ToolcastError(
            "the text is empty: write it after the schema, pass a file with --file, or text on standard input"
        )
    return text.strip(), images


def _mentioned(typed: str, llm: FunctionCallingLLM) -> tuple[str, list[ImagePart]]:
    """Return the typed text with the text files that it mentions, and the images."""
    found = message_with_files(typed, Path.cwd(), lambda: ServedModels().ask(llm))
    notes = found.notes if sys.stderr.isatty() else found.warnings
    print(*(f"toolcast: {note}\n" for note in notes), sep="", end="", file=sys.stderr)
    return found.message.text, [part for part in found.message.parts if isinstance(part, ImagePart)]


def _is_image(file: Path) -> bool:
    with file.open("rb") as opened:
        return image_type(opened.read(16)) is not None


def _check_variables(prompt: str) -> None:
    """Raise `ToolcastError` if the prompt has another variable than the text."""
    if others := [name for name in PromptTemplate(prompt).variables if name != "text"]:
        name = others[0]
        raise ToolcastError(
            f"--prompt has {{{name}}}, and only {{text}} is replaced: to send the braces as text, write {{{{{name}}}}}"
        )


def _with_images(prompt: str, text: str, images: list[ImagePart]) -> ChatPromptTemplate:
    """Return the prompt with the text, and the images behind it."""
    return ChatPromptTemplate([user(PromptTemplate(prompt).format(text=text), *images)])


def _read_text(file: Path | None) -> str:
    if file is None and sys.stdin.isatty():
        print("toolcast: type or paste the text, then press Ctrl-D", file=sys.stderr)
    if file is None:
        return decoded_text(sys.stdin.buffer.read(), "standard input")
    if protected := protected_by(str(file), os.path.realpath(file), str(Path.cwd())):
        raise ToolcastError(
            f"--file {file} is protected ({protected}): its content is not sent to a model; standard input sends "
            f"it all the same: toolcast get ... < {file}"
        )
    return decoded_text(file.read_bytes(), str(file))


def _extract(call: ToolOrchestratingLLM[Any], values: Mapping[str, Any], *, many: bool) -> Iterator[Any]:
    """Yield the extracted objects, each as soon as it is complete."""
    if not many:
        yield call(**values)
        return
    with call.stream(**values) as stream:
        yield from stream.items()
