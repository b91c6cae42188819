"""Stored API keys: in the keyring or in a file, found in order of precedence, and shown nowhere."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.core
import pytest
from keyring.backend import KeyringBackend

from support.ollama_server import MODEL, OllamaServer
from support.process import Process
from toolcast.apps import api_keys, cli
from toolcast.apps.api_keys import KeyStoreError, choose_llm, find_key, keys_file, masked, remove_key, store_key
from toolcast.errors import AuthFailed

KEY = "sk-test-0123456789abcdefWXYZ"


class MemoryKeyring(KeyringBackend):
    """A keyring of a test."""

    priority: Any = 1

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[tuple[str, str], str] = {}
        self.calls = 0

    def get_password(self, service: str, username: str) -> str | None:
        self.calls += 1
        return self.keys.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.keys[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.keys[service, username]


class LockedKeyring(KeyringBackend):
    """A keyring that waits until someone unlocks it."""

    priority: Any = 1

    def __init__(self) -> None:
        super().__init__()
        self.unlocked = threading.Event()

    def get_password(self, service: str, username: str) -> str | None:
        self.unlocked.wait()
        return None

    def set_password(self, service: str, username: str, password: str) -> None:
        self.unlocked.wait()

    def delete_password(self, service: str, username: str) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the config file; no variable has a key."""
    for names in api_keys.key_variables().values():
        for name in names:
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TOOLCAST_CONFIG", str(tmp_path / "config" / "config.toml"))
    return tmp_path / "config"


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    backend = MemoryKeyring()
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)
    return backend


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyring.backends.fail import Keyring

    monkeypatch.setattr(keyring.core, "_keyring_backend", Keyring())


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    backend = LockedKeyring()
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)
    monkeypatch.setattr(api_keys, "KEYRING_TIMEOUT", 0.05)
    yield
    backend.unlocked.set()
    for thread in threading.enumerate():
        if thread.name == "keyring":  # it would look for another backend, and set that during a later test
            thread.join()


def config(*words: str) -> int:
    return cli.main(["config", *words])


def test_a_key_goes_into_the_keyring_and_is_found_there(memory: MemoryKeyring, folder: Path) -> None:
    assert store_key("openai", f" {KEY}\n") == "the system keyring"
    assert memory.keys == {("toolcast", "openai"): KEY}
    assert KEY not in keys_file().read_text()
    assert find_key("openai:gpt-4.1", None) == KEY
    assert find_key("openai-responses:gpt-4.1", None) == KEY
    remove_key("openai")
    assert memory.keys == {}
    assert find_key("openai:gpt-4.1", None) is None


def test_the_keyring_is_asked_for_no_other_provider(memory: MemoryKeyring) -> None:
    store_key("openai", KEY)
    before = memory.calls
    assert find_key("groq:x", None) is find_key("local", None) is find_key(None, None) is None
    assert find_key("/models/x.gguf", None) is find_key("qwen3:8b", None) is None
    assert memory.calls == before


