"""Tests of `Job` as a value, and of the names of its package."""

from __future__ import annotations

import anyio
import pytest
from pydantic import BaseModel

from toolcast import ToolOrchestratingLLM, batch
from toolcast.testing import ScriptedLLM


class Number(BaseModel):
    value: int


def numbers() -> batch.Job[Number]:
    llm = ScriptedLLM(lambda request: {"value": int(request.messages[-1].text)})
    return batch.Job(ToolOrchestratingLLM(Number, "{text}", llm), ["1", "2"])


EXPECTED = [Number(value=1), Number(value=2)]


def test_a_job_is_iterable_more_than_once() -> None:
    job = numbers()
    assert [outcome.output for outcome in job] == EXPECTED
    assert [outcome.output for outcome in job] == EXPECTED


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_job_is_async_iterable(backend: str) -> None:
    async def main() -> list[Number | None]:
        return [outcome.output async for outcome in numbers()]

    assert anyio.run(main, backend=backend) == EXPECTED


def test_the_names_of_the_package_are_those_that_it_exports() -> None:
    assert sorted(dir(batch)) == sorted(batch.__all__)
    assert all(getattr(batch, name) is not None for name in dir(batch))
    with pytest.raises(AttributeError, match=r"module 'toolcast\.batch' has no attribute 'jobs'"):
        batch.jobs  # type: ignore[attr-defined]  # noqa: B018  # the case
