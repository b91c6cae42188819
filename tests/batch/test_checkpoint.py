"""Tests of the checkpoint: what is stored, what is refused, and the failures of the file."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_validator, model_serializer
from pydantic_core import PydanticCustomError

from support import warm_python
from support.unprivileged import mode, unprivileged
from toolcast import ChatPromptTemplate, Prices, Settings, ToolOrchestratingLLM, Usage
from toolcast.batch import Outcome
from toolcast.batch.checkpoint import LAYOUT, Checkpoint, read_status
from toolcast.batch.item_keys import UnstableInput
from toolcast.batch.job_errors import CheckpointError, CheckpointMismatch
from toolcast.batch.remote.journal import Journal
from toolcast.errors import CallError, RateLimited, ToolcastError, error_from_dict
from toolcast.llms import UsageDetails
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.testing import ScriptedLLM
from toolcast.values.prices import ModelPricing


class Person(BaseModel):
    name: str
    age: int = 0


class Place(BaseModel):
    name: str
    age: int = 0


def call_for(output_cls: Any = Person, prompt: Any = "Extract {text}", **options: Any) -> ToolOrchestratingLLM[Any]:
    llm = options.pop("llm", None) or ScriptedLLM("never asked")
    return ToolOrchestratingLLM(output_cls, prompt, llm, **options)


ADA = Outcome(0, "a", None, Person(name="Ada"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "people.ckpt"


@pytest.fixture
def checkpoint(path: Path) -> Iterator[Checkpoint]:
    with Checkpoint(path, call_for()) as checkpoint:
        yield checkpoint


def execute(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """What another program does to the file."""
    connection = sqlite3.connect(path)
    try:
        rows = [row for statement in statements for row in connection.execute(statement).fetchall()]
        connection.commit()
    finally:
        connection.close()
    return rows


# What is stored.


def test_an_outcome_is_found_again(path: Path) -> None:
    usage = Usage(100, 50, 3, 2, 1, 4).with_pricing(ModelPricing("openai", ("x",), Prices(2, 4)))
    written = Outcome(3, "k", {"text": "Ada"}, Person(name="Ada", age=36), None, 2, usage, 1.5)
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(written)
        assert checkpoint.find("k") is None  # a job does not ask for what it has written itself
    with Checkpoint(path, call_for()) as checkpoint:
        found = checkpoint.find("k", 3, {"text": "Ada"})
        assert found == written
        assert found is not None
        assert found.cost == usage.cost
        assert (checkpoint.found, checkpoint.find("other")) == (1, None)


def test_a_failed_item_is_asked_again(path: Path) -> None:
    error = RateLimited("too many requests", provider="openai", model="gpt", status=429)
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, error=error, attempts=3))
        checkpoint.write(Outcome(1, "b", None, error=KeyError("no such \ud800")))
    with Checkpoint(path, call_for()) as checkpoint:
        assert (checkpoint.find("a"), checkpoint.find("b"), checkpoint.found) == (None, None, 2)
    stored = [json.loads(row[0]) for row in execute(path, "SELECT error FROM items")]
    assert [str(error_from_dict(each)) for each in stored] == [str(error), r"KeyError: 'no such \ud800'"]


def test_the_last_outcome_of_a_key_counts(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, error=CallError("no"), usage=Usage(10, 1)))
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=Usage(20, 2)))
    with Checkpoint(path, call_for()) as checkpoint:
        found = checkpoint.find("a")
        assert found is not None
        assert found.output == Person(name="Ada")
        assert checkpoint.found == 1
        assert checkpoint.spent == Usage(30, 3)  # failed requests were paid for too


def test_the_spending_is_kept(path: Path) -> None:
    priced = Usage(1_000_000, 500_000, 5).with_pricing(ModelPricing("openai", ("x",), Prices(2, 4)))
    with Checkpoint(path, call_for()) as checkpoint:
        assert (checkpoint.spent, checkpoint.spent.known_cost) == (Usage(), Decimal(0))
        for number in range(3):
            checkpoint.write(Outcome(number, str(number), None, Person(name="Ada"), usage=priced))
        checkpoint.write(Outcome(3, "bad row", None, error=ValueError("no")))
    with Checkpoint(path, call_for()) as checkpoint:
        assert checkpoint.spent == Usage(3_000_000, 1_500_000, 15)
        assert checkpoint.spent.cost == 3 * (priced.cost or 0)
        checkpoint.write(Outcome(4, "unpriced", None, Person(name="Ada"), usage=Usage(5)))
    with Checkpoint(path, call_for()) as checkpoint:
        assert checkpoint.spent.cost is None
        assert checkpoint.spent.known_cost == 3 * (priced.cost or 0)


SEARCHED = UsageDetails(cache_creation_1h_tokens=7, web_searches=2, service_tier="flex")


def test_the_details_of_the_usage_are_kept(path: Path) -> None:
    usage = Usage(100, 50, details=SEARCHED)
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=usage))
        checkpoint.write(Outcome(1, "b", None, error=CallError("no"), usage=usage))
        checkpoint.write(Outcome(2, "bad row", None, error=ValueError("no")))
    with Checkpoint(path, call_for()) as checkpoint:
        assert (found := checkpoint.find("a")) is not None
        assert (found.usage, found.usage.details.service_tier) == (usage, "flex")
        assert (checkpoint.spent, checkpoint.spent.details.service_tier) == (usage + usage, "flex")
        checkpoint.write(Outcome(3, "c", None, Person(name="Bob"), usage=Usage(1, 1)))
    spent = read_status(path).spent
    assert (spent, spent.details.service_tier) == (Usage(201, 101, details=SEARCHED + SEARCHED), None)


def test_a_file_without_details_is_read_and_gets_them(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=Usage(5, 6)))
    execute(path, "ALTER TABLE items DROP COLUMN details")
    assert read_status(path).spent == Usage(5, 6)
    with Checkpoint(path, call_for()) as checkpoint:
        assert (found := checkpoint.find("a")) is not None
        assert (found.usage, checkpoint.spent) == (Usage(5, 6), Usage(5, 6))
        checkpoint.write(Outcome(1, "b", None, Person(name="Bob"), usage=Usage(1, 1, details=SEARCHED)))
    with Checkpoint(path, call_for()) as checkpoint:
        assert (found := checkpoint.find("b")) is not None
        assert found.usage.details == SEARCHED
        assert checkpoint.spent == Usage(6, 7, details=SEARCHED)


def test_details_of_a_later_version(path: Path) -> None:
    """Its counts are left out of the sum; an item that has them is not read with less than it has."""
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=Usage(1, 1, details=SEARCHED)))
    execute(path, """UPDATE items SET details = '{"web_searches": 3, "dreams": 4}', checksum = NULL""")
    with Checkpoint(path, call_for()) as checkpoint:
        assert checkpoint.spent == Usage(1, 1, details=UsageDetails(web_searches=3))
        with pytest.raises(CheckpointError, match="'dreams' is no detail of a usage"):
            checkpoint.find("a")


@pytest.mark.parametrize("details", ["[3]", "3"])
def test_damaged_details_are_named(path: Path, details: str) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=Usage(1, 1, details=SEARCHED)))
    execute(path, f"UPDATE items SET details = '{details}', checksum = NULL")
    with Checkpoint(path, call_for()) as checkpoint, pytest.raises(CheckpointError, match="input 0"):
        checkpoint.find("a")


@dataclass
class Point:
    x: float
    tags: set[str]


class Drawing(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=False, validate_by_alias=True)
    title: str = Field(alias="the title")
    points: list[Point] = []
    raw: bytes = b""

    @computed_field
    def size(self) -> int:
        return len(self.points)


class Labelled(BaseModel):
    title: str = Field(alias="the title")

    @model_serializer
    def by_label(self) -> dict[str, str]:
        return {"the title": self.title}


def summary(text: str) -> dict[str, int]:
    """Count."""
    return {text: 1}


async def places(text: str) -> list[Place]:
    """Find."""
    return [Place(name=text)]


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (call_for(), Person(name="Ada \U0001f600 \u2028", age=-1)),
        (call_for(Drawing), Drawing(**{"the title": "a"}, points=[Point(1.5, {"b"})], raw=b"ab")),
        (call_for(Labelled), Labelled(**{"the title": "a"})),
        (call_for(list[int]), [1, 2]),
        (call_for(str), "text"),
        (call_for(Person | Place), Place(name="London")),
        (call_for(Person | Place), Person(name="Ada")),
        (call_for(Person, allow_parallel_tool_calls=True), [Person(name="a"), Person(name="b")]),
        (call_for(Person, allow_parallel_tool_calls=True), []),
        (call_for(Person | Place, allow_parallel_tool_calls=True), [Place(name="a"), Person(name="b")]),
        (call_for(summary), {"a": 1}),
        (call_for(places), [Place(name="London")]),
    ],
)
def test_outputs_of_every_type_are_restored(path: Path, call: ToolOrchestratingLLM[Any], output: Any) -> None:
    with Checkpoint(path, call) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, output))
    with Checkpoint(path, call) as checkpoint:
        found = checkpoint.find("a")
    assert found is not None
    assert (type(found.output), found.output) == (type(output), output)


def test_a_lone_surrogate_is_stored_as_the_replacement_character(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="\ud800")))
    with Checkpoint(path, call_for()) as checkpoint:
        found = checkpoint.find("a")
    assert found is not None
    assert found.output == Person(name="�")


class Account(BaseModel):
    name: str
    password: SecretStr


class Hidden(BaseModel):
    name: str
    note: str = Field("", exclude=True)


class Growing(BaseModel):
    price: int

    @field_validator("price")
    @classmethod
    def add(cls, value: int) -> int:
        return value + 1


class Once(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def strip(cls, value: str) -> str:
        if not value.startswith("_"):
            raise PydanticCustomError("x", "expected an underscore")
        return value[1:]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (Account(name="a", password=SecretStr("p")), r"an output of Account cannot be stored in the checkpoint"),
        (Hidden(name="a", note="b"), r"an output of Hidden cannot be stored.*it would be Hidden\(name='a', note=''\)"),
        (Growing(price=1), r"an output of Growing cannot be stored.*it would be Growing\(price=3\)"),
        (Once(name="_a"), r"an output of Once cannot be stored.*(?s:.)*expected an underscore"),
    ],
)
def test_an_output_that_would_come_back_as_another_is_refused(path: Path, output: BaseModel, message: str) -> None:
    with Checkpoint(path, call_for(type(output))) as checkpoint:
        with pytest.raises(CheckpointError, match=message):
            checkpoint.write(Outcome(0, "a", None, output))
        assert "p" not in [row[0] for row in execute(path, "SELECT output FROM items")]


def unannotated(text):  # type: ignore[no-untyped-def]  # that is what is tested
    """Count."""


def forward(text: str) -> Unknown:  # type: ignore[name-defined]  # noqa: F821  # that is what is tested
    """Count."""


@pytest.mark.parametrize("function", [unannotated, forward])
def test_a_function_needs_a_return_annotation(path: Path, function: Callable[..., Any]) -> None:
    with pytest.raises(CheckpointError, match=r"has no return annotation: with a checkpoint it needs one"):
        Checkpoint(path, call_for(function))
    assert not path.exists()


# What is refused.


@pytest.mark.fault(144)
def test_the_file_is_a_database_for_the_owner_alone(checkpoint: Checkpoint, path: Path) -> None:
    checkpoint.write(Outcome(0, "a", {"text": "the input"}, Person(name="Ada")))
    assert execute(path, "PRAGMA application_id", "PRAGMA user_version") == [(LAYOUT.owner,), (LAYOUT.version,)]
    files = [each for each in path.parent.rglob("*") if each.is_file()]
    assert len(files) >= 3
    assert os.name == "nt" or [stat.S_IMODE(each.stat().st_mode) for each in files] == [0o600] * len(files)
    assert b"the input" not in b"".join([each.read_bytes() for each in files])


def test_credentials_are_not_stored(path: Path) -> None:
    settings = Settings(extra={"gateway": "sk-secret"}, stop=["END"])
    with Checkpoint(path, call_for(settings=settings)) as checkpoint:
        checkpoint.write(Outcome(0, "a", {"key": "sk-secret"}, Person(name="Ada")))
        stored = b"".join([each.read_bytes() for each in path.parent.rglob("*") if each.is_file()])
        assert b"sk-secret" not in stored
        assert b"gateway" in stored


@pytest.mark.fault(152)
def test_a_second_writer_is_refused(checkpoint: Checkpoint, path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"people\.ckpt is being written by another job \(process: here\)"):
        Checkpoint(path, call_for())
    checkpoint.close()
    with Checkpoint(path, call_for()):
        program = (
            "import sys\nfrom toolcast import ToolOrchestratingLLM\nfrom toolcast.testing import ScriptedLLM\n"
            "from toolcast.batch.checkpoint import Checkpoint\n"
            "Checkpoint(sys.argv[1], ToolOrchestratingLLM(str, 'x', ScriptedLLM('')))"
        )
        ended = warm_python.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
        assert f"is being written by another job (process: {os.getpid()})" in ended.stderr
        assert "CheckpointError" in ended.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot remove a file that is open elsewhere")
def test_a_checkpoint_is_one_file_once_the_job_has_ended(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
        assert path.with_name("people.ckpt.lock").is_file()
    assert [*path.parent.iterdir()] == [path]


def test_the_lock_ends_with_a_failed_opening(path: Path) -> None:
    for _ in range(2):
        with Checkpoint(path, call_for()) as checkpoint:
            checkpoint.write(ADA)
        with pytest.raises(CheckpointMismatch):
            Checkpoint(path, call_for(prompt="Other {text}"))


class Renamed(BaseModel):
    """A person."""

    name: Annotated[str, Field(description="full")]
    city: str
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


Renamed.__name__ = "Person"


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        (
            call_for(prompt="Extract it from {text}"),
            {"prompt": "was 'Extract {text}', is now 'Extract it from {text}'"},
        ),
        (
            call_for(prompt=ChatPromptTemplate([("system", "s"), "Extract {text}"])),
            {"prompt": "was 'Extract {text}', is now \"('system', 's')\\nExtract {text}\""},
        ),
        (
            call_for(llm=ScriptedLLM("", model="other", system_prompt="Be brief.")),
            {"model": "was 'scripted', is now 'scripted other'", "system_prompt": "was not set, is now 'Be brief.'"},
        ),
        (
            call_for(settings=Settings(temperature=0.5, extra={"a": 1}, timeout=5)),
            {"temperature": "was not set, is now '0.5'", "extra": "was not set, is now 'a'"},
        ),
        (
            call_for(mode="prompted", tool_choice="auto", allow_parallel_tool_calls=True),
            {
                "mode": "was not set, is now 'prompted'",
                "tool_choice": "was not set, is now 'auto'",
                "allow_parallel_tool_calls": "was not set, is now 'True'",
            },
        ),
        (
            call_for(Renamed),
            {
                "schema": "added Person.name.description, Person.city, Person.a.default, Person.a and 6 more; "
                "removed Person.age.default, Person.age; changed Person.description"
            },
        ),
    ],
)
@pytest.mark.fault(152)
def test_what_was_changed_is_named(
    checkpoint: Checkpoint, path: Path, call: ToolOrchestratingLLM[Any], changed: dict[str, str]
) -> None:
    checkpoint.write(ADA)
    checkpoint.close()
    with pytest.raises(CheckpointMismatch, match=r"belongs to a job with another") as raised:
        Checkpoint(path, call)
    assert {name: raised.value.changed.get(name) for name in changed} == changed
    assert set(raised.value.changed) == set(changed)
    assert all(f"{name}: {change}" in str(raised.value) for name, change in changed.items())


def test_a_change_in_the_middle_of_a_long_prompt_is_shown(path: Path) -> None:
    with Checkpoint(path, call_for(prompt="a" * 500 + "{text}" + "b" * 500)) as checkpoint:
        checkpoint.write(ADA)
    with pytest.raises(CheckpointMismatch) as raised:
        Checkpoint(path, call_for(prompt="a" * 500 + "{text}!" + "b" * 500))
    same = f"...'{'a' * 24}{{text}}"
    assert raised.value.changed["prompt"] == f"was {same}{'b' * 60}'..., is now {same}!{'b' * 59}'..."


def test_a_changed_value_behind_one_text_is_named(path: Path) -> None:
    with Checkpoint(path, call_for(settings=Settings(extra={"a": 1}))) as checkpoint:
        checkpoint.write(ADA)
    with pytest.raises(CheckpointMismatch) as raised:
        Checkpoint(path, call_for(settings=Settings(extra={"a": 2})))
    assert raised.value.changed == {"extra": "changed"}


def test_a_file_without_outputs_is_that_of_the_next_job(path: Path) -> None:
    """After a wrong prompt, or a budget that covers no request, the job is corrected and started again."""
    with Checkpoint(path, call_for(prompt="{text}")) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, error=ValueError("no"), usage=Usage(3, 4)))
    with Checkpoint(path, call_for(prompt="Extract: {text}", settings=Settings(max_tokens=5))) as checkpoint:
        assert checkpoint.find("a") is None
        assert checkpoint.spent.total_tokens == 7
        checkpoint.write(ADA)
    assert read_status(path).job["prompt"] == "Extract: {text}"
    with pytest.raises(CheckpointMismatch) as raised:
        Checkpoint(path, call_for(prompt="{text}"))
    assert set(raised.value.changed) == {"prompt", "max_tokens"}


def test_a_file_with_batches_at_a_provider_is_that_of_its_job(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:
        Journal(checkpoint.file)
    with pytest.raises(CheckpointMismatch):
        Checkpoint(path, call_for(prompt="Other {text}"))


def test_the_limits_of_a_call_may_change(path: Path) -> None:
    with Checkpoint(path, call_for(settings=Settings(timeout=5), max_attempts=1)):
        pass
    with Checkpoint(path, call_for(settings=Settings(timeout=9), max_attempts=3, verbose=True)):
        pass


def test_a_prompt_without_a_stable_hash_is_an_error(path: Path) -> None:
    class Example:
        pass

    call = call_for()
    call.prompt = ChatPromptTemplate([("user", "{text}")])
    object.__setattr__(call.prompt, "messages", [Example()])
    with pytest.raises(UnstableInput, match=r"the prompt of the job: .*Example has no stable hash"):
        Checkpoint(path, call)


def test_the_file_of_a_session_store_is_refused(tmp_path: Path) -> None:
    with SQLiteStore(tmp_path / "a.db") as store:
        store.append("a", [{}])
    with pytest.raises(CheckpointError, match="database of another application: use another file"):
        Checkpoint(tmp_path / "a.db", call_for())


def test_memory_is_no_checkpoint() -> None:
    with pytest.raises(ValueError, match="Checkpoint needs a file"):
        Checkpoint(":memory:", call_for())


# Failures of the file.


def test_a_damaged_outcome_is_named(checkpoint: Checkpoint, path: Path) -> None:
    checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
    checkpoint.close()
    for output in ("'{'", '\'{"age": "x"}\'', "NULL"):
        execute(path, f"UPDATE items SET output = {output}, checksum = NULL")
        message = r"the stored outcome of input 7 \(key a\) is not valid"
        with Checkpoint(path, call_for()) as again, pytest.raises(CheckpointError, match=message):
            again.find("a", 7)


@pytest.mark.parametrize("change", ["text = X'7B'", "digest = X'35'"])
def test_a_changed_identity_is_damaged(checkpoint: Checkpoint, path: Path, change: str) -> None:
    """Another type of a column is one flipped bit; a text that was none was an AttributeError."""
    checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
    checkpoint.close()
    execute(path, f"UPDATE identity SET {change} WHERE part = 'schema'")
    execute(path, "UPDATE identity SET digest = 'x' WHERE part = 'prompt'")
    for read in (lambda: Checkpoint(path, call_for()), lambda: read_status(path)):
        with pytest.raises(CheckpointError, match=r"is damaged: the 'schema' of its job is not a text. Restore it"):
            read()


def test_a_damaged_schema_of_another_job_is_not_described(checkpoint: Checkpoint, path: Path) -> None:
    checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
    checkpoint.close()
    execute(path, "UPDATE identity SET digest = 'x', text = '{' WHERE part = 'schema'")
    with pytest.raises(CheckpointMismatch, match=r"schema: was '\{', is now '\["):
        Checkpoint(path, call_for())


@pytest.mark.parametrize("change", ["output = '{}'", "key = 'b'", "input_tokens = 7", "attempts = 2", "position = 4"])
def test_a_changed_row_is_damaged(checkpoint: Checkpoint, path: Path, change: str) -> None:
    for index, key in enumerate("xa"):
        checkpoint.write(Outcome(index, key, None, Person(name="Ada")))
    checkpoint.close()
    execute(path, f"UPDATE items SET {change} WHERE number = 2")
    with pytest.raises(CheckpointError, match=r"row 2 of its items is damaged .* DELETE FROM items WHERE number = 2"):
        Checkpoint(path, call_for())
    execute(path, "DELETE FROM items WHERE number = 2")
    with Checkpoint(path, call_for()) as again:
        assert again.find("x") is not None
        assert again.find("a") is None


@pytest.mark.parametrize("flips", [60, pytest.param(10_000, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)])])
def test_a_flipped_bit_never_gives_another_value(checkpoint: Checkpoint, path: Path, flips: int) -> None:
    """The right outcomes, perhaps of fewer items, which are asked again; or the error of a checkpoint."""
    people = {f"key {number}": Person(name=f"Ada {number}" * number) for number in range(20)}
    for number, (key, person) in enumerate(people.items()):
        checkpoint.write(Outcome(number, key, None, person, usage=Usage(5, number)))
    checkpoint.close()
    with Checkpoint(path, call_for()) as whole:
        spent = whole.spent
    content, random = path.read_bytes(), Random(flips)
    results = Counter[str]()
    for _ in range(flips):
        place = random.randrange(len(content))
        damaged = bytearray(content)
        damaged[place] ^= 1 << random.randrange(8)
        path.write_bytes(damaged)
        try:
            with Checkpoint(path, call_for()) as again:
                assert again.spent == spent, place
                for key, person in people.items():
                    found = again.find(key)
                    assert found is None or found.output == person, place
                    results["missing"] += found is None
            results["right"] += 1
        except CheckpointError:
            results["error"] += 1
    assert results["right"] > flips / 2
    assert results["error"]
    assert results["missing"] <= 1 + flips / 100


def test_an_unknown_type_of_an_output_is_named(path: Path) -> None:
    with Checkpoint(path, call_for(Person | Place)) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
    execute(path, "UPDATE items SET types = '\"Cat\"', checksum = NULL")
    message = r"its type 'Cat' is none of the job's: Person, Place"
    with Checkpoint(path, call_for(Person | Place)) as again, pytest.raises(CheckpointError, match=message):
        again.find("a")


@pytest.mark.fault(151)
def test_a_full_disk(checkpoint: Checkpoint, path: Path) -> None:
    with checkpoint.file.using() as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 8}")
    written = 0
    with pytest.raises(CheckpointError, match=r"people\.ckpt failed: database or disk is full\. What was written") as e:
        for written in range(1_000):
            checkpoint.write(Outcome(written, str(written), None, Person(name="x" * 500)))
    assert isinstance(e.value.__cause__, ToolcastError)
    checkpoint.close()
    with Checkpoint(path, call_for()) as again:
        assert again.found == written
        assert all(again.find(str(number)) for number in range(written))
        again.write(Outcome(written, str(written), None, Person(name="Ada")))


OPEN = """
import sys
from toolcast import ToolOrchestratingLLM
from toolcast.batch.checkpoint import Checkpoint
from toolcast.testing import ScriptedLLM
Checkpoint(sys.argv[1], ToolOrchestratingLLM(str, "x", ScriptedLLM("")))
"""


@pytest.mark.parametrize("protected", ["file", "folder"])
@pytest.mark.fault(151)
def test_a_checkpoint_that_cannot_be_written(path: Path, protected: str) -> None:
    with Checkpoint(path, call_for(str, "x")) as checkpoint:
        checkpoint.write(Outcome(0, "a", None, "Ada"))
    with ExitStack() as stack:
        if protected == "file":
            stack.enter_context(mode(path, 0o400))
        else:
            stack.enter_context(mode(path.parent, 0o500))
        _, errors, _ = unprivileged(OPEN, path)
    assert f"CheckpointError: checkpoint {path.resolve()} failed: " in errors
    assert "What was written before is kept: make sure that the disk has space and the file can be written" in errors
    assert stored_keys(path) == ["a"]


def stored_keys(path: Path) -> list[str]:
    return [row[0] for row in execute(path, "SELECT key FROM items")]


def test_a_file_that_becomes_read_only(checkpoint: Checkpoint) -> None:
    checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))
    with checkpoint.file.using() as connection:
        connection.execute("PRAGMA query_only = ON")
    with pytest.raises(CheckpointError, match="attempt to write a readonly database"):
        checkpoint.write(Outcome(1, "b", None, Person(name="Ada")))


def test_after_close_nothing_is_written(checkpoint: Checkpoint) -> None:
    checkpoint.close()
    with pytest.raises(CheckpointError, match="is closed"):
        checkpoint.write(Outcome(0, "a", None, Person(name="Ada")))


def test_many_threads_write(path: Path) -> None:
    with Checkpoint(path, call_for()) as checkpoint:

        def work(number: int) -> None:
            for item in range(50):
                checkpoint.write(Outcome(item, f"{number}/{item}", None, Person(name="Ada"), usage=Usage(1, 1)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Checkpoint(path, call_for()) as checkpoint:
        assert (checkpoint.found, checkpoint.spent) == (400, Usage(400, 400))


# The status.


def test_the_status_of_a_job(checkpoint: Checkpoint, path: Path) -> None:
    checkpoint.write(Outcome(0, "a", None, Person(name="Ada"), usage=Usage(5, 6)))
    checkpoint.write(Outcome(1, "b", None, error=CallError("no")))
    status = read_status(path)
    assert (status.path, status.done, status.failed, status.spent) == (path.resolve(), 1, 1, Usage(5, 6))
    assert (status.running, status.starts, status.last_start[:2]) == (True, 1, "20")
    assert status.job["prompt"] == "Extract {text}"
    assert status.job["model"] == "scripted"
    checkpoint.close()
    assert not read_status(path).running


def test_the_status_of_something_else(tmp_path: Path, checkpoint: Checkpoint) -> None:
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        read_status(tmp_path / "none")
    (tmp_path / "diary").write_text("dear diary" * 100)
    with pytest.raises(CheckpointError, match="file is not a database"):
        read_status(tmp_path / "diary")
    (tmp_path / "diary.lock").mkdir()
    with pytest.raises(CheckpointError, match="diary failed"):
        read_status(tmp_path / "diary")
