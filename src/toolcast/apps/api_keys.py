"""Stored API keys of providers: in the system keyring, or in a file that only its owner can read.

A key is looked up in this order: the option, the environment variables of the provider, the store. The file
`credentials.json` lists the providers with a stored key, so that the keyring is asked for no other; in it is also the
key where the system has no keyring. Each call of the keyring has a time limit, because one that is locked waits for a
person.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from stat import S_IRWXG, S_IRWXO
from threading import Thread
from typing import Any, Final, NamedTuple, TypeVar, cast

from ..errors import ToolcastError
from ..llms import model_registry
from ..llms.function_calling_llm import FunctionCallingLLM
from ..values.credentials import API_KEY_VARIABLES, read_variable
from .command_parser import suggestion
from .config_file import config_path, replace_file

T = TypeVar("T")

KEYRING_TIMEOUT: Final = 10.0
"""Seconds that a call of the system keyring may take."""

LONGEST_KEY: Final = 8192
"""Characters that a key may have."""

_SERVICE: Final = "toolcast"
_SAME_KEY: Final[Mapping[str, str]] = {
    "azure-v1": "azure",
    "bedrock-mantle": "bedrock",
    "gemini": "google",
    "openai-responses": "openai",
}
"""Providers that have the key of another one."""


class KeyStoreError(ToolcastError):
    """A stored key that cannot be read, written or removed; the message has the reason and the next step."""


class KnownKey(NamedTuple):
    """A key that requests would use: the provider, its masked text, and its source."""

    provider: str
    masked: str
    source: str


def key_variables() -> dict[str, tuple[str, ...]]:
    """Return the environment variables of the key, for each provider that has one."""
    from ..providers.chat_completions.services import SERVICES

    rows = {name: (*row.key_env, *row.bearer_env) for name, row in SERVICES.items()}
    return {name: names for name, names in sorted((rows | dict(API_KEY_VARIABLES)).items()) if names}


def key_owner(provider: str) -> str:
    """Return the provider whose key `provider` uses.

    Raises:
        KeyStoreError: No provider has this name, or it needs no API key.
    """
    name = _SAME_KEY.get(provider, provider)
    known = key_variables()
    if name not in known:
        near = suggestion(name, known) or f"; expected one of: {', '.join(known)}"
        # A text this long is more likely a key in the place of the name.
        named = f"is called {provider!r}" if len(provider) <= 30 else "has this name"
        raise KeyStoreError(f"no provider with an API key {named}{near}")
    return name


def keys_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file, beside the config file. Its name is a protected one: no tool may read it."""
    return config_path(environ).with_name("credentials.json")


