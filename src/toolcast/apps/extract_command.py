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

from pydantic import TypeAdapter

from ..errors import ToolcastError
from ..llms.model_registry import choose_llm
from ..structured.orchestrator import ToolOrchestratingLLM
from .arguments import add_model_options
from .config_file import choose_model
from .extraction import make_call, prompt_with_text
from .output_type_argument import SCHEMA_HELP, schema_argument
from .pull_command import load_with_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast get`."""
    parser.add_argument(
        "schema",
        metavar="SCHEMA",
        type=schema_argument,
        help=SCHEMA_HELP,
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
    kind = arguments.schema()
    output: Any = GenericAlias(list, (kind,)) if arguments.many else kind
    call = make_call(output, llm, prompt_with_text(arguments.prompt, llm, many=arguments.many))
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    for found in _extract(call, text, many=arguments.many):
        json = adapter.dump_json(found, by_alias=True, indent=2 if arguments.pretty else None)
        print(json.decode(), flush=True)
    return 0


def _text(given: str | None, file: Path | None) -> str:
    """Return the text of the command line, of the file or of standard input.

    Raises:
        ToolcastError: The text is empty, or there are two.
    """
    if given is not None and file is not None:
        raise ToolcastError("pass the text or --file, not both")
    if not (text := (_read_text(file) if given is None else given).strip()):
        raise ToolcastError(
            "the text is empty: write it after the schema, pass a file with --file, or text on standard input"
        )
    return text


def _read_text(file: Path | None) -> str:
    if file is None and sys.stdin.isatty():
        print("toolcast: type or paste the text, then press Ctrl-D", file=sys.stderr)
    data = sys.stdin.buffer.read() if file is None else file.read_bytes()
    return data.decode(errors="replace")


def _extract(call: ToolOrchestratingLLM[Any], text: str, *, many: bool) -> Iterator[Any]:
    """Yield the extracted objects, each as soon as it is complete."""
    if not many:
        yield call(text=text)
        return
    with call.stream(text=text) as stream:
        yield from stream.items()
