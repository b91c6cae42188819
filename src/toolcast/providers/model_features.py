"""Look-ups in the table of models: the capabilities of a model by its name.

The first row that matches a name applies. A model without a row has the defaults of its provider and `known=False`.
Users override entries with `capabilities=` of an LLM.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from ..capabilities import Capabilities
from .chat_completions.services import SERVICES
from .model_table import MODELS, PROVIDER_DEFAULTS, ModelRow, of_service


@lru_cache(maxsize=256)
def model_capabilities(provider: str, model: str) -> Capabilities:
    """Return the capabilities of a model; the provider's defaults for a model without a row."""
    name = bedrock_model_name(model) if provider == "bedrock" else model.rpartition("/")[2].lower()
    if provider == "anthropic-vertex":
        name = name.replace("@", "-")  # before the date
    row = next((row for row in model_rows(provider) if row.fits(name)), None)
    return _with_defaults(row) if row else provider_defaults(provider)


def model_rows(provider: str) -> Sequence[ModelRow]:
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


def _with_defaults(row: ModelRow) -> Capabilities:
    return replace(provider_defaults(row.provider).corrected(row.facts), known=True)
