"""The reprs of public objects, as a notebook shows the last expression of a cell."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import pytest

import toolcast
from support.albums import SEA, Album
from support.experiments import config_in
from toolcast import (
    Configs,
    Engine,
    FallbackLLM,
    FunctionCallingLLM,
    OpenAI,
    Permissions,
    Session,
    Settings,
    StreamingObjectProcessor,
    ToolOrchestratingLLM,
    hooks,
)
from toolcast.agents import ElfConfig, ElfManager
from toolcast.batch import Job, Outcomes, read_csv
from toolcast.batch.pacing import Pace
from toolcast.chat import AsyncChatMachine, ChatMachine
from toolcast.events import Event, TextDelta
from toolcast.experiments import (
    AgentMemory,
    CycleOrchestrator,
    EndpointEmbedder,
    ExperimentRunner,
    JsonlLogger,
    ResultsFile,
    SentenceTransformersEmbedder,
    SimilarityMonitor,
    TelegramOperator,
    TerminalOperator,
    UnattendedOperator,
    WordLlamaEmbedder,
    WordsEmbedder,
)
from toolcast.experiments.cycles import Services
from toolcast.llms import (
    Accumulator,
    Capabilities,
    ChatRequest,
    HttpxNetwork,
    MemoryCache,
    Next,
    SQLiteCache,
    WrapperLLM,
)
from toolcast.messages import ImagePart
from toolcast.stores import JSONLStore, MemoryStore, SQLiteStore
from toolcast.stores.store import SessionLease
from toolcast.testing import AutoLLM, ReplayNetwork, ScriptedLLM, VirtualClock
from toolcast.transport.aiohttp_network import AiohttpNetwork

KEY = "sk-canary"
PUBLIC = [f"toolcast.{name}" for name in toolcast.__all__ if isinstance(getattr(toolcast, name), ModuleType)]
PACKAGES = ("toolcast", "toolcast.batch.pacing", *PUBLIC)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def engine(*answers: Any) -> Engine:
    return Engine(ScriptedLLM(*answers), [add])


def make() -> ToolOrchestratingLLM[Album]:
    return ToolOrchestratingLLM(Album, "x", ScriptedLLM(SEA))


def public_classes() -> list[type]:
    found = [getattr(import_module(package), name) for package in PACKAGES for name in import_module(package).__all__]
    classes = {each for each in found if inspect.isclass(each) and not issubclass(each, BaseException)}
    concrete = [each for each in classes if Protocol not in each.__bases__ and each.__module__.startswith("toolcast")]
    return sorted(concrete, key=lambda each: each.__qualname__)


@pytest.mark.parametrize("kind", public_classes(), ids=lambda kind: kind.__qualname__)
def test_no_public_class_has_the_repr_of_object(kind: Any) -> None:
    if kind is not toolcast.Hooks:  # the caller's own classes derive from it
        assert kind.__repr__ is not object.__repr__


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (lambda: ScriptedLLM(), "ScriptedLLM('scripted')"),
        (lambda: AutoLLM(model="a"), "AutoLLM('a')"),
        (lambda: FallbackLLM([ScriptedLLM(), OpenAI("gpt-4o", api_key=KEY)]),
         "FallbackLLM([ScriptedLLM('scripted'), OpenAI('gpt-4o')])"),
        (lambda: FunctionCallingLLM.__new__(ScriptedLLM), "ScriptedLLM()"),
        (engine, "Engine(ScriptedLLM('scripted'), tools=[add], state='idle', messages=0)"),
        (lambda: Session(engine(), id="s"),
         "Session(Engine(ScriptedLLM('scripted'), tools=[add], state='idle', messages=0), id='s', state='idle')"),
        (lambda: ChatMachine(Engine(ScriptedLLM())),
         "ChatMachine(Engine(ScriptedLLM('scripted'), tools=[], state='idle', messages=0), state='idle', messages=0)"),
        (lambda: AsyncChatMachine(Engine(ScriptedLLM())),
         "AsyncChatMachine(Engine(ScriptedLLM('scripted'), tools=[], state='idle', messages=0), state='idle', "
         "messages=0)"),
        (lambda: ElfManager(Engine(ScriptedLLM())),
         "ElfManager(Engine(ScriptedLLM('scripted'), tools=[], state='idle', messages=0), elves=0, running=0)"),
        (Settings, "Settings()"),
        (lambda: Settings(temperature=0.5), "Settings(temperature=0.5)"),
        (lambda: Permissions(mode="plan"), "Permissions(mode='plan')"),
        (lambda: Capabilities(tools=True), "Capabilities(tools=True)"),
        (lambda: ImagePart(data=b"x" * 3000, media_type="image/png"),
         "ImagePart(url=None, data=<3,000 bytes>, media_type='image/png', detail=None, opaque=None, type='image')"),
        (lambda: Configs, "Configs(llm=None, settings=None, tool_errors='return')"),
        (lambda: hooks, "hooks(0 in this context, 0 in the process)"),
        (HttpxNetwork, "HttpxNetwork(max_connections=1000)"),
        (lambda: AiohttpNetwork(max_connections=3), "AiohttpNetwork(max_connections=3)"),
        (MemoryStore, "MemoryStore(0 sessions)"),
        (lambda: MemoryCache(1000), "MemoryCache(0 responses, 0 of 1000 bytes)"),
        (lambda: StreamingObjectProcessor(Album), "StreamingObjectProcessor([])"),
        (ReplayNetwork, "ReplayNetwork(0 responses left, 0 requests)"),
        (lambda: VirtualClock(1.0, 2.0), "VirtualClock(1.0, 2.0)"),
        (lambda: Pace(rpm=3), "Pace(rpm=3, tpm=None, max_concurrency=None)"),
        (lambda: EndpointEmbedder("openai", "e", api_key=KEY), "EndpointEmbedder('openai:e')"),
        (WordsEmbedder, "WordsEmbedder()"),
        (WordLlamaEmbedder, "WordLlamaEmbedder()"),
        (lambda: SentenceTransformersEmbedder("m"), "SentenceTransformersEmbedder('m')"),
        (lambda: SimilarityMonitor(WordsEmbedder(), high=0.9, moderate=0.5),
         "SimilarityMonitor('words', high=0.9, moderate=0.5)"),
        (lambda: TelegramOperator([1], token=f"123456:{'x' * 35}"),
         "TelegramOperator(timeout_minutes=5, fallback=None)"),
        (TerminalOperator, "TerminalOperator(timeout=None)"),
        (lambda: UnattendedOperator("yes"), "UnattendedOperator('yes')"),
        (lambda: Job(make(), ["a", "b"], max_concurrency=2), f"Job({make()!r}, 2 inputs, max_concurrency=2)"),
        (lambda: Job(make(), read_csv("a.csv")), f"Job({make()!r}, {read_csv('a.csv')!r})"),
        (lambda: Outcomes.__new__(Outcomes), "<Outcomes: iterate it, or call show()>"),
    ],
)  # fmt: skip
def test_a_repr(made: Callable[[], Any], shown: str) -> None:
    assert repr(made()) == shown


def test_an_llm_whose_metadata_fail() -> None:
    class Broken(ScriptedLLM):
        @property
        def metadata(self) -> Any:
            raise RuntimeError("no")

    assert repr(Broken()) == "Broken()"


def test_an_accumulator() -> None:
    accumulator = Accumulator()
    accumulator.apply(TextDelta("x"))
    assert repr(accumulator) == "Accumulator(1 parts, 0 tokens in, 0 out)"


def test_an_elf() -> None:
    manager = ElfManager(engine("done"))
    elf = manager.spawn(ElfConfig("x", background=False))
    assert repr(elf) == f"SyncElf(id='{elf.id}', task_type='generation', status='completed')"


def test_objects_with_a_file(tmp_path: Path) -> None:
    assert repr(JSONLStore(tmp_path)) == f"JSONLStore('{tmp_path}')"
    for kind, name in ((SQLiteStore, "a.db"), (SQLiteCache, "b.db"), (AgentMemory, "c.db")):
        with kind(tmp_path / name) as store:
            assert repr(store) == f"{kind.__name__}('{tmp_path / name}')"
    with AgentMemory(tmp_path / "d.db") as memory:
        assert repr(memory.of("run")) == f"RunMemory('run', path='{tmp_path / 'd.db'}')"
    assert repr(ResultsFile(tmp_path / "r.jsonl")) == f"ResultsFile('{tmp_path / 'r.jsonl'}')"


def test_experiments(tmp_path: Path) -> None:
    runner = ExperimentRunner(config_in(tmp_path), llm=ScriptedLLM("x"))
    assert repr(runner) == "ExperimentRunner('first', llm=ScriptedLLM('scripted'), cycles=3)"
    with JsonlLogger(tmp_path / "log.jsonl", "first") as log:
        path = str(tmp_path / "log.jsonl")
        assert repr(log) == f"JsonlLogger({path!r}, run_id='first', next_sequence=0)"
        cycles = CycleOrchestrator(config_in(tmp_path), Services(ScriptedLLM(), log))
        assert repr(cycles) == "CycleOrchestrator('first', llm=ScriptedLLM('scripted'), state='load_state')"


def test_a_wrapper_and_its_next() -> None:
    shown: list[str] = []

    class Wrapper(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            shown.append(repr(call_next))
            async for event in call_next(request):
                yield event

    Wrapper(ScriptedLLM("x")).chat("x")
    assert shown == ["Next(ScriptedLLM('scripted'))"]


def test_a_lease() -> None:
    lease = SessionLease(lambda: None)
    assert repr(lease) == "SessionLease(active)"
    lease.release()
    assert repr(lease) == "SessionLease(released)"


SAFE = [kind for kind in public_classes() if hasattr(kind.__repr__, "__wrapped__") and not hasattr(kind, "__del__")]


@pytest.mark.parametrize("kind", SAFE, ids=lambda kind: kind.__qualname__)
def test_an_instance_whose_constructor_failed_has_a_repr(kind: type) -> None:
    assert kind.__name__ in repr(object.__new__(kind))


def test_many_classes_are_tested() -> None:
    assert len(SAFE) > 15
