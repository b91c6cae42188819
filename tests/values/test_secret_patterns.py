"""What looks like a secret, in every sink, and what ordinary texts contain and must stay."""

from __future__ import annotations

import json
import random
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from hashlib import sha1, sha256
from uuid import UUID

import pytest

from support.albums import Album
from support.chunks import album_body
from support.sync_and_async import API
from support.telemetry import recorded as telemetry_of
from toolcast import CallInfo, Hooks, OpenAI, RequestInfo, ToolOrchestratingLLM
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.testing.scrubbing import Scrubber
from toolcast.values.credentials import SecretURL, mask
from toolcast.values.secret_patterns import is_secret, mask_secrets

# In two halves, so that no scanner of repositories takes them for keys.
BASE62 = "Ab3dEf5hIj7l" + "Mn9pQr1tUv2x"
LONG = BASE62 + BASE62[::-1]
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"
PEM = "-----BEGIN RSA PRIVATE KEY-----\\nMIIEpAIB" + "AAKCAQEA\\n-----END RSA PRIVATE KEY-----"

SECRETS: dict[str, tuple[str, str]] = {
    **{
        f"{start}...": (f"see {start}{rest}, please", f"{start}{rest}")
        for start, rest in (
            *(("sk-", BASE62), ("sk-ant-api03-", LONG), ("sk-proj-", LONG), ("sk_live_", BASE62), ("rk_live_", BASE62)),
            *(("ghp_", LONG[:36]), ("gho_", LONG[:36]), ("github_pat_", LONG), ("glpat-", BASE62), ("hf_", LONG[:34])),
            *(("xoxb-", f"1234567890-{BASE62}"), ("AKIA", "IOSFODNN7" + "EXAMPLE"), ("AIza", LONG[:35])),
            *(("gsk_", LONG), ("xai-", LONG), ("npm_", LONG[:36]), ("nvapi-", LONG), ("whsec_", BASE62), ("", JWT)),
            ("", PEM),
        )
    },
    "a webhook of Slack": (f"https://hooks.slack.com/services/T01/B02/{BASE62}", BASE62),
    "a webhook of Discord": (f"https://discord.com/api/webhooks/123456789/{LONG}", LONG),
    "a webhook": (f"https://a.example/hooks/{BASE62}", BASE62),
    "a bot of Telegram": (f"https://api.telegram.org/bot123456789:{LONG}/getMe", LONG),
    "a password in a URL": ("postgres://me:s3cret-pw@db/x", "s3cret-pw"),
    "a token as the user of a URL": (f"https://{BASE62}@sentry.example/1", BASE62),
    "a field of a query": ("https://a.example/b?x=1&api_key=hunter22#y", "hunter22"),
    "a signature of a URL": (f"https://a.example/b?X-Amz-Signature={'0a1b' * 16}", "0a1b" * 16),
    "a fragment": (f"https://a.example/#access_token={BASE62}", BASE62),
    "an assignment": (f"export DEPLOY_TOKEN={BASE62}", BASE62),
    "a header": (f"Authorization: Bearer {BASE62}", BASE62),
    "a field": ('{"a": [{"password": "hunter2"}]}', "hunter2"),
    "a field with escapes": ('{"clientSecret": "a\\"b\\\\"}', 'a\\"b'),
    "a field with spaces": ('{"Authorization": "Basic bTpw bTpw"}', "bTpw"),
    "a field of JSON in JSON": (json.dumps({"arguments": '{"db_password": "hunter2"}'}), "hunter2"),
    "a field of a dict": (str({"token": BASE62}), BASE62),
    "after an escape": (f'{{"a": "see\\nsk-{BASE62}"}}', BASE62),
    "in a query, encoded": (f"https://a.example/?q=is%20sk-{BASE62}", BASE62),
}

PROSE = (
    "Engineers review every change twice.",
    "The key to a good design is its simplest token of meaning: keep the secret of short functions.",
    "Pass the salt; a password is a word that passes, and cookies are baked at 180 degrees.",
    "Keys of a piano, a dictionary or a map open no doors.",
    "The webhook is called when the build ends; see the docs of hf_hub.",
    "Authorization is bearer-based: Bearer tokens, Basic passwords, API keys.",
)
CODE = (
    "api_key = os.environ['OPENAI_API_KEY']",
    "password=get_password(prompt=True)",
    "for key, token in tokens.items(): print(f'{key}={token}')",
    'client = OpenAI(api_key="$OPENAI_API_KEY", token="<your token>")',
    "DATABASE_URL=postgres://${USER}:${PASSWORD}@localhost/app",
    "url = f'https://{user}:{password}@{host}/?key={key}'",
    "-----BEGIN CERTIFICATE----- and -----BEGIN PUBLIC KEY-----",
    "pip install sk-learn-extra-tools-for-python hf_transfer_with_models ghp_import",
    "max_tokens=4096, key=lambda item: item.created_at_in_milliseconds_2026",
    "https://github.com/scikit-learn/scikit-learn/tree/keys/preprocessing-of-data-2024",
    '{"type": "object", "properties": {"password": {"type": "string"}}, "required": ["password", "token"]}',
    '{"token": "Hello", "logprob": -0.25, "token_type": "Bearer", "next_page_token": ""}',
    '{"max_tokens": "1000", "prompt_tokens": 12, "password": "The password of the account to open."}',
)
MODELS = ("claude-sonnet-4-5-20250929", "gpt-5.4-mini-2026-03-05", "meta-llama/Llama-4-Scout-17B-16E-Instruct")
KINDS = 12