def find_key(model: str | None, token: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the key for `model`: `token`, or the stored one if no environment variable has a key.

    None lets the LLM read its environment variables.

    Raises:
        KeyStoreError: The key is stored but cannot be read.
    """
    if token or not model:
        return token
    provider = model_registry.split_provider(model)[0]
    provider = _SAME_KEY.get(provider, provider)
    stored = _read_file(keys_file(environ))
    if provider not in stored or read_variable(key_variables().get(provider, ()), environ):
        return None
    return stored[provider] or _read_keyring(provider)


def choose_llm(model: str | None = None, host: str | None = None, token: str | None = None) -> FunctionCallingLLM:
    """Return the LLM of `model_registry.choose_llm`, with the stored key of its provider."""
    return model_registry.choose_llm(model, host, find_key(model, token))


def choose_chat_llm(model: str | None = None, host: str | None = None, token: str | None = None) -> FunctionCallingLLM:
    """Return the LLM of `model_registry.choose_chat_llm`, with the stored key of its provider."""
    return model_registry.choose_chat_llm(model, host, find_key(model, token))


def store_key(provider: str, key: str, environ: Mapping[str, str] = os.environ) -> str:
    """Store the key of a provider in the system keyring, or else in the file, and return where it is, as text.

    Raises:
        KeyStoreError: The provider is unknown, or the text is no key.
        OSError: The file cannot be written.
    """
    provider, key = key_owner(provider), key.strip()
    if not key:
        raise KeyStoreError("the key is empty; nothing was stored")
    if len(key) > LONGEST_KEY or not (key.isascii() and key.isprintable()) or " " in key:
        raise KeyStoreError("the text is no API key: expected one line of ASCII characters without spaces")
    path = keys_file(environ)
    stored = _read_file(path)
    try:
        _limited(lambda: _write_keyring(provider, key))
    except Exception as error:  # a backend of the keyring may raise anything
        stored[provider] = key
        where = f"{path}, which only you can read ({_reason(error)})"
    else:
        stored[provider] = None
        where = "the system keyring"
    _write_file(path, stored)
    return where


def remove_key(provider: str, environ: Mapping[str, str] = os.environ) -> None:
    """Remove the stored key of a provider.

    Raises:
        KeyStoreError: No key is stored, or the keyring does not remove it.
    """
    provider = key_owner(provider)
    path = keys_file(environ)
    stored = _read_file(path)
    if provider not in stored:
        raise KeyStoreError(f"no key of {provider} is stored: toolcast config set-key {provider} stores one")
    if stored.pop(provider) is None:
        try:
            _limited(lambda: _delete_from_keyring(provider))
        except Exception as error:  # as above
            raise KeyStoreError(
                f"the system keyring did not remove the key of {provider} ({_reason(error)}); unlock it and try again"
            ) from error
    _write_file(path, stored)


def known_keys(environ: Mapping[str, str] = os.environ) -> Iterator[KnownKey]:
    """Yield the keys in the environment and in the store, masked."""
    stored = _read_file(keys_file(environ))
    for provider, names in key_variables().items():
        used = next((name for name in names if environ.get(name)), None)
        if used is not None:
            also = ", before the stored one" if provider in stored else ""
            yield KnownKey(provider, masked(environ[used]), f"{used}{also}")
        elif provider in stored:
            key = stored[provider]
            source = "system keyring" if key is None else str(keys_file(environ))
            yield KnownKey(provider, masked(key or ""), source)


def masked(key: str) -> str:
    """Return the last four characters of a long key behind asterisks, or only asterisks."""
    return f"********{key[-4:]}" if len(key) >= 20 else "********"


def _read_keyring(provider: str) -> str:
    try:
        key = _limited(lambda: _keyring().get_password(_SERVICE, provider))
    except Exception as error:  # as above
        raise KeyStoreError(
            f"the key of {provider} is in the system keyring, which cannot be read ({_reason(error)}); unlock it, "
            f"set {' or '.join(key_variables()[provider])}, or store it again: toolcast config set-key {provider}"
        ) from error
    if not key:
        raise KeyStoreError(
            f"the system keyring has no key of {provider} any more: toolcast config set-key {provider} stores it again"
        )
    return cast("str", key)


def _write_keyring(provider: str, key: str) -> None:
    keyring = _keyring()
    keyring.set_password(_SERVICE, provider, key)
    if keyring.get_password(_SERVICE, provider) != key:  # the null backend stores nothing, and raises nothing
        raise LookupError("no keyring stores keys")


def _delete_from_keyring(provider: str) -> None:
    keyring = _keyring()
    if keyring.get_password(_SERVICE, provider) is not None:
        keyring.delete_password(_SERVICE, provider)


def _keyring() -> Any:
    """Return the package; its import looks for a keyring, so it counts against the time limit as well."""
    import keyring

    return keyring


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the keyring did not answer within {KEYRING_TIMEOUT:.0f} s"
    if isinstance(error, ImportError):
        return "for the system keyring: pip install 'toolcast[cli]'"
    if type(error).__name__ == "NoKeyringError":
        return "this system has no keyring"
    return " ".join(str(error).split())[:200] or type(error).__name__


def _limited(work: Callable[[], T]) -> T:
    """Return the result of `work`, which runs in a thread; raise `TimeoutError` if it takes too long."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:  # raised again by `result`
            future.set_exception(error)

    # A daemon: a keyring that never answers must not keep the process from its end.
    Thread(target=run, name="keyring", daemon=True).start()
    return future.result(KEYRING_TIMEOUT)


def _read_file(path: Path) -> dict[str, str | None]:
    """Return the stored keys by provider, None for one in the keyring; a missing file has none."""
    try:
        with path.open(encoding="utf-8") as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & (S_IRWXG | S_IRWXO):
                raise KeyStoreError(f"other users can read {path}, which has API keys: chmod 600 {path}")
            content: Any = json.loads(file.read())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise KeyStoreError(f"{path} is damaged: remove it, and store the keys again") from error
    if not isinstance(content, dict) or not all(
        isinstance(key, str | None) for key in cast("dict[str, Any]", content).values()
    ):
        raise KeyStoreError(f"{path} is damaged: remove it, and store the keys again")
    return cast("dict[str, str | None]", content)


def _write_file(path: Path, stored: Mapping[str, str | None]) -> None:
    replace_file(path, f"{json.dumps(stored, indent=2)}\n", mode=0o600)
