"""Where requests to a service go, whatever the user pasted, and what proves who is asking."""

from __future__ import annotations

import re

import pytest

from toolcast.errors import UnsupportedLLMError
from toolcast.providers.chat_completions.endpoints import read_auth_header, service_url
from toolcast.providers.chat_completions.services import SERVICES, ServiceSpec
from toolcast.values.credentials import Secret

every_service = pytest.mark.parametrize("service", SERVICES.values(), ids=list(SERVICES))

AZURE = "https://me.openai.azure.com"
FOUNDRY = "https://me.services.ai.azure.com"
ENVIRON = {"AZURE_OPENAI_ENDPOINT": AZURE + "/", "AZURE_AI_API_BASE": FOUNDRY + "/", "AWS_REGION": "eu-west-1"}


@every_service
def test_the_url_of_every_service(service: ServiceSpec) -> None:
    found = service_url(service, None, "m", ENVIRON)
    assert re.fullmatch(r"https?://[^{}]+/chat/completions(\?[^{}]+)?", found)
    assert service_url(service, found, "m", {}) == found


CLASSIC = AZURE + "/openai/deployments/gpt%2F4%20o/chat/completions?api-version="


@pytest.mark.parametrize(
    ("service", "base_url", "environ", "url"),
    [
        ("groq", None, {}, "https://api.groq.com/openai/v1/chat/completions"),
        ("groq", None, {"GROQ_BASE_URL": "http://proxy/v1/"}, "http://proxy/v1/chat/completions"),
        ("groq", "http://mine/v1", {"GROQ_BASE_URL": "http://proxy/v1/"}, "http://mine/v1/chat/completions"),
        ("groq", " http://mine/v1/?a=b ", {}, "http://mine/v1/chat/completions?a=b"),
        ("groq", "http://mine/chat", {}, "http://mine/chat/chat/completions"),
        ("azure", None, ENVIRON, CLASSIC + "2024-10-21"),
        ("azure", None, ENVIRON | {"OPENAI_API_VERSION": "2025-01-01-preview"}, CLASSIC + "2025-01-01-preview"),
        ("azure", AZURE, {}, CLASSIC + "2024-10-21"),
        ("azure", AZURE + "/openai/", {}, CLASSIC + "2024-10-21"),
        ("azure", AZURE + "?api-version=mine", {"OPENAI_API_VERSION": "theirs"}, CLASSIC + "mine"),
        ("azure-v1", None, ENVIRON, AZURE + "/openai/v1/chat/completions"),
        ("azure-v1", AZURE + "/openai/v1/", {}, AZURE + "/openai/v1/chat/completions"),
        (
            "azure-v1",
            AZURE + "/openai/v1?api-version=preview",
            {},
            AZURE + "/openai/v1/chat/completions?api-version=preview",
        ),
        ("azure-foundry", None, ENVIRON, FOUNDRY + "/openai/v1/chat/completions"),
        ("azure-foundry", FOUNDRY + "/openai/v1", {}, FOUNDRY + "/openai/v1/chat/completions"),
        ("bedrock-mantle", None, {"AWS_REGION": "r1"}, "https://bedrock-mantle.r1.api.aws/v1/chat/completions"),
        ("bedrock-mantle", None, {"AWS_DEFAULT_REGION": "r2"}, "https://bedrock-mantle.r2.api.aws/v1/chat/completions"),
    ],
)
def test_an_address(service: str, base_url: str | None, environ: dict[str, str], url: str) -> None:
    assert service_url(SERVICES[service], base_url, "gpt/4 o", environ) == url


@pytest.mark.parametrize(
    ("service", "words"),
    [
        ("azure", "no base URL for azure: set AZURE_OPENAI_ENDPOINT, or pass base_url="),
        ("bedrock-mantle", "no base URL for bedrock-mantle: set AWS_REGION or AWS_DEFAULT_REGION, or pass base_url="),
    ],
)
def test_a_url_without_its_variables_is_an_error(service: str, words: str) -> None:
    with pytest.raises(UnsupportedLLMError) as raised:
        service_url(SERVICES[service], None, "m", {"AWS_REGION": ""})
    assert words in str(raised.value)


KEY, TOKEN = {"AZURE_OPENAI_API_KEY": "from-env"}, {"AZURE_OPENAI_AD_TOKEN": "token"}


@pytest.mark.parametrize(
    ("service", "api_key", "environ", "expected"),
    [
        ("groq", "given", {"GROQ_API_KEY": "from-env"}, ("authorization", "given")),
        ("groq", None, {"GROQ_API_KEY": "from-env"}, ("authorization", "from-env")),
        ("groq", None, {}, ("authorization", None)),
        ("azure", "given", KEY | TOKEN, ("api-key", "given")),
        ("azure", None, KEY | TOKEN, ("api-key", "from-env")),
        ("azure-v1", None, TOKEN, ("authorization", "token")),
        ("azure-v1", "", {}, ("api-key", None)),
    ],
)
def test_the_authorization_header(
    service: str, api_key: str | None, environ: dict[str, str], expected: tuple[str, str | None]
) -> None:
    header, key = read_auth_header(SERVICES[service], Secret(api_key) if api_key else None, environ)
    assert (header, key.reveal() if key else None) == expected
