"""The tables about providers, on the pages, are those of the code."""

from __future__ import annotations

import importlib.util
from collections import Counter
from types import ModuleType

import pytest

from docs.pages import ROOT
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.model_features import PROVIDER_DEFAULTS


@pytest.fixture(scope="module")
def features() -> ModuleType:
    """The script that writes them."""
    spec = importlib.util.spec_from_file_location("features", ROOT / "docs" / "features.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_up_to_date(features: ModuleType) -> None:
    stale = [page for page in features.PAGES if features.read(page) != features.written(page)]
    assert stale == [], "run `python docs/features.py`"


def test_every_provider_has_a_line(features: ModuleType) -> None:
    head, *lines = features.features()
    assert [line[0].strip("`") for line in lines] == sorted({*PROVIDER_DEFAULTS, *SERVICES})
    assert {len(line) for line in lines} == {len(head)}
    assert {cell for line in lines for cell in line[1:-1]} == {"yes", "no", "·"}


def test_every_batch_api_has_one_line(features: ModuleType) -> None:
    _, *lines = features.batches()
    names = [name.strip("`") for line in lines for name in line[0].split(", ")]
    assert len(names) == len(set(names))
    assert {"Anthropic", "Google", "Mistral", "OpenAIResponses"} < set(names)
    assert set(names) & SERVICES.keys() == {name for name, row in SERVICES.items() if row.batches is not None}
    prices = {name: line[3] for line in lines for name in line[0].split(", ")}
    assert prices["`Anthropic`"] == "half"


def test_every_service_says_where_it_is_and_what_it_reads(features: ModuleType) -> None:
    _, *lines = features.services()
    text = {name.strip("`"): (address, keys) for name, address, keys in lines}
    assert text.keys() == SERVICES.keys()
    assert text["azure"] == (
        "`{AZURE_OPENAI_ENDPOINT}/openai/deployments/{model}/chat/completions?api-version={OPENAI_API_VERSION}`",
        "`AZURE_OPENAI_API_KEY` or `AZURE_OPENAI_AD_TOKEN`",
    )
    assert text["bedrock-mantle"][0] == "`https://bedrock-mantle.{AWS_REGION}.api.aws/v1/chat/completions`"
    assert text["vllm"][1] == "none needed; `VLLM_API_KEY`"


def test_every_service_has_one_section_of_its_own(features: ModuleType) -> None:
    # OpenAI's own is described on its page.
    text = Counter(name for tables in features.PAGES.values() for name in tables if name in SERVICES)
    assert text == Counter(SERVICES.keys() - {"openai"})


def test_a_section_tells_what_is_special_and_what_is_emulated(features: ModuleType) -> None:
    azure, groq, moonshot, qwen, perplexity, lm_studio, openai = (
        dict(features.dialect(name))
        for name in ("azure", "groq", "moonshot", "qwen", "perplexity", "lmstudio", "openai")
    )
    assert azure["key"].startswith("`AZURE_OPENAI_API_KEY` in the header `api-key`, or `AZURE_OPENAI_AD_TOKEN`")
    assert groq["address"].endswith(", or `GROQ_BASE_URL`")
    assert groq["a forced tool"] == "by its name" and "one call only" not in groq
    assert groq["settings left out"] == "`top_k`, `logprobs`"
    assert groq["besides text"] == "images"
    assert moonshot["a forced tool"].startswith("emulated") and "may still answer in text" in moonshot["a forced tool"]
    assert moonshot["text constrained to a schema"].startswith("emulated")
    assert moonshot["thinking"].endswith("goes back as `reasoning_content`, with the calls it led to")
    assert "while it thinks, emulated" in qwen["a forced tool"]
    assert qwen["settings left out"] == "for some models `thinking`"
    assert "takes no tools" in perplexity["a forced tool"]
    assert lm_studio["one call only"].startswith("emulated") and "`<think>`" in lm_studio["thinking"]
    assert lm_studio["besides text"] == "images by their bytes" and "system messages" in lm_studio
    assert openai["headers"].startswith("`openai-organization` from `OPENAI_ORG_ID`, ")
    assert (
        openai["settings left out"] == "`top_k`; for some models `temperature`, `top_p`, `stop`, `thinking`, `logprobs`"
    )


def test_content_is_reported_as_the_wires_send_it(features: ModuleType) -> None:
    head, *lines = features.content()
    text = {name.strip("`"): dict(zip(head, line, strict=True)) for line in lines for name in line[0].split(", ")}
    assert {
        *SERVICES,
        "Anthropic",
        "AnthropicVertex",
        "Bedrock",
        "Cohere",
        "Google",
        "LlamaCpp",
        "Mistral",
        "Ollama",
        "OpenAI",
        "OpenAIResponses",
    } == text.keys()
    assert {cell for line in lines for cell in line[1:]} == {"yes", "no"}
    assert text["groq"]["image by URL"] == "yes" and text["groq"]["PDF"] == "no"
    assert text["Ollama"]["image"] == "yes" and text["Ollama"]["image by URL"] == "no"
    assert text["Google"]["other sound"] == "yes"
    assert text["Anthropic"]["its thoughts, with calls"] == "yes"


@pytest.mark.parametrize("damage", ["<!-- begin FEATURES -->", "<!-- end SERVICES -->"])
def test_a_lost_marker_is_reported(features: ModuleType, damage: str) -> None:
    page = "reference/providers/index.md"
    with pytest.raises(ValueError, match="markers"):
        features.rewritten(features.read(page).replace(damage, ""), features.PAGES[page])


def test_every_feature_has_a_cell_for_every_provider(features: ModuleType) -> None:
    head, *lines = features.provider_features()
    assert {len(line) for line in lines} == {len(head)}
    assert [line[0] for line in lines] == list(features.FEATURES)
    cells = {line[0]: dict(zip(head[1:], line[1:], strict=True)) for line in lines}
    assert cells["`WebSearch`"]["OpenAI Responses"] == cells["`WebSearch`"]["Anthropic"] == "yes"
    assert cells["`WebSearch`"]["OpenAI chat"] == cells["`WebSearch`"]["Mistral"] == "no"
    assert cells["batch API"]["Ollama"] == "no"


def test_the_tools_that_a_provider_runs_are_those_of_its_forms(features: ModuleType) -> None:
    head, *lines = features.server_tools()
    tools = ("WebSearch", "CodeExecution", "FileSearch", "URLContext", "ImageGeneration", "RemoteMCP")
    assert head[1:] == tuple([f"`{name}`" for name in tools])
    assert {name: cells for name, *cells in lines}["Anthropic"] == ["yes", "yes", "no", "yes", "no", "yes"]


def test_toolcast_has_what_users_expect_beside_the_tool_call(features: ModuleType) -> None:
    head, *lines = features.others()
    assert head[1] == "toolcast"
    assert len(lines) == 24
    assert [feature for feature, own, *_ in lines if not own.startswith("yes: ")] == []


def test_the_outputs_of_providers(features: ModuleType) -> None:
    found = {name: cells for name, *cells in features.outputs()}
    assert found["OpenAI Responses"] == ["no", "yes", "no"]
    assert found["Google"] == ["yes", "no", "yes"]
    assert "Anthropic" not in found
