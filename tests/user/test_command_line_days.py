"""A new user of the command line: from a model file to answers, with the log beside them, at a real shell."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.gguf_files import gguf
from support.loopback import whole
from support.ollama_server import MODEL, OllamaServer
from support.ollama_store import store_model
from toolcast.llms.local.weights import weights_path
from user.commands import needs_a_shell, shell, variables

pytestmark = needs_a_shell
SMOLLM2 = weights_path()


@pytest.fixture
def server() -> Iterator[OllamaServer]:
    with OllamaServer() as running:
        yield running


@pytest.fixture
def env(server: OllamaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    return variables(server, tmp_path / "home") | {"TOOLCAST_CACHE": str(tmp_path / "cache")}


def gives(server: OllamaServer, document: object) -> None:
    """Queue an answer with this as JSON."""
    message = {"role": "assistant", "content": json.dumps(document)}
    counts = {"prompt_eval_count": 20, "eval_count": 9}
    answer = {"model": MODEL, "message": message, "done": True, "done_reason": "stop", **counts}
    server.answer(whole(json.dumps(answer).encode(), 200, "content-type: application/json"))


@pytest.mark.timeout(240)
def test_what_was_asked_is_found_again(server: OllamaServer, env: dict[str, str]) -> None:
    gives(server, {"name": "Åse", "age": 31})
    shell("toolcast get 'name, age int' 'Åse is 31.'", env).went_well()
    gives(server, {"name": "Bo", "age": 5})
    shell("toolcast get 'name, age int' 'Bo is 5.'", env).went_well()
    gives(server, {"name": "Secret", "age": 1})
    shell("toolcast get 'name, age int' 'Not logged.' --no-log", env).went_well()
    head, newest, oldest = shell("toolcast logs", env).went_well()
    assert head.split() == ["SESSION", "BEGUN", "KIND", "END", "MODEL", "TURNS", "TOKENS", "COST", "TITLE"]
    assert newest.split()[3:8] == ["get", "done", f"ollama:{MODEL}", "1", "29"]
    assert newest.endswith("get name, age int: Bo is 5.")
    assert oldest.endswith("get name, age int: Åse is 31.")
    (found,) = shell("toolcast logs --search åse --json", env).went_well()
    assert json.loads(found)["title"] == "get name, age int: Åse is 31."
    text = shell("toolcast logs last", env).out
    assert "Extract the data from this text.\n\nBo is 5." in text
    assert '{"name": "Bo", "age": 5}' in text
    (id,) = (line.split()[0] for line in shell("toolcast logs -n 1", env).went_well()[1:])
    shell(f"toolcast logs {id} --delete", env).went_well()
    assert len(shell("toolcast logs", env).went_well()) == 2


def test_a_log_of_nothing_and_of_something_else(env: dict[str, str], tmp_path: Path) -> None:
    screen = shell("toolcast logs", env)
    assert (screen.code, screen.out) == (1, "")
    assert "start one with `toolcast chat`" in screen.err
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    screen = shell("toolcast logs --db notes.txt", env)
    assert (screen.code, screen.err) == (
        1, "toolcast: notes.txt is no SQLite database: name the file of a SQLiteStore, such as sessions.db\n",
    )  # fmt: skip


def test_a_model_file_that_is_cut_off(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "half.gguf").write_bytes(gguf()[:200])
    screen = shell("toolcast pull half.gguf", env)
    assert (screen.code, screen.out) == (1, "")
    assert "half.gguf: it is incomplete" in screen.err
    assert shell("toolcast models local --json | grep half", env).code == 1


@pytest.mark.timeout(240)
@pytest.mark.skipif(
    not SMOLLM2.is_file() or find_spec("xllamacpp") is None, reason="needs the embedded model: `toolcast pull`"
)
def test_a_model_of_ollama_runs_without_ollama(env: dict[str, str], tmp_path: Path) -> None:
    store_model(tmp_path / "ollama", "registry.ollama.ai/library/smol/latest", SMOLLM2.read_bytes())
    env = env | {"OLLAMA_MODELS": str(tmp_path / "ollama")}
    screen = shell("toolcast pull ollama:smol", env)
    assert screen.code == 0, screen.err
    assert screen.err.splitlines()[-2:] == ["tools by grammar: yes", "use it: toolcast chat -m smol"]
    assert shell("toolcast get 'name, age int' 'Ingrid is 51.' -m smol", env).went_well() == [
        '{"name":"Ingrid","age":51}'
    ]
    assert "smol" in shell("toolcast models local", env).out
    assert "smol" in shell("toolcast completion --values models", env).went_well()
    shell("toolcast pull smol --remove", env).went_well()
