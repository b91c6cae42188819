"""The pytest plugin, in projects of their own, under pytest-asyncio and under anyio's plugin."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pytest_projects import RUNNERS, Project

EACH_RUNNER = ["anyio", pytest.param("pytest-asyncio", marks=pytest.mark.slow)]
EXAMPLE = Path(__file__).parent.parent / "examples" / "testing_an_app"
OFFLINE = '''
"""A network that answers by itself, and counts."""

from toolcast import OpenAI
from toolcast.testing import Recorded, ReplayNetwork

BODY = '{"choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}'


class Network:
    """Unlike a ReplayNetwork, it counts as a real one."""

    def __init__(self):
        self.sent = 0

    def _next(self):
        self.sent += 1
        return ReplayNetwork(Recorded([BODY.encode()], headers={"content-type": "application/json"}))

    def open(self, request, **limits):
        return self._next().open(request, **limits)

    async def aopen(self, request, **limits):
        return await self._next().aopen(request, **limits)

    def close(self): ...
    async def aclose(self): ...


network = Network()
llm = OpenAI("m-1", api_key="sk-0123456789", base_url="https://service.example/v1", network=network)
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def write(project: Project, ini: str = "", **files: str) -> None:
    project.write(ini, offline=OFFLINE, **files)


@pytest.mark.slow
def test_without_opt_in_nothing_changes_and_nothing_is_imported(project: Project) -> None:
    write(
        project,
        test_one="""
            import sys

            import pytest

            def test_imports(pytestconfig):
                loaded = {name for name in sys.modules if name.partition(".")[0] in ("toolcast", "pydantic")}
                assert loaded <= {"toolcast", "toolcast.lazy", "toolcast.lazy.lazy_exports", "toolcast.pytest_plugin"}

            def test_requests():
                from offline import llm, network
                from toolcast import Configs, messages

                assert "Rewriting" not in type(messages.__loader__).__name__  # its assertions are as they were

                assert llm.chat("x").text == "Hello"
                assert network.sent == 1
                assert Configs.tool_errors == "return"

            @pytest.mark.toolcast_block_requests
            def test_one_opts_in():
                from offline import llm
                from toolcast.testing import RequestBlocked

                with pytest.raises(RequestBlocked):
                    llm.chat("x")

            def test_others_do_not():
                from offline import llm

                assert llm.chat("x").text == "Hello"
        """,
    )
    project.passes(4, "-p", "no:asyncio")


BLOCKED = """
    import asyncio
    import threading
    from concurrent.futures import ThreadPoolExecutor

    import pytest
    from offline import llm, network
    from toolcast import Engine, OpenAI
    from toolcast.errors import ConnectFailed, TurnFailed
    from toolcast.testing import RequestBlocked

    @pytest.fixture(scope="module")
    async def older():
        return "an async fixture, whose task is older than the tests"

    def refused():
        with pytest.raises(RequestBlocked, match=r"toolcast_record"):
            llm.chat("x")
        assert network.sent == 0
        return True

    def test_sync(): assert refused()

    def test_executor():
        with ThreadPoolExecutor() as pool:
            assert pool.submit(refused).result()

    async def test_async(older):
        with pytest.raises(RequestBlocked):
            await llm.achat("x")

    def test_this_machine():
        with pytest.raises(ConnectFailed):
            OpenAI("m", api_key="k", base_url="http://127.0.0.1:9/v1", max_retries=0).chat("x")

    def test_errors_of_tools_are_raised(toolcast_llm):
        from toolcast import ToolCallPart
        def broken() -> str: raise ZeroDivisionError
        toolcast_llm.add(ToolCallPart("1", "broken"), "All good!")
        with pytest.raises(TurnFailed, match="ZeroDivisionError"):
            Engine(llm, [broken]).submit("x")

    @pytest.mark.toolcast_block_requests(False)
    def test_allowed():
        before = network.sent
        with ThreadPoolExecutor() as pool:
            assert pool.submit(llm.chat, "x").result().text == "Hello"
        assert network.sent == before + 1
        network.sent = before

    async def test_scripted(older, toolcast_llm):
        toolcast_llm.add("scripted")
        assert (await llm.achat("x")).text == "scripted"

    def test_scripted_in_threads(toolcast_llm):
        toolcast_llm.add(lambda request: request.messages[0].text)
        with ThreadPoolExecutor() as pool:
            assert [each.text for each in pool.map(llm.chat, "abc")] == ["a", "b", "c"]

    async def test_the_script_ends_with_its_test(older):
        with pytest.raises(RequestBlocked):
            await llm.achat("x")
