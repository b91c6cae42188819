"""What an editor shows for jobs of many inputs. Checked by mypy and pyright; never run."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import assert_type

from pydantic import BaseModel

from toolcast import Budget, ToolOrchestratingLLM
from toolcast.batch import AsyncOutcomes, Job, Outcome, Outcomes


class Album(BaseModel):
    title: str


make = ToolOrchestratingLLM(Album, "An album about {topic}")
many = ToolOrchestratingLLM(Album, "Albums about {topic}", allow_parallel_tool_calls=True)


def maps(texts: Iterable[str], path: Path) -> None:
    for outcome in make.map(texts):
        assert_type(outcome, Outcome[Album])
        assert_type(outcome.output, Album | None)
        assert_type(outcome.error, Exception | None)
        assert_type(outcome.ok, bool)
    with make.map([{"topic": "sea"}], ordered=False, max_concurrency=3) as outcomes:
        assert_type(next(outcomes), Outcome[Album])
        outcomes.close()
    assert_type(many.map(texts), Outcomes[list[Album]])
    as_iterator: Iterator[Outcome[Album]] = make.map(path, key="id", budget=Budget(usd=5), on_error="raise")
    next(as_iterator)
    make.map(texts, key=lambda text: text[:5], checkpoint="job.sqlite", progress=False, via="live")
    make.map(texts, concurrency=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - no option
    make.map(texts, rpm="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - of a wrong type
    make.map(texts, on_error="stop")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - as above
    make.map(7)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - not iterable


async def amaps(texts: AsyncIterable[str]) -> None:
    async for outcome in make.amap(texts):
        assert_type(outcome, Outcome[Album])
    async with make.amap(["sea"], ask_once=True, by_prefix=True) as outcomes:
        assert_type(await anext(outcomes), Outcome[Album])
    assert_type(many.amap(texts), AsyncOutcomes[list[Album]])
    as_iterator: AsyncIterator[Outcome[Album]] = make.amap(texts)
    await anext(as_iterator)


def jobs(texts: list[str]) -> None:
    job = Job(make, texts, rpm=60, tpm=1e6)
    assert_type(job, Job[Album])
    assert_type(job.run(), Outcomes[Album])
    assert_type(job.arun(), AsyncOutcomes[Album])
    for outcome in job:
        assert_type(outcome, Outcome[Album])
    Job(make, texts, size=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue] - no option
