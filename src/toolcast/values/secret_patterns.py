"""The one rule of what looks like a secret: by its name, by its form, and by how irregular it is.

`is_secret` judges a value with a name, such as an environment variable. `mask_secrets` removes secrets from texts:
recordings, log lines, spans, and what hooks get. It must not change what is sent back as it came: ids of calls and
responses, UUIDs, hashes, base64 of images and of signatures. So a key in a text needs the whole form of a service's
keys, and any other text needs a place that is made for a secret: a field, a query or a path with such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from math import log2
from typing import Final

MARK: Final = "[key]"
"""The text in place of a secret."""

# Patterns are text, which `re` compiles and caches when it is used: compiling them delays every import.
GENERATED_ID: Final = (
    r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b|\b[0-9a-f]{32}\b"
    r"|\b(?:call|toolu|srvtoolu|tool|msg|resp|chatcmpl|cmpl|gen|req|run|rs|fc|ws|thread|file|batch|item|session)"
    r"[_-](?=[A-Za-z]*\d)[A-Za-z0-9]{8,}\b"
)
"""Ids that a service or a program makes: UUIDs, 32 hexadecimal digits, and ids such as `call_...`."""

_WORDS: Final = frozenset(
    (
        *("key", "keys", "apikey", "token", "tokens", "secret", "secrets", "pass", "passwords", "passphrase", "pat"),
        *("credential", "credentials", "creds", "cookie", "cookies", "jwt", "dsn", "webhook", "bearer", "pem"),
        "authorization",
    )
)
_ENDS: Final = ("password", "passwd", "apikey", "secret", "token")
_LAST: Final = frozenset(("auth", "pwd"))  # SSH_AUTH_SOCK and PWD are none
_LAST_PAIRS: Final = (["auth", "config"], ["database", "url"])
_CERTAIN: Final = (
    r"(.*(password|passwd|apikey|secret)|passphrase|pwd|jwt|authorization|bearer"
    r"|.*\b(api|access|auth|private|secret|subscription|signing|encryption|master|account|license) keys?"
    r"|.*\b(access|auth|refresh|bearer|session|security|bot|csrf|id|api) token)"
)
"""Names of fields whose value is a secret, however it looks. The value of any other secret name must look random."""
_ORDINARY: Final = r".*\b((prompt )?cache|idempotency|public|partition|page|continuation) (key|token)"

_STARTS: Final = r"\A(-----BEGIN [A-Z ]*PRIVATE KEY|sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-|hf_|AKIA|AIza|eyJ)\S"
_PEM: Final = r"[A-Z ]*PRIVATE KEY-----"
# An escape of JSON or of a URL ends in a letter or a digit.
_BEFORE: Final = r"(?:(?<![\w-])|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F]))"
_KEYS: Final = (
    ("-----BEGIN ", rf'{_PEM}(?:[^"]{{1,9000}}?-----END {_PEM}|[\s\\\w+/=]{{40,}})', False),
    ("AIza", r"[\w-]{35}(?![\w-])", False),
    ("AKIA", r"[A-Z0-9]{16}(?![\w+/=-])", False),
    ("ASIA", r"[A-Z0-9]{16}(?![\w+/=-])", False),
    ("eyJ", r"[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}", False),
    ("gh", r"[opsru]_[A-Za-z0-9]{20,}", False),
    ("github_pat_", r"\w{20,}", False),
    ("glpat-", r"[\w-]{16,}", False),
    ("gsk_", r"[A-Za-z0-9]{30,}", False),
    ("hf_", r"[A-Za-z0-9]{30,}", False),
    ("npm_", r"[A-Za-z0-9]{36}", False),
    ("nvapi-", r"[\w-]{40,}", False),
    ("rk_live_", r"[A-Za-z0-9]{16,}", False),
    ("sk-", r"[\w-]{20,}", True),
    ("sk_", r"(?:live|test)_[A-Za-z0-9]{16,}", False),
    ("whsec_", r"[\w+/=]{24,}", False),
    ("xai-", r"[A-Za-z0-9]{40,}", False),
    ("xox", r"[a-z]-[\w-]{16,}", True),
)
_PLACES: Final = (
    ("://", r"""[^/\s:@"'\\<>{]*:([^/\s@"'\\<>{]+)@""", False),
    ("://", r"([\w.~-]{16,})@", True),
    ("hooks.slack.com/", r"(?:services|workflows|triggers)/([\w/-]{16,})", False),
    ("webhook.office.com/", r"([\w/@-]{16,})", False),
    ("/bot", r"(\d{6,}:[\w-]{30,})", False),
    ("/webhooks/", r"\d{6,}/([\w-]{30,})", False),
    *(
        (f"/{name}{more}/", r"([\w.~-]{16,})", True)
        for name in ("webhook", "hook", "token", "key", "secret")
        for more in ("", "s")
    ),
    ("Bearer ", r"([\w.~+/-]{16,}=*)", True),
    ("Basic ", r"([\w.~+/-]{16,}=*)", True),
)
# By the text that it begins with, which is found fast: most texts, and the base64 of images, contain none of them.
_FORMS: Final = (
    *((start, rf"{_BEFORE}({start}{rest})", is_random) for start, rest, is_random in _KEYS),
    *((start, start + rest, is_random) for start, rest, is_random in _PLACES),
)
"""The text that a secret begins with or follows, its pattern with the secret as group 1, and if it must look random."""