"""


@pytest.mark.parametrize("runner", EACH_RUNNER)
def test_a_project_that_opts_in(project: Project, runner: str) -> None:
    write(project, "toolcast_block_requests = true\ntoolcast_tool_errors = raise\n", test_blocked=BLOCKED)
    project.passes(9 if runner == "pytest-asyncio" else 12, *RUNNERS[runner], "--assert=plain")


RECORDED = """
    import pytest
    from offline import llm, network

    pytestmark = pytest.mark.toolcast_record(filter={"private": "public"})

    @pytest.fixture
    def asked():
        return llm.chat("asked by a fixture, in private").text

    @pytest.mark.toolcast_record
    def test_sync(asked, toolcast_recording):
        assert (llm.chat("x").text, asked) == ("Hello", "Hello")
        assert toolcast_recording.sent + toolcast_recording.replayed == 2
        assert network.sent in (0, 2)

    async def test_async():
        assert (await llm.achat("x")).text == "Hello"

    class TestNames:
        @pytest.mark.parametrize("name", ["a", "b/c"])
        def test_named(self, name):
            llm.chat(name)

    @pytest.mark.toolcast_record("elsewhere.jsonl", "once")
    def test_with_a_path(): llm.chat("x")
"""


@pytest.mark.slow
@pytest.mark.parametrize("runner", EACH_RUNNER)
def test_recordings(project: Project, runner: str) -> None:
    write(project, "toolcast_block_requests = true\n", test_recorded=RECORDED)
    anyio = runner == "anyio"
    tests = 6 if anyio else 5
    options = RUNNERS[runner]
    missing = project.run(*options, "--toolcast-record", "none")
    assert "RecordingMismatch" in missing.stdout and "there is no recording" in missing.stdout
    assert not list(project.folder.rglob("*.jsonl"))
    project.passes(tests, *options)
    files = sorted(path.relative_to(project.folder).as_posix() for path in project.folder.rglob("*.jsonl"))
    backends = ["test_async[asyncio]", "test_async[trio]"] if anyio else ["test_async"]
    named = next(Path(name).stem for name in files if "[b-c]" in name)
    assert files == sorted(
        [
            "elsewhere.jsonl",
            *[
                f"recordings/test_recorded/{name}.jsonl"
                for name in ("TestNames.test_named[a]", named, "test_sync", *backends)
            ],
        ]
    )
    text = (project.folder / "recordings/test_recorded/test_sync.jsonl").read_text(encoding="utf-8")
    assert "in public" in text and "private" not in text
    (project.folder / "offline.py").write_text(OFFLINE.replace("self.sent += 1", "raise OSError"), encoding="utf-8")
    project.passes(tests, *options, CI="true")
    again = project.run(*options, "--toolcast-record", "all")
    assert again.returncode == 1 and "OSError" in again.stdout


def test_wrong_settings(project: Project) -> None:
    write(project, "toolcast_tool_errors = explode\n")
    done = project.run("-p", "no:asyncio")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "toolcast_tool_errors = explode: expected return or raise" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("runner", EACH_RUNNER)
def test_the_example(runner: str, tmp_path: Path) -> None:
    """The application of examples/, whose tests are scripted, recorded and automatic."""
    Project(EXAMPLE).passes(13 if runner == "pytest-asyncio" else 18, *RUNNERS[runner], PYTHONDONTWRITEBYTECODE="1")
