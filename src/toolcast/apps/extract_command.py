"""`toolcast get`: JSON out of a text, by a schema in one line.

    toolcast get 'name, age int, city' < letter.txt
    toolcast get --many 'name, price float?' --file menu.txt | jq .name

With `--many` each object is a line, printed as soon as it is complete. On stdout is JSON and nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from types import GenericAlias
from typing import Any

from pydantic import BaseModel

from ..errors import ToolcastError
from ..llms.model_registry import choose_llm
from ..llms.provider_llms import LlamaCpp
from ..settings import Settings
from ..structured.orchestrator import ToolOrchestratingLLM
from .model_options import model_arguments
from .one_line_schema import SchemaError, model_of, parsed
from .pull_command import load_in_sight

_PROMPTS = {
    False: "Extract the data from this text.\n\n{text}",
    True: "Extract all the data from this text, each item that it names.\n\n{text}",
}
# The embedded model does best with the text alone, and gives the same answer again only so.
_EMBEDDED_PROMPT = "{text}"
_EMBEDDED = Settings(temperature=0, extra={"cache_prompt": False})


def arguments(parser: argparse.ArgumentParser) -> None:
    """What may stand on the command line."""
    parser.add_argument(
        "schema",
        metavar="SCHEMA",
        type=_schema,
        help="what to extract: 'name, age int, born date?, tags list, size small|large, author {name, city}'",
    )
    parser.add_argument("--file", type=Path, metavar="FILE", help="where the text is; default: standard input")
    parser.add_argument("--many", action="store_true", help="any number of objects, each on a line once it is complete")
    parser.add_argument("--prompt", metavar="TEXT", help="what is asked; {text} stands for the text, or it follows")
    parser.add_argument("--pretty", action="store_true", help="JSON on several lines")
    model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """The exit code; what was extracted is printed."""
    llm = choose_llm(arguments.model, arguments.host, arguments.token)
    text = _text(arguments.file)
    load_in_sight(llm, sys.stderr)
    embedded = isinstance(llm, LlamaCpp)
    prompt = arguments.prompt or (_EMBEDDED_PROMPT if embedded else _PROMPTS[arguments.many])
    prompt = prompt if "{text}" in prompt else prompt + "\n\n{text}"
    output: Any = GenericAlias(list, (arguments.schema,)) if arguments.many else arguments.schema
    make = ToolOrchestratingLLM(output, prompt, llm, settings=_EMBEDDED if embedded else None)
    for found in _found(make, text, many=arguments.many):
        print(found.model_dump_json(by_alias=True, indent=2 if arguments.pretty else None), flush=True)
    return 0


def _schema(text: str) -> type[BaseModel]:
    """The model of the objects to extract. What argparse says of an error is its message."""
    try:
        return model_of(parsed(text))
    except SchemaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _text(file: Path | None) -> str:
    """The text to read. Raises `ToolcastError` where there is none."""
    if file is None and sys.stdin.isatty():
        print("toolcast: type or paste the text, and end it with Ctrl-D", file=sys.stderr)
    data = sys.stdin.buffer.read() if file is None else file.read_bytes()
    if not (text := data.decode(errors="replace").strip()):
        raise ToolcastError("there is no text to extract from: give it with --file, or on standard input: ... < FILE")
    return text


def _found(make: ToolOrchestratingLLM[Any], text: str, *, many: bool) -> Iterator[BaseModel]:
    """What was extracted, each object as soon as it is complete."""
    if not many:
        yield make(text=text)
        return
    with make.stream(text=text) as stream:
        yield from stream.items()