def test_the_option_comes_before_the_environment_and_that_before_the_store(
    memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_key("openai", KEY)
    assert find_key("openai:x", "sk-option") == "sk-option"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert find_key("openai:x", None) is None
    monkeypatch.setenv("OPENAI_API_KEY", "")
    assert find_key("openai:x", None) == KEY


@pytest.mark.skipif(os.name == "nt", reason="needs permissions")
@pytest.mark.usefixtures("no_keyring")
def test_without_a_keyring_the_key_is_in_a_file_of_its_owner(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    where = store_key("groq", KEY)
    file = folder / "credentials.json"
    assert where == f"{file}, which only you can read (this system has no keyring)"
    assert file.stat().st_mode & 0o777 == 0o600
    assert find_key("groq:x", None) == KEY
    file.chmod(0o644)
    with pytest.raises(KeyStoreError, match=r"other users can read .*: chmod 600"):
        find_key("groq:x", None)
    assert cli.main(["get", "name", "Bo", "--model", "groq:x"]) == 1
    assert KEY not in capsys.readouterr().err
    file.chmod(0o600)
    remove_key("groq")
    assert find_key("groq:x", None) is None
    with pytest.raises(KeyStoreError, match="no key of groq is stored: toolcast config set-key groq"):
        remove_key("groq")


def test_a_keyring_that_stores_nothing_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyring.backends.null import Keyring

    monkeypatch.setattr(keyring.core, "_keyring_backend", Keyring())
    assert "no keyring stores keys" in store_key("openai", KEY)
    assert find_key("openai:x", None) == KEY


def test_without_the_extra_the_key_is_in_the_file(process: Process) -> None:
    process.without("keyring")
    assert "pip install 'toolcast[cli]'" in store_key("openai", KEY)
    assert find_key("openai:x", None) == KEY


@pytest.mark.usefixtures("locked")
def test_a_locked_keyring_stops_nothing() -> None:
    assert "the keyring did not answer within" in store_key("openai", KEY)
    assert find_key("openai:x", None) == KEY
    api_keys._write_file(keys_file(), {"openai": None})
    with pytest.raises(KeyStoreError, match="unlock it, set OPENAI_API_KEY, or store it again"):
        find_key("openai:x", None)
    with pytest.raises(KeyStoreError, match=r"did not remove .*unlock it and try again"):
        remove_key("openai")


def test_a_key_that_was_removed_from_the_keyring_by_another_program(memory: MemoryKeyring) -> None:
    store_key("openai", KEY)
    memory.keys.clear()
    with pytest.raises(KeyStoreError, match="has no key of openai any more: toolcast config set-key openai"):
        find_key("openai:x", None)
    remove_key("openai")
    assert find_key("openai:x", None) is None


class _BrokenError(Exception):
    pass


def test_an_error_of_a_backend_without_text_is_named(memory: MemoryKeyring, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*names: str) -> None:
        raise _BrokenError

    monkeypatch.setattr(memory, "set_password", fail)
    assert "(_BrokenError)" in store_key("openai", KEY)


@pytest.mark.parametrize("content", ["{", "[]", '{"openai": 1}'])
def test_a_damaged_file_is_an_error(content: str, folder: Path) -> None:
    folder.mkdir()
    keys_file().write_text(content)
    keys_file().chmod(0o600)
    with pytest.raises(KeyStoreError, match="is damaged: remove it"):
        find_key("openai:x", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [(" \n", "the key is empty"), ("two words", "no API key"), ("kéy", "no API key"), ("x" * 9000, "no API key")],
)
def test_a_text_that_is_no_key(text: str, message: str) -> None:
    with pytest.raises(KeyStoreError, match=message) as caught:
        store_key("openai", text)
    assert text.strip() == "" or text not in str(caught.value)


def test_the_command_reads_the_key_from_standard_input(
    memory: MemoryKeyring, process: Process, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    process.stdin(f"{KEY}\nmore\n")
    assert config("set-key", "openai") == 0
    out, err = capsys.readouterr()
    assert (out, err) == (
        "Stored the key of openai in the system keyring.\nOPENAI_API_KEY is set, and is used instead while it is.\n",
        "",
    )
    assert memory.keys["toolcast", "openai"] == KEY
    assert config("remove-key", "openai") == 0
    assert capsys.readouterr().out == "Removed the key of openai.\n"


def test_show_masks_every_key(
    memory: MemoryKeyring, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    assert config("show") == 0
    assert capsys.readouterr().out.splitlines()[0] == f"config file  {folder / 'config.toml'} (not there)"
    store_key("openai", KEY)
    store_key("groq", KEY)
    assert config("set", "model", "openai:x") == 0
    api_keys._write_file(keys_file(), {"openai": None, "groq": None, "mistral": KEY})
    monkeypatch.setenv("GROQ_API_KEY", "gsk-short")
    monkeypatch.setenv("XAI_API_KEY", KEY)
    assert config("show") == 0
    shown = capsys.readouterr().out
    assert [" ".join(line.split()) for line in shown.splitlines()] == [
        f"config file {folder / 'config.toml'}",
        "model openai:x",
        f"in use openai:x ({folder / 'config.toml'})",
        "API key of groq ******** (GROQ_API_KEY, before the stored one)",
        f"API key of mistral ********WXYZ ({keys_file()})",
        "API key of openai ******** (system keyring)",
        "API key of xai ********WXYZ (XAI_API_KEY)",
    ]
    assert masked("x" * 19) == "********"


def test_a_key_as_an_argument_is_refused_and_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    assert config("set-key", "openai", KEY) == 1
    with pytest.raises(SystemExit):
        config("set-key", KEY * 2)
    with pytest.raises(SystemExit):
        config("set-key", "opnai")
    out, err = capsys.readouterr()
    assert KEY not in out + err
    assert "run toolcast config set-key openai without it" in err
    assert "no provider with an API key is called 'opnai'; did you mean openai?" in err


@pytest.mark.skipif(os.name == "nt", reason="a pseudo terminal, which Windows does not have")
def test_at_a_terminal_the_key_is_typed_unseen(folder: Path) -> None:
    import pexpect

    env = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring"}
    child = pexpect.spawn(
        sys.executable, ["-m", "toolcast", "config", "set-key", "openai"], env=env, encoding="utf-8", timeout=30
    )
    child.expect("API key of openai")
    child.expect("not shown")
    child.waitnoecho()
    child.sendline(KEY)
    child.expect(pexpect.EOF)
    assert KEY not in child.before
    assert "Stored the key of openai in" in child.before
    child.close()
    assert child.exitstatus == 0
    assert find_key("openai:x", None) == KEY


@pytest.mark.usefixtures("no_keyring")
def test_a_request_has_the_stored_key(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    store_key("ollama", KEY)
    with OllamaServer() as server:
        server.replies("Yes.")
        llm = choose_llm(f"ollama:{MODEL}", server.host)
        assert llm.chat("Well?").message.text == "Yes."
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(llm) + caplog.text


def test_the_error_of_a_missing_key_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AuthFailed):
        choose_llm("openai:gpt-4.1").chat("x")
    assert cli.main(["get", "name", "Bo", "--model", "openai:gpt-4.1"]) == 1
    assert capsys.readouterr().err == (
        "toolcast: openai gpt-4.1: no API key for openai: set OPENAI_API_KEY, or run: toolcast config set-key openai. "
        "Nothing was sent.\n"
    )
