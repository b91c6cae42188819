"""Look-ups in the table of model families, by the name of a model.

The first row that matches a name applies. A model without a row has the defaults of its provider and `known=False`; at
the vendor's own address it takes the newest row of its kind. Users override facts with `capabilities=` of an LLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ..capabilities import Capabilities
from .chat_completions.services import SERVICES
from .model_table import MODELS, PROVIDER_DEFAULTS, SOURCES, ModelFamily, family_of, of_service


@lru_cache(maxsize=256)
def model_family(provider: str, model: str, *, own: bool = True) -> ModelFamily | None:
    """Return the row of a model, if it has one.

    `own`: the request goes to the vendor's own address, where the newest row of its kind is for a name that none has.
    """
    return family_of(model_rows(provider), _name_in_rows(provider, model), own=own)


@lru_cache(maxsize=256)
def model_capabilities(provider: str, model: str, *, own: bool = True) -> Capabilities:
    """Return the capabilities of a model; the provider's defaults for a model without a row."""
    row = model_family(provider, model, own=own)
    if row is None:
        return provider_defaults(provider)
    return replace(_with_defaults(row), known=row.fits(_name_in_rows(provider, model)))


def family_text(provider: str, model: str, *, own: bool = True) -> str | None:
    """Return which row a model has, and the page that the row is from; None without a row."""
    row = model_family(provider, model, own=own)
    if row is None:
        return None
    newest = "" if row.fits(_name_in_rows(provider, model)) else ", the newest of its kind"
    return f"{provider} {row.models}{newest} ({row.source or SOURCES[provider]})"


def claude_family(model: str, *, own: bool = True) -> ModelFamily | None:
    """Return the row of a model of Anthropic by its name, or by its name on a cloud."""
    return model_family("anthropic", model[max(0, model.find("claude-")) :], own=own)


def _name_in_rows(provider: str, model: str) -> str:
    """Return the name as patterns have it: without the prefix of a cloud or of an owner, in lower case."""
    if provider == "bedrock":
        return bedrock_model_name(model)
    name = model.rpartition("/")[2].lower()
    if provider in ("anthropic", "anthropic-vertex"):
        return re.sub("[@.]", "-", name)  # clouds and gateways write `@` before the date, and 5.5
    return name[3:].partition(":")[0] if name.startswith("ft:") else name  # of what it was fine-tuned from


def model_rows(provider: str) -> Sequence[ModelFamily]:
    """Return the rows of a provider; the first that matches a name applies."""
    if provider in ("anthropic-vertex", "bedrock"):
        # Made on first use: other programs need not wait for the long tables of the clouds.
        from .cloud_models import BEDROCK, CLAUDE_ON_VERTEX

        return BEDROCK if provider == "bedrock" else CLAUDE_ON_VERTEX
    return [row for row in MODELS if row.provider == provider]


def bedrock_model_name(model: str) -> str:
    """Return the id of a model of Amazon Bedrock, `vendor.name`, from an ARN or the id of an inference profile.

    Inference profiles of AWS have the id of their model after that of a region (`us.`, `eu.`, `apac.`, `global.`). The
    name of a profile of one's own says nothing of its model.
    """
    return re.sub(r"^(?:[a-z]{2}|us-gov|apac|global)\.(?=[a-z0-9]+\.)", "", model.rpartition("/")[2].lower())


def provider_defaults(provider: str) -> Capabilities:
    """Return the capabilities that all models of a provider have."""
    if provider in PROVIDER_DEFAULTS:
        return PROVIDER_DEFAULTS[provider]
    return of_service(SERVICES[provider]) if provider in SERVICES else Capabilities()


def all_capabilities() -> Iterator[tuple[str, str, Capabilities]]:
    """Yield provider, model patterns and capabilities of all rows; last of each provider `*`, its other models."""
    for provider in sorted({*PROVIDER_DEFAULTS, *SERVICES}):
        yield from ((provider, row.models, _with_defaults(row)) for row in model_rows(provider))
        yield provider, "*", provider_defaults(provider)


def _with_defaults(row: ModelFamily) -> Capabilities:
    return replace(provider_defaults(row.provider).corrected(row.facts), known=True)
