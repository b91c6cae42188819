"""`toolcast get`: extract JSON from a text, by a schema in one line.

    toolcast get 'name, age int' 'Ingrid is 51.'
    toolcast get 'name, age int, city' < letter.txt
    toolcast get --many 'name, price float?' --file menu.txt | jq .name

With `--many` each object is a line, printed as soon as it is complete. Only JSON is written to stdout.
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
from .arguments import add_model_options
from .config_file import choose_model
from .one_line_schema import SchemaError, build_model, parse_schema
from .pull_command import load_with_progress

_PROMPTS = {
    False: "Extract the data from this text.\n\n{text}",
    True: "Extract all the data from this text, each item that it names.\n\n{text}",
}
# The embedded model does best with the text alone; without its prompt cache the answer is reproducible.
_EMBEDDED_PROMPT = "{text}"
_EMBEDDED = Settings(temperature=0, extra={"cache_prompt": False})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast get`."""
    parser.add_argument(
        "schema",
        metavar="SCHEMA",
        type=_schema,
        help="the schema: 'name, age int, born date?, tags list, size small|large, author {name, city}'",
    )
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text; default: that of --file or standard input")
    parser.add_argument("--file", type=Path, metavar="FILE", help="the file with the text; default: standard input")
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
    parser.add_argument("--pretty", action="store_true", help="indent the JSON")
    add_model_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the extracted objects as JSON and return the exit code."""
    llm = choose_llm(choose_model(arguments.model), arguments.host, arguments.token)
    text = _text(arguments.text, arguments.file)
    load_with_progress(llm, sys.stderr)
    embedded = isinstance(llm, LlamaCpp)
    prompt = arguments.prompt or (_EMBEDDED_PROMPT if embedded else _PROMPTS[arguments.many])
    prompt = prompt if "{text}" in prompt else prompt + "\n\n{text}"
    output: Any = GenericAlias(list, (arguments.schema,)) if arguments.many else arguments.schema
    extractor = ToolOrchestratingLLM(output, prompt, llm, settings=_EMBEDDED if embedded else None)
    for found in _extract(extractor, text, many=arguments.many):
        print(found.model_dump_json(by_alias=True, indent=2 if arguments.pretty else None), flush=True)
    return 0


def _schema(text: str) -> type[BaseModel]:
    """Return the model class of the objects to extract; argparse reports a `SchemaError` as a wrong argument."""
    try:
        return build_model(parse_schema(text))
    except SchemaError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _text(given: str | None, file: Path | None) -> str:
    """Return the text of the command line, of the file or of standard input.

    Raises:
        ToolcastError: The text is empty, or there are two.
    """
    if given is not None and file is not None:
        raise ToolcastError("pass the text or --file, not both")
    if given is None:
        if file is None and sys.stdin.isatty():
            print("toolcast: type or paste the text, then press Ctrl-D", file=sys.stderr)
        data = sys.stdin.buffer.read() if file is None else file.read_bytes()
        given = data.decode(errors="replace")
    if not (text := given.strip()):
        raise ToolcastError(
            "the text is empty: write it after the schema, pass a file with --file, or text on standard input"
        )
    return text


def _extract(extractor: ToolOrchestratingLLM[Any], text: str, *, many: bool) -> Iterator[BaseModel]:
    """Yield the extracted objects, each as soon as it is complete."""
    if not many:
        yield extractor(text=text)
        return
    with extractor.stream(text=text) as stream:
        yield from stream.items()
