"""`toolcast models`: models with their context, prices and capabilities, as a table or as JSON.

Without a provider it is the table of this library: one row for each pattern of names. With one it is the list of the
service (Ollama's installed models, `/v1/models`), and the table only if the service does not answer. With a model it is
what the table says of it, and from where.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from typing import Any, Final

from ..llms.local.llama_cpp import LlamaCpp
from ..llms.local.pulled import find_pulled, pulled_models
from ..llms.local.weights import WEIGHTS
from ..llms.named_llms import providers
from ..providers.model_features import all_capabilities, family_text, model_capabilities, model_family
from ..text.terminal_text import visible
from ..values.capabilities import Capabilities
from ..values.prices import Prices, has_price_list, listed_models, listed_prices
from .output import command_line_text, fitted_table

_COLUMNS: Final = {
    "CONTEXT": "context_window",
    "TOOLS": "tools",
    "IMAGES": "images",
    "THINKING": "thinking",
    "SCHEMA": "json_schema",
    "FORCED": "forced_tools",
    "PARALLEL": "parallel",
    "STRICT": "strict",
}
"""The columns of the table, and the field of `Capabilities` in each."""
_LEFT_OUT: Final = (
    "STRICT", "PARALLEL", "FORCED", "SCHEMA", "THINKING", "IMAGES", "TOOLS", "$/M OUT", "$/M IN", "PROVIDER",
)  # fmt: skip
"""The columns that are left out, in this order, where the terminal is too narrow for all."""
_LEAST: Final = 24
_WORKERS: Final = 8


class _Providers(list[str]):
    """The names of providers, each of which may be followed by a model."""

    def __contains__(self, value: object) -> bool:
        return super().__contains__(str(value).partition(":")[0])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `toolcast models`."""
    names = sorted({"local", *providers(), *(provider for provider, _, _ in all_capabilities())})
    parser.add_argument(
        "provider",
        nargs="?",
        choices=_Providers(names),
        metavar="PROVIDER[:MODEL]",
        help=f"one of: {', '.join(names)}",
    )
    parser.add_argument(
        "--offline", action="store_true", help="the table of this library, also for a provider that has a list"
    )
    parser.add_argument("--json", action="store_true", help="print everything that is known as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Print the models and return the exit code."""
    provider: str | None = arguments.provider
    if provider is not None and ":" in provider:
        return _print_model(*provider.split(":", 1), as_json=arguments.json)
    rows = [] if provider is None or arguments.offline else _listed(provider)
    rows = rows or [row for row in _table() if provider in (None, row["provider"])]
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    cells = [_cells(row) for row in rows]
    columns = [*(["PROVIDER"] if provider is None else []), *_COLUMNS, "$/M IN", "$/M OUT", "MODEL"]
    print(*fitted_table(columns, cells, left_out=_LEFT_OUT, width=width, least=_LEAST), sep="\n")
    if not has_price_list():
        print("toolcast models: for prices: pip install 'toolcast[prices]'", file=sys.stderr)
    return 0


def _print_model(provider: str, model: str, *, as_json: bool) -> int:
    """Print what the table says of one model, which row that is, and the page that the row is from."""
    row, facts = model_family(provider, model), model_capabilities(provider, model)
    found: dict[str, Any] = {"model": f"{provider}:{model}", **asdict(facts), "row": family_text(provider, model)}
    if row is not None:
        more = {"efforts": row.efforts, "thinks_by": row.thinking, "protocol": row.protocol, "traits": row.traits}
        found |= {name: value for name, value in more.items() if value} | {"left_out": dict(row.left_out)}
    if as_json:
        print(json.dumps(found, indent=2))
        return 0
    left_out = found.pop("left_out", {})
    found |= {f"left out {when}".replace("_", " "): names for when, names in left_out.items()}
    width = max(map(len, found))
    for name, value in found.items():
        text = "none: the defaults of the provider" if name == "row" and value is None else value
        print(f"{name.replace('_', ' '):<{width}}  {text if isinstance(text, str) else _cell(text)}")
    return 0


def _listed(provider: str) -> list[dict[str, Any]]:
    """Return the rows of the models that the service lists; none if it does not answer, with a note why."""
    from .api_keys import choose_llm
    from .model_facts import ServedModels
    from .model_list import list_models

    (found,) = list_models([provider], make=choose_llm)
    if found.error:
        reason = command_line_text(found.error).rstrip(".")
        print(f"toolcast models: {reason}; this is what the table of toolcast has", file=sys.stderr)
    if found.error or not found.is_from_service:
        return []
    served = ServedModels()

    def capabilities(model: str) -> Capabilities:
        if provider != "ollama":  # the lists of the others have been read
            return model_capabilities(provider, model.removeprefix(f"{provider}:"))
        metadata = served.ask(choose_llm(model))
        return replace(metadata.capabilities, context_window=metadata.context_window)

    with ThreadPoolExecutor(_WORKERS) as pool:
        facts = list(pool.map(capabilities, found.models))
    names = [name.removeprefix(f"{provider}:") for name in found.models]
    return [_row(provider, name, fact, [name], "service") for name, fact in zip(names, facts, strict=True)]


def _table() -> Iterator[dict[str, Any]]:
    """Yield every row of the table of capabilities, and the models that run in this process."""
    earlier = dict[str, list[str]]()  # patterns by provider: the first that fits a name counts
    for provider, patterns, capabilities in all_capabilities():
        names = _names(patterns)
        if not any(listed_prices(provider, name) for name in names) and patterns != "*":
            names = [name for name in listed_models(provider) if _fits(name, patterns.split(", "))]
            names = [name for name in names if not _fits(name, earlier.get(provider, []))]
        earlier.setdefault(provider, []).extend(patterns.split(", "))
        yield _row(provider, patterns, capabilities, names, "table")
    for name in sorted(WEIGHTS):
        yield _row("local", name, LlamaCpp(name).metadata.capabilities, [], "table")
    for model in pulled_models():
        yield _row("local", model.name, LlamaCpp(model.name).metadata.capabilities, [], "pulled")


def _row(provider: str, models: str, capabilities: Capabilities, names: Sequence[str], source: str) -> dict[str, Any]:
    """Return everything that is known about a model, or about those that fit a pattern."""
    prices = {name: found for name in names if (found := listed_prices(provider, name)) is not None}
    pulled = find_pulled(models) if source == "pulled" else None
    return {
        "provider": provider,
        "models": models,
        **asdict(capabilities),
        "prices": {name: _per_million(found) for name, found in prices.items()},
        "source": source,
        **({} if pulled is None else {"path": pulled.path, "trained_context": pulled.context}),
    }


def _per_million(prices: Prices) -> dict[str, str]:
    """Return the prices of a million tokens in US dollars, as text: a float would change the digits."""
    return {"input": _plain(prices.input), "output": _plain(prices.output)}


def _plain(amount: Any) -> str:
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _fits(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _names(patterns: str) -> list[str]:
    """Return the names in patterns, without what stands for anything else, if a name is left."""
    found = (re.sub(r"(?:-20)?\*$", "", pattern).rstrip("-") for pattern in patterns.split(", "))
    return [name for name in dict.fromkeys(found) if name and not re.search(r"[*?\[]", name)]


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    cells = {column: _cell(row[name]) for column, name in _COLUMNS.items()}
    amounts = {kind: [prices[kind] for prices in row["prices"].values()] for kind in ("input", "output")}
    return {
        "PROVIDER": row["provider"],
        **cells,
        "$/M IN": _span(amounts["input"]),
        "$/M OUT": _span(amounts["output"]),
        "MODEL": visible(row["models"]),
    }


def _span(amounts: Sequence[str]) -> str:
    """Return the lowest and the highest of several prices; `-` for none."""
    found = sorted(set(amounts), key=float)
    return "-" if not found else found[0] if len(found) == 1 else f"{found[0]}-{found[-1]}"


def _cell(value: bool | int | None) -> str:
    return {None: "?", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else f"{value:,}"
