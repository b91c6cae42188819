"""Comparison of toolcast with the types of the vendors' newest SDKs: `nox -s vendors`.

    python tests/vendor_sdks.py [--provider NAME] ... [--out FILE]

It compares model names, efforts, parameters, kinds of items and blocks, events, tools and stop reasons. It sends no
requests. A finding is one line: a name that toolcast does not know, or a type that an SDK no longer has. `--out` writes
Markdown.

The exit code is 1 if there are findings, and so the nightly run fails. A new model has only the defaults of its
provider until it has a row, and without a failure it would stay so until a user finds out.

A finding ends with a row in the table of models, a change of a decoder, or a name in vendor_sdks.toml: see its head.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import toolcast
from toolcast.providers.model_features import model_capabilities

LISTS = Path(__file__).with_suffix(".toml")
NOT_CHAT = re.compile(
    r"embed|-tts|transcribe|whisper|realtime|moderation|llama-guard|image|imagine|banana|sora|veo-|gemini-omni|lyria|"
    r"computer-use"  # it works with its own tool alone
)
"""Models that are not for chat."""


class Comparison(NamedTuple):
    """A comparison of types of an SDK with the names that toolcast knows; the fields are those of vendor_sdks.toml."""

    what: str
    read: str
    types: str
    tables: str = ""
    used: str = ""
    left: str = ""


class Vendor(NamedTuple):
    """A provider, the package of its SDK, the paths of the types with its models, and its comparisons."""

    provider: str
    package: str
    comparisons: Sequence[Comparison] = ()
    models: str = ""
    retired: str = ""


class Result(NamedTuple):
    """The result of a comparison: how many names were read, the findings, and what is worth a look and no finding."""

    what: str
    read: int
    findings: Sequence[str] = ()
    notes: Sequence[str] = ()


def literals(kind: Any) -> set[str]:
    """Return the literals in a type, or the values of an enumeration."""
    if get_origin(kind) is Literal:
        return {str(each.value if isinstance(each, Enum) else each) for each in get_args(kind)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {str(each.value) for each in kind}
    return {name for part in _parts(kind) for name in literals(part)}


def names(kind: Any) -> set[str]:
    """Return the names of the fields of a class, of those of all classes in a union, or of a function's parameters."""
    if inspect.isroutine(kind):
        return {*inspect.signature(kind).parameters}
    return {name for each in _classes(kind) for name in _fields(each)}


def kinds(kind: Any) -> set[str]:
    """Return the values of the field `type` of the classes in a union; of a class without it its own name."""
    return {name for each in _classes(kind) for name in literals(_fields(each).get("type")) or {each.__name__}}


READERS: Mapping[str, Callable[[Any], set[str]]] = {"literals": literals, "names": names, "kinds": kinds}


