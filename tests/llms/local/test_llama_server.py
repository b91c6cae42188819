"""local_model.py: the checks before the start, and, with the real server, its life: start, share, close, fork, exit."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.errors import NotFound, ServerError
from toolcast.llms.local import llama_server as local_model
from toolcast.llms.local.llama_server import LocalServer, ServerOptions, check_file, running
from toolcast.llms.local.weights import WEIGHTS, weights_path
from toolcast.providers.llama_cpp.grammar import calls_schema, grammar
from toolcast.values.tool_spec import ToolSpec

HAS_MODEL = find_spec("xllamacpp") is not None and weights_path().is_file()
needs_model = pytest.mark.skipif(not HAS_MODEL, reason="needs xllamacpp and `toolcast pull smollm2`: NOT TESTED")


def _file(tmp_path: Path, content: bytes, name: str = "m.gguf") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_the_file_is_checked_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no model file .* `toolcast pull smollm2`"):
        running(tmp_path / "absent.gguf").ready()
    with pytest.raises(NotFound, match="is not a GGUF model file"):
        check_file(_file(tmp_path, b"<html>"))
    known = WEIGHTS["smollm2"]
    with pytest.raises(NotFound, match=f"incomplete: 9 of {known.size} bytes"):
        check_file(_file(tmp_path, b"GGUF12345", known.file))
    check_file(_file(tmp_path, b"GGUF"))


def test_one_server_for_each_file_and_options(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    assert running(path) is running(str(path), ServerOptions())
    assert running(path) is not running(path, ServerOptions(context=512))
    assert "*" in repr(running(path).api_key)
    assert not running(path).is_running
    running(path).close()


def test_without_the_extra(tmp_path: Path, process: Process) -> None:
    process.without("xllamacpp")
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[local\]'"):
        LocalServer(_file(tmp_path, b"GGUF"), ServerOptions()).ready()


def test_cores(process: Process) -> None:
    assert local_model._cores() >= 1
    process.platform("darwin")
    assert local_model._cores() >= 1


@pytest.mark.networked
@needs_model
def test_a_file_that_llama_cpp_refuses(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="could not start") as caught:
        LocalServer(_file(tmp_path, b"GGUF and nothing else"), ServerOptions()).ready()
    assert not caught.value.retryable


def _post(url: str, body: dict[str, Any], key: str) -> tuple[int, Any]:
    address, _, path = url.removeprefix("http://").partition("/")
    with closing(HTTPConnection(address)) as connection:
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        connection.request("POST", f"/{path}", json.dumps(body), headers)
        reply = connection.getresponse()
        return reply.status, json.load(reply)


@pytest.mark.networked
@needs_model
async def test_it_starts_in_a_worker_thread() -> None:
    server = running(weights_path())
    await server.aready()
    await server.aready()
    assert server.is_running


@pytest.mark.networked
@needs_model
def test_it_answers_its_key_alone_and_starts_again() -> None:
    server = running(weights_path())
    url = server.base_url
    assert url.startswith("http://127.0.0.1:") and url.endswith("/v1")
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    rules = grammar(calls_schema([ToolSpec("t", "", schema)]))
    body = {"prompt": "Ann is 30.", "grammar": rules, "max_tokens": 99, "temperature": 0}
    status, answer = _post(f"{url}/completions", body, server.api_key.reveal())
    person = json.loads(answer["choices"][0]["text"])
    assert status == 200
    assert set(person) == {"name", "age"} and isinstance(person["age"], int)
    assert _post(f"{url}/completions", body, "wrong")[0] == 401
    server.close()
    assert not server.is_running
    server.ready()
    assert server.is_running
    server.close()


def _python(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50, check=False)


START = """
import http.client, json, os, sys
from toolcast.llms.local.llama_server import running
from toolcast.llms.local.weights import weights_path
server = running(weights_path())
server.ready()
"""


@pytest.mark.networked
@needs_model
def test_leaving_while_a_stream_runs_does_not_hang() -> None:
    done = _python(
        START
        + """
connection = http.client.HTTPConnection(server.base_url.split("/")[2])
body = {"prompt": "Once", "max_tokens": 3000, "stream": True, "ignore_eos": True}
connection.request("POST", "/v1/completions", json.dumps(body), {"authorization": "Bearer " + server.api_key.reveal()})
answer = connection.getresponse()
print(answer.status, answer.read(5))
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "200 b'data:'\n", "")


@pytest.mark.networked
@needs_model
@pytest.mark.skipif(not hasattr(local_model.os, "fork"), reason="this system does not fork")
def test_a_forked_child_is_reported_to_be_spawned_and_can_leave() -> None:
    done = _python(
        START
        + """
child = os.fork()
if not child:
    try:
        server.ready()
    except Exception as error:
        print(error)
    server.close()
    sys.exit(7)
print(os.waitpid(child, 0)[1] >> 8, server.is_running)
"""
    )
    assert done.returncode == 0
    assert "'spawn'" in done.stdout and done.stdout.endswith("7 True\n")
