"""BAML: `parse_stream` of the text so far, by a client that `baml-cli generate` makes from the documents' types.

BAML sends its requests itself, from compiled code, so no transport in memory can answer it: here it parses alone. That
is in its favour, for what splits and decodes the events is not measured. Its types have no date and time, which stay
strings.
"""

# /// script
# dependencies = ["baml-py", "pydantic"]
# ///

from __future__ import annotations

import enum
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from types import NoneType, UnionType
from typing import Any, get_args, get_origin

from canned import AS_TEXT, Person
from documents import Album, Document, Essay, LooseOrders, Orders
from peers.calling import Caller, Ready, last
from peers.common import Peer, Way, Wire, main
from pydantic import BaseModel

SETTINGS = """
generator target {
  output_type "python/pydantic"
  output_dir ".."
  version "%s"
  default_client_mode sync
}
client<llm> Wire {
  provider openai-generic
  options {
    base_url env.BENCHMARK_URL
    api_key "none"
    model "gpt-4o-mini"
  }
}
"""
FUNCTION = """
function Make%s() -> %s {
  client Wire
  prompt #"Make one. {{ ctx.output_format }}"#
}
"""
NAMES = {str: "string", datetime: "string", int: "int", float: "float", bool: "bool"}


def source(*types: type[BaseModel]) -> str:
    """Return the BAML source: the classes of these types, and a function that returns each of them."""
    classes: dict[str, str] = {}
    functions = [FUNCTION % (kind.__name__, _spelled(kind, classes)) for kind in types]
    return "".join([SETTINGS % version("baml-py"), *classes.values(), *functions])


def _spelled(kind: Any, classes: dict[str, str]) -> str:
    """Return the name of a type in BAML, with its class, and those below it, added to `classes`."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is list:
        return f"{_spelled(inner[0], classes)}[]"
    if origin is dict:
        return f"map<{_spelled(inner[0], classes)}, {_spelled(inner[1], classes)}>"
    if origin is UnionType:
        (one,) = (each for each in inner if each is not NoneType)
        return f"({_spelled(one, classes)})?"
    if issubclass(kind, enum.Enum):
        return "(" + " | ".join(f'"{member.value}"' for member in kind) + ")"
    if issubclass(kind, BaseModel):
        fields = [f"  {name} {_spelled(field.annotation, classes)}\n" for name, field in kind.model_fields.items()]
        classes[kind.__name__] = f"class {kind.__name__} {{\n{''.join(fields)}}}\n"
        return kind.__name__
    return NAMES[kind]


def generate() -> Any:
    """Return the generated client, made in a folder of its own, which is put on the path of this process's children."""
    folder = Path(mkdtemp(prefix="baml-"))
    (folder / "baml_src").mkdir()
    (folder / "baml_src" / "main.baml").write_text(source(Album, Orders, LooseOrders, Essay, Person), encoding="utf-8")
    command = [str(Path(sys.executable).with_name("baml-cli")), "generate", "--from", str(folder / "baml_src")]
    os.environ |= {"BAML_LOG": "off", "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{folder}"}
    subprocess.run(command, check=True, stdout=sys.stderr)
    sys.path.append(str(folder))
    return import_module("baml_client").b


def parsed(document: Document, wire: Wire) -> Callable[[], Iterator[Any]]:
    """A partial model for each piece, then the object."""
    name = f"Make{document.type.__name__}"
    partial, whole = getattr(CLIENT.parse_stream, name), getattr(CLIENT.parse, name)

    def read() -> Iterator[Any]:
        text = ""
        for piece in wire:
            text += piece
            yield partial(text)
        yield whole(text)

    return read


def sync(url: str) -> Ready:
    """One call and one short stream."""
    os.environ["BENCHMARK_URL"] = url

    def stream() -> Person:
        opened = CLIENT.stream.MakePerson()
        last(opened)
        return _person(opened.get_final_response())

    return Ready(lambda: _person(CLIENT.MakePerson()), stream)


def _person(made: Any) -> Person:
    return Person.model_validate(made.model_dump())


CLIENT = generate()
READY = "from baml_client import b; b.stream.MakeAlbum"
WAYS = (Way("BAML, `parse_stream`", "typed", parsed, lambda pieces, tool: pieces),)
CALLERS = (Caller("BAML, sync", sync, f"{AS_TEXT}/v1"),)

if __name__ == "__main__":
    main(Peer("baml", ("baml-py", "pydantic"), READY, WAYS, CALLERS))