def _parts(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union, the arguments of a generic type, or the value of an alias."""
    return (kind.__value__,) if hasattr(kind, "__value__") else get_args(kind)


def _classes(kind: Any) -> list[type]:
    """Return the classes in a type that have fields."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return [] if issubclass(kind, (str, int, float, type(None))) else [kind]
    return [each for part in _parts(kind) for each in _classes(part)]


def _fields(kind: type) -> Mapping[str, Any]:
    """Return the types of the fields of a Pydantic model, a TypedDict or another class."""
    found: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    return get_type_hints(kind) if found is None else {name: field.annotation for name, field in found.items()}


def find(path: str) -> Any:
    """Return the type at a path. Raise AttributeError, ImportError or KeyError if it is gone."""
    dotted, _, field = path.partition(":")
    found = resolve_name(dotted)
    if not field:
        return found
    types = [fields[field] for fields in map(_fields, _classes(found)) if field in fields]
    if not types:
        raise KeyError(field)
    return types[0]  # the classes of a union have such a field from their common base


def read(paths: str, reader: Callable[[Any], set[str]]) -> tuple[set[str], list[str]]:
    """Return the names in the types at some paths, and a finding for each path that cannot be read."""
    found: set[str] = set()
    findings: list[str] = []
    for path in paths.split():
        try:
            more = reader(find(path))
        except (AttributeError, ImportError, KeyError):
            findings.append(f"{path} is gone")
        except Exception as error:  # an SDK may raise anything
            findings.append(f"{path} cannot be read: {type(error).__name__}: {error}")
        else:
            found |= more
            if not more:
                findings.append(f"{path} has no names that can be read")
    return found, findings


def spelled(name: str) -> str:
    """Return a name in the form that is compared: an SDK has `max_tokens` where its protocol has `maxTokens`."""
    return name.replace("_", "").lower()


def compare(each: Comparison) -> Result:
    """Compare the names in types of an SDK with those that toolcast knows."""
    found, findings = read(each.types, READERS[each.read])
    tables, gone = read(each.tables, lambda table: {*table})
    listed = [*each.used.split(), *each.left.split()]
    known = {spelled(name) for name in (*tables, *listed)}
    theirs = {spelled(name): name for name in sorted(found)}
    unknown = [f"{each.what.format(name)} is not listed" for key, name in theirs.items() if key not in known]
    if not findings:  # a type that is gone may have had the name
        dropped = [name for name in listed if spelled(name) not in theirs]
        unknown += [f"{each.what.format(name)} is listed, and the SDK has it no longer" for name in dropped]
    return Result(" ".join(each.what.format("").split()), len(found), (*findings, *gone, *unknown))


def compare_models(vendor: Vendor) -> Result:
    """Look up the models of an SDK in the table of models."""
    found, findings = read(vendor.models, literals)
    retired = {*vendor.retired.split()}
    other = sorted(name for name in found - retired if NOT_CHAT.search(name))
    chat = sorted(found - retired - {*other})
    facts = {name: model_capabilities(vendor.provider, name) for name in chat}
    unknown = [f"model {name} has no row" for name in chat if not facts[name].known]
    if not findings:
        unknown += [f"model {name} is listed, and the SDK has it no longer" for name in sorted(retired - found)]
    # A row for a whole family fits its new models too, and has few facts.
    sparse = [name for name in chat if facts[name].known and facts[name].context_window is None]
    listed = {"Rows without a context window": sparse, "Not for chat": other}
    notes = [f"{title}: {', '.join(some)}" for title, some in listed.items() if some]
    return Result("model", len(chat), (*findings, *unknown), notes)


def results(vendor: Vendor) -> Iterator[Result]:
    """Yield the results of all comparisons of a vendor."""
    yield compare_models(vendor) if vendor.models else Result("model (the SDK names none)", 0)
    yield from map(compare, vendor.comparisons)


def report(vendor: Vendor) -> tuple[str, int]:
    """Return the report on a vendor in Markdown, and the number of its findings."""
    try:
        edition = version(vendor.package)
    except PackageNotFoundError:
        edition, rows = "", [Result("SDK", 0, ["the SDK is not installed"])]
    else:
        rows = list(results(vendor))
    title = f"{vendor.package} {edition}".strip()
    found = [f"* {title}: {finding}" for row in rows for finding in row.findings]
    notes = [note for row in rows for note in row.notes]
    table = [f"| {row.what} | {row.read} | {len(row.findings)} |" for row in rows]
    head = [f"## {title}", "", "| compared | names | findings |", "|---|---:|---:|"]
    blocks = ["\n".join([*head, *table]), *notes, counted(len(found)), *(["\n".join(found)] if found else [])]
    return "\n\n".join(blocks), len(found)


def counted(number: int) -> str:
    """Return a number of findings as text."""
    return f"{number} finding{'' if number == 1 else 's'}"


def load(path: Path = LISTS) -> tuple[Vendor, ...]:
    """Return the vendors of a file of lists."""
    return tuple(_vendor(provider, **about) for provider, about in tomllib.loads(path.read_text("utf-8")).items())


def _vendor(provider: str, comparisons: Sequence[Mapping[str, str]], **about: str) -> Vendor:
    return Vendor(provider, comparisons=[Comparison(**each) for each in comparisons], **about)


def main(arguments: Sequence[str] | None = None, vendors: Sequence[Vendor] | None = None) -> int:
    vendors = load() if vendors is None else vendors
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", action="append", metavar="NAME", choices=[each.provider for each in vendors])
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    reports = [report(each) for each in vendors if each.provider in (given.provider or [each.provider])]
    count = sum(found for _, found in reports)
    title = f"# The vendors' SDKs beside toolcast {toolcast.__version__}, {datetime.now(UTC):%Y-%m-%d}"
    written = "\n\n".join([title, *(text for text, _ in reports), f"vendors: {counted(count)}"])
    print(written, flush=True)
    if given.out:
        given.out.write_text(f"{written}\n", encoding="utf-8")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