_QUERY: Final = r"""[?&#]([A-Za-z][\w.-]{0,63})=([^&#\s"'\\<>{}]{4,})"""
_SIGNED: Final = r"(.* )?(sig|signature)"
_FIELD: Final = (
    r"""["']([A-Za-z][\w .-]{0,63})\\*["']\s*[:=]\s*"""
    # Looked at, not consumed: there may be further JSON in it.
    r"""(?="((?:[^"\\]|\\.){4,4096})"|'((?:[^'\\]|\\.){4,4096})'|\\+"([^"\\]{4,4096})\\)"""
)
_ASSIGNED: Final = r"=([\w.~+/-]{16,}=*)"
_VARIABLE: Final = r"(?:\A|[^\w+/=.-])([A-Za-z][\w-]{1,62})\Z"
_PLACEHOLDER: Final = r"\$\{?\w+\}?|<.*>|\{.*\}|\[\w+\]|\*+|%\w+%"


def is_secret_name(name: str) -> bool:
    """Return whether a variable or a field of this name looks like a secret: `PGPASSWORD`, `apiKey`, `GH_PAT`."""
    words = _words(name)
    last = len(words) > 1 and (words[-1] in _LAST or words[-2:] in _LAST_PAIRS)
    return last or any(word in _WORDS or word.endswith(_ENDS) for word in words)


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is a secret: by its name, or because its value begins like one or contains one."""
    return is_secret_name(name) or re.search(_STARTS, value) is not None or next(_found(value), None) is not None


def mask_secrets(text: str) -> str:
    """Return `text` with `[key]` in place of what looks like a secret. JSON stays JSON."""
    parts, end = list[str](), 0
    for start, stop in secret_spans(text):
        parts += [text[end:start], MARK]
        end = stop
    return "".join([*parts, text[end:]])


def secret_spans(text: str, known: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int]]:
    """Return the bounds of what looks like a secret in `text`, and the `known` ones, joined where they overlap."""
    spans: list[tuple[int, int]] = []
    for start, stop in sorted((*known, *_found(text))):
        if spans and start < spans[-1][1]:
            start, stop = spans[-1][0], max(stop, spans.pop()[1])  # a URL in a field, a key in a query
        spans.append((start, stop))
    return spans


def _found(text: str) -> Iterator[tuple[int, int]]:
    for start, form, must_be_random in _FORMS:
        at = text.find(start)
        while at >= 0:
            found = re.compile(form, re.ASCII).match(text, at)
            if found and not re.fullmatch(_PLACEHOLDER, found[1]) and not (must_be_random and not _is_random(found[1])):
                yield found.span(1)
            at = text.find(start, at + 1)
    if "=" in text:
        for found in re.finditer(_QUERY, text, re.ASCII):
            if _fits(found[1], found[2]) or (re.fullmatch(_SIGNED, " ".join(_words(found[1]))) and len(found[2]) > 15):
                yield found.span(2)
        for found in re.finditer(_ASSIGNED, text, re.ASCII):
            name = re.search(_VARIABLE, text[max(found.start() - 64, 0) : found.start()], re.ASCII)
            if name and is_secret_name(name[1]) and _is_random(found[1]):
                yield found.span(1)
    if '"' in text or "'" in text:
        for found in re.finditer(_FIELD, text, re.ASCII):
            number = next(group for group in (2, 3, 4) if found[group] is not None)
            if _fits(found[1], found[number]):
                yield found.span(number)


def _fits(name: str, value: str) -> bool:
    """Return whether the value of a field or a query with this name is a secret."""
    if len(value) < 4 or not is_secret_name(name) or re.fullmatch(_PLACEHOLDER, value):
        return False
    words = " ".join(_words(name))
    if re.fullmatch(_CERTAIN, words):
        # A sentence describes a field; only these have spaces in them.
        return " " not in value or words.endswith(("passphrase", "authorization"))
    return not re.fullmatch(_ORDINARY, words) and _is_random(value)


def _is_random(text: str) -> bool:
    """Return whether a text is as irregular as a key: no identifier, name of a model, date, hash or generated id."""
    if len(text) < 16 or not re.fullmatch(r"[\w+/=.~:%-]+", text, re.ASCII):
        return False
    if re.fullmatch(rf"{GENERATED_ID}|[0-9a-f]{{40}}|[0-9a-f]{{64}}", text):
        return False
    plain = re.sub(r"[^A-Za-z0-9]", "", text)
    runs = len(re.findall(r"[a-z]+|[A-Z]+|\d+", plain))
    entropy = -sum(share * log2(share) for share in (plain.count(each) / len(plain) for each in set(plain)))
    longest = max(map(len, re.findall(r"[A-Za-z0-9]+", text)), default=0)  # short in names of models, and in dates
    return longest > 11 and len(re.findall(r"\d", plain)) > 1 and 5 * runs > len(plain) and entropy > 3


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