def ordinary_texts(count: int) -> Iterator[str]:
    """Yield texts that requests and responses contain, and that are replayed as they are."""
    chance = random.Random(46)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    makes: tuple[Callable[[], str], ...] = (
        lambda: " ".join(chance.sample(PROSE, k=4)),
        lambda: chance.choice(CODE),
        lambda: json.dumps({"key": str(UUID(int=chance.getrandbits(128))), "session_token": None}),
        lambda: f"commit {sha1(chance.randbytes(9)).hexdigest()} of {sha256(chance.randbytes(9)).hexdigest()}",
        lambda: json.dumps({"cache_key": sha256(chance.randbytes(9)).hexdigest(), "key": chance.choice(MODELS)}),
        lambda: "data:image/png;base64," + b64encode(chance.randbytes(600)).decode(),
        lambda: json.dumps({"type": "thinking", "signature": b64encode(chance.randbytes(300)).decode()}),
        lambda: json.dumps({"encrypted_content": "gAAAAAB" + urlsafe_b64encode(chance.randbytes(300)).decode()}),
        lambda: json.dumps({"tool_call_id": "call_" + "".join(chance.choices(letters, k=24))}),
        lambda: json.dumps(
            {"id": "resp_" + chance.randbytes(24).hex(), "item": "toolu_01" + "".join(chance.choices(letters, k=22))}
        ),
        lambda: json.dumps({"key": "msg_01" + "".join(chance.choices(letters, k=22)), "model": chance.choice(MODELS)}),
        lambda: json.dumps(
            {
                "prompt_cache_key": "".join(chance.choices(letters, k=32)),
                "nextPageToken": "".join(chance.choices(letters, k=40)),
            }
        ),
    )
    assert len(makes) == KINDS
    return (makes[number % KINDS]() for number in range(count))


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_in_a_text_is_masked(name: str) -> None:
    text, secret = SECRETS[name]
    masked = mask_secrets(text)
    assert secret not in masked
    assert "[key]" in masked
    assert mask_secrets(masked) == masked
    if text.startswith('{"'):
        json.loads(masked)


def test_ordinary_texts_stay() -> None:
    texts = list(ordinary_texts(3000))
    changed = [(text, masked) for text in texts if (masked := mask_secrets(text)) != text]
    assert changed == []


@pytest.mark.parametrize(
    "text", ["", "[key]", "x" * 300_000, "'" * 50_000, '"a":' * 50_000, "=" * 50_000, "sk-" * 50_000]
)
def test_hostile_texts_stay(text: str) -> None:
    assert mask_secrets(text) == text


def test_the_value_of_a_variable_is_a_secret_by_its_name_or_form() -> None:
    assert is_secret("PGPASSWORD", "x")
    assert is_secret("SOMETHING", "sk-x")
    assert is_secret("SERVICE", f"https://hooks.slack.com/services/T01/B02/{BASE62}")
    assert not is_secret("SERVICE", "https://api.example.com/v1")


def test_a_path_with_a_secret_is_hidden_in_a_url() -> None:
    url = SecretURL(f"https://hooks.slack.com/services/T01/B02/{BASE62}?x=1")
    assert url.shown == "https://hooks.slack.com/services/***?x=***"
    assert url.has_secrets
    assert BASE62 not in mask(f"no answer from /services/T01/B02/{BASE62}", [url])


def body_with_secrets() -> bytes:
    return json.dumps({"a": {"password": "hunter2"}, "text": f"see ghp_{LONG[:36]}", "id": "call_a1b2c3d4"}).encode()


def test_a_recording_contains_no_secret_by_name_or_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {})
    body = body_with_secrets()
    halves = [body[:20], body[20:60], body[60:]]
    masked = b"".join(Scrubber().chunks(halves))
    assert json.loads(masked) == {"a": {"password": "[key]"}, "text": "see [key]", "id": "call_a1b2c3d4"}
    deltas = [f"data: {json.dumps({'d': piece})}\n\n".encode() for piece in ('{"passw', 'ord": "hun', 'ter2"}')]
    assert b"ter2" not in b"".join(Scrubber().chunks(deltas))
    frame = b'\xff\x00{"password": "hunter2"}'
    assert Scrubber().chunks([frame]) == [frame]  # with checksums, which other bytes would not fit


class Requests(Hooks):
    """Hooks that collect what they get of requests."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        """Collect the body, and a text."""
        assert request.http is not None
        self.texts += [request.http.body.decode(), request.mask(body_with_secrets().decode())]


def test_hooks_logs_and_spans_contain_no_secret(api: API, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "toolcast")
    hooks = Requests()
    with telemetry_of() as telemetry:
        llm = OpenAI("m-1", api="chat", api_key="sk-x", network=ReplayNetwork(Recorded.of(album_body())))
        make = ToolOrchestratingLLM(Album, "{text}", llm, hooks=hooks)
        api.call(make, text=body_with_secrets().decode())
        shown = telemetry.everything()
    for text in (*hooks.texts, caplog.text, shown):
        assert "hunter2" not in text
        assert LONG[:36] not in text
    assert "call_a1b2c3d4" in hooks.texts[1]
    assert "request body" in caplog.text
