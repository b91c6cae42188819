"""AutoLLM: any model is answered validly, equal requests equally, and an engine's tools are called once."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple
from zoneinfo import ZoneInfo

import anyio
import anyio.lowlevel
import pydantic
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, create_model, field_validator, model_validator

from support.albums import SEA, Album, Apology, Song
from support.grammar_models import FIELDS
from support.sync_and_async import API
from toolcast import (
    CallableTool,
    Engine,
    OpenAI,
    ToolcastError,
    ToolContext,
    ToolOrchestratingLLM,
    TryAgain,
    system,
    tool_result,
    user,
)
from toolcast.events import ToolResult
from toolcast.testing import AutoLLM, use_llm
from toolcast.testing.string_values import Size
from toolcast.tools.callable_tool import as_tool

SIZES: tuple[Size, ...] = ("minimal", "typical", "maximal")


class Span(BaseModel):
    start: int
    end: int

    @model_validator(mode="after")
    def in_order(self) -> Span:
        if self.end <= self.start:
            raise ValueError("the end is before the start")
        return self


class NewPassword(BaseModel):
    password: str = Field(min_length=8)
    again: str = Field(min_length=8)

    @model_validator(mode="after")
    def equal(self) -> NewPassword:
        if self.password != self.again:
            raise ValueError("they differ")
        return self


class Contact(BaseModel):
    phone: str | None = None
    email: str | None = None

    @model_validator(mode="after")
    def one_of_them(self) -> Contact:
        if self.phone is None and self.email is None:
            raise ValueError("one is needed")
        return self


class Code(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def is_upper(cls, code: str) -> str:
        if not code.isupper():
            raise ValueError("expected upper case")
        return code


@pydantic.dataclasses.dataclass
class Pair:
    left: int
    right: list[str]


class Place(NamedTuple):
    x: int
    y: float = 0


FURTHER: dict[str, Any] = {
    "uuid 1": pydantic.UUID1,
    "uuid 3": pydantic.UUID3,
    "uuid 5": pydantic.UUID5,
    "past date": pydantic.PastDate,
    "future date": pydantic.FutureDate,
    "past time": pydantic.PastDatetime,
    "future time": pydantic.FutureDatetime,
    "aware": pydantic.AwareDatetime,
    "naive": pydantic.NaiveDatetime,
    "late": Annotated[dt.date, Field(gt=dt.date(2030, 1, 1))],
    "long": Annotated[dt.timedelta, Field(gt=dt.timedelta(hours=1))],
    "file": pydantic.FilePath,
    "folder": pydantic.DirectoryPath,
    "path": Path,
    "json": pydantic.Json,
    "json of a list": pydantic.Json[list[int]],
    "secret": pydantic.SecretStr,
    "secret bytes": pydantic.SecretBytes,
    "base64": pydantic.Base64Str,
    "base64 bytes": pydantic.Base64UrlBytes,
    "postgres": pydantic.PostgresDsn,
    "redis": pydantic.RedisDsn,
    "mongo": pydantic.MongoDsn,
    "kafka": pydantic.KafkaDsn,
    "file url": pydantic.FileUrl,
    "socket": pydantic.WebsocketUrl,
    "any address": pydantic.IPvAnyAddress,
    "any network": pydantic.IPvAnyNetwork,
    "any interface": pydantic.IPvAnyInterface,
    "regex": re.Pattern,
    "import": pydantic.ImportString,
    "zone": ZoneInfo,
    "bytes": pydantic.ByteSize,
    "words": frozenset[str],
    "four numbers": Annotated[set[int], Field(min_length=4)],
    "both": Annotated[set[bool], Field(min_length=2)],
    "the only one": Annotated[int, Field(gt=3, lt=5)],
    "money": pydantic.condecimal(max_digits=3, decimal_places=1, gt=5),
    "zip code": Annotated[str, Field(pattern=r"^\d{5}(-\d{4})?$")],
    "padded": pydantic.constr(strip_whitespace=True, to_upper=True, min_length=4),
    "pattern and length": Annotated[str, Field(pattern=r"^(?:a|b){3,}[^x]\w+$", min_length=20)],
    "span": Span,
    "spans": list[Span],
    "password": NewPassword,
    "contact": Contact,
    "code": Code,
    "pair": Pair,
    "place": Place,
    "by pattern": dict[Annotated[str, Field(pattern="^[a-z]{2}$")], int],
    "by day": dict[dt.date, int],
    "by uuid": Annotated[dict[uuid.UUID, int], Field(min_length=2)],
    "union": int | list[str] | dict[str, float],
    "complex": complex,
    "sequence": Sequence[int],
    "deque": deque[int],
    "strict": Annotated[int, pydantic.Strict()],
    "negative": pydantic.NegativeFloat,
    "tenths": Annotated[float, Field(multiple_of=0.1, gt=0.3, lt=1)],
    "deep lists": Annotated[list[list[list[str]]], Field(min_length=3)],
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [*FIELDS, *FURTHER])
def test_every_kind_of_field(kind: str, size: Size) -> None:
    model = create_model("M", field=({**FIELDS, **FURTHER}[kind], ...))
    for seed in range(3):
        made = ToolOrchestratingLLM(model, "x", AutoLLM(seed, size))()
        assert isinstance(made, model)


def test_a_refused_value_below_a_key_that_is_not_shown_is_tried_again() -> None:
    model = create_model("M", secret=(pydantic.SecretStr, ...), links=(dict[str, list[list[pydantic.RedisDsn]]], ...))
    for seed in range(10):
        assert ToolOrchestratingLLM(model, "x", AutoLLM(seed))().links


@pytest.mark.parametrize("kind", [list[Code], dict[str, pydantic.RedisDsn], pydantic.ImportString, ZoneInfo])
def test_outputs_that_are_no_objects(kind: Any) -> None:
    for size in SIZES:
        assert ToolOrchestratingLLM(kind, "x", AutoLLM(size=size))() is not None


fields = st.sampled_from([each for each in (*FIELDS.values(), *FURTHER.values()) if each is not None])
numbers = count()


def models(kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Models with one to four fields of these types, some of them with a default."""
    declared = st.tuples(kinds, st.sampled_from([..., None]))
    return st.lists(declared, min_size=1, max_size=4).map(
        lambda found: create_model(  # type: ignore[call-overload]  # the fields are data
            f"M{next(numbers)}", **{f"f{at}": (kind, default) for at, (kind, default) in enumerate(found)}
        )
    )


types = st.recursive(
    fields,
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]  # a type that was generated
        inner.map(lambda kind: dict[str, kind]),  # type: ignore[valid-type]  # a type that was generated
        inner.map(lambda kind: kind | None if isinstance(kind, type) else list[kind]),  # type: ignore[valid-type]  # a type that was generated
        models(inner),
    ),
    max_leaves=6,
)


@given(models(types), st.integers(0, 1000), st.sampled_from(SIZES))
def test_any_model_is_answered(model: type[BaseModel], seed: int, size: Size) -> None:
    llm = AutoLLM(seed, size)
    made = ToolOrchestratingLLM(model, "x", llm).run()
    assert isinstance(made.output, model)
    assert len(llm.requests) == 1


def test_sizes() -> None:
    class Sized(BaseModel):
        word: str
        number: int
        items: list[str]
        maybe: str | None
        optional: int = 7
        at_most: Annotated[int, Field(le=99)]

    minimal, typical, maximal = (ToolOrchestratingLLM(Sized, "x", AutoLLM(size=size))() for size in SIZES)
    assert minimal == Sized(word="", number=0, items=[], maybe=None, at_most=0)
    assert minimal.model_fields_set == {"word", "number", "items", "maybe", "at_most"}
    assert len(typical.word.split()) == 2 and typical.items and typical.maybe
    assert len(maximal.items) == 3 and len(maximal.word) > 100 and '"' in maximal.word and not maximal.word.isascii()
    assert maximal.at_most == 99
    assert "optional" in maximal.model_fields_set


def test_the_seed_decides_and_the_text_of_the_prompt_does_not(api: API) -> None:
    def make(seed: int, topic: str) -> Album:
        return api.call(ToolOrchestratingLLM(Album, "About {topic}", AutoLLM(seed)), topic=topic)

    assert make(0, "the sea") == make(0, "the 17th of May")
    assert len({make(seed, "the sea").model_dump_json() for seed in range(10)}) == 10


def test_it_is_one_value_of_each_process() -> None:
    """The values are those of any process and machine."""
    assert ToolOrchestratingLLM(Song, "x", AutoLLM(1))() == Song(title="grove north", seconds=99)


@pytest.mark.parametrize("size", SIZES)
def test_streams_and_unions(api: API, size: Size) -> None:
    make: Any = ToolOrchestratingLLM(Album | Apology, "x", OpenAI("m-1", api_key="k"))
    with use_llm(AutoLLM(size=size)):
        assert isinstance(api.stream(make).final, (Album, Apology))


def test_text(api: API) -> None:
    texts = [api.chat(AutoLLM(size=size), "x").text for size in SIZES]
    assert texts == sorted(texts, key=len)
    assert all(texts)
    assert api.chat(AutoLLM(), "x", tools=[Album], tool_choice="none").message.tool_calls == ()


class Shop:
    """Tools that record their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def find(self, name: str) -> str:
        """Find a product."""
        self.calls.append("find")
        return "found"

    def order(self, number: Annotated[int, Field(ge=1, le=9)], note: str = "") -> str:
        """Order a product."""
        assert 1 <= number <= 9
        self.calls.append("order")
        return "ordered"


def test_an_engine_calls_each_tool_once(api: API) -> None:
    shop = Shop()
    engine = Engine(AutoLLM(), [shop.find, shop.order])
    for rounds in range(1, 3):
        turn = api.method(engine, "submit", "I need a lamp.")
        assert turn.text == "This is the answer of an AutoLLM."
        assert shop.calls == ["find", "order"] * rounds
        assert turn.rounds == 3


def test_an_engine_with_a_typed_output(api: API) -> None:
    shop = Shop()
    engine = Engine(AutoLLM(), [shop.find, shop.order])
    assert isinstance(api.method(engine, "submit", "x", output_cls=Album).output, Album)
    assert shop.calls == ["find", "order"]


def test_in_the_last_round_the_output_is_all_that_is_offered(api: API) -> None:
    shop = Shop()
    engine = Engine(AutoLLM(), [shop.find, shop.order], max_rounds=2)
    assert isinstance(api.method(engine, "submit", "x", output_cls=Album).output, Album)
    assert shop.calls == ["find"]


def test_events_of_a_turn() -> None:
    events = list(Engine(AutoLLM(), [Shop().find]).stream("x"))
    assert [event.content for event in events if isinstance(event, ToolResult)] == ["found"]


def test_a_forced_function_is_called_again() -> None:
    llm = AutoLLM()
    first = llm.chat("x", tools=[Shop().find], tool_choice="required").message
    messages = [user("x"), first, *[_result(call) for call in first.tool_calls]]
    assert llm.chat(messages, tools=[Shop().find], tool_choice="required").message.tool_calls
    assert not llm.chat(messages, tools=[Shop().find]).message.tool_calls
    assert llm.chat(messages, tools=[Shop().find], tool_choice="find").message.tool_calls


def _result(call: Any) -> Any:
    return tool_result(call, "found")


class Impossible(BaseModel):
    code: str

    @field_validator("code")
    @classmethod
    def is_signed(cls, code: str) -> str:
        raise ValueError("the signature is wrong")


class Endless(BaseModel):
    next: Endless


def test_what_no_value_is_found_for(api: API) -> None:
    with pytest.raises(ToolcastError) as caught:
        api.call(ToolOrchestratingLLM(Impossible, "x", AutoLLM()))
    assert str(caught.value) == (
        "AutoLLM cannot call the tool 'Impossible': no valid value was found in 80 tries; the last one failed at code: "
        "Value error, the signature is wrong. Answer this request with a function: ScriptedLLM(lambda request: ...)"
    )
    with pytest.raises(ToolcastError, match="failed at value: Input should be greater than 3"):
        api.call(ToolOrchestratingLLM(Annotated[int, Field(gt=3, lt=4)], "x", AutoLLM()))
    with pytest.raises(ToolcastError, match="'Endless': each value contains another one"):
        api.call(ToolOrchestratingLLM(Endless, "x", AutoLLM()))


def test_secrets_stay_out_of_the_error() -> None:
    class Login(BaseModel):
        key: pydantic.SecretStr

        @field_validator("key")
        @classmethod
        def known(cls, key: pydantic.SecretStr) -> pydantic.SecretStr:
            raise ValueError(f"{key.get_secret_value()!r} is unknown")

    with pytest.raises(ToolcastError, match=r"failed at key: it is refused\. Answer"):
        ToolOrchestratingLLM(Login, "x", AutoLLM())()


def test_validators_that_need_a_context(api: API) -> None:
    class Named(BaseModel):
        name: str
        seen: ClassVar[list[Any]] = []

        @field_validator("name")
        @classmethod
        def check(cls, name: str, info: pydantic.ValidationInfo) -> str:
            assert info.context is None or name
            return name if info.context is None else info.context["prefix"] + name

    class Strict(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str, info: pydantic.ValidationInfo) -> str:
            prefix: str = info.context["prefix"]  # type: ignore[index]  # as careless as programs are
            return prefix + name

    for model in (Named, Strict):
        made = api.call(ToolOrchestratingLLM(model, "x", AutoLLM(), validation_context={"prefix": "Dr "}))
        assert made.name.startswith("Dr ")


class Unchecked:
    """The arguments of a tool whose schema is written by hand, as of an MCP server."""

    hides_input = False

    def read(self, text: str, context: Any) -> Any:
        return json.loads(text), ()

    def dump(self, value: Any) -> str:
        raise NotImplementedError


def test_schemas_that_are_written_by_hand() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "all": {
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"$ref": "#/$defs/b"},
                ]
            },
            "both": {"type": ["string", "null"]},
            "kind": {"const": "x"},
            "items": {"items": {"type": "boolean"}, "minItems": 1},
            "named": {"properties": {"a": {"type": "null"}}, "required": ["a", "undeclared"]},
            "open": {"type": "object", "minProperties": 2},
            "few": {
                "type": "object",
                "additionalProperties": {"type": "integer"},
                "maxProperties": 1,
                "minProperties": 1,
            },
            "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2},
        },
        "$defs": {"b": {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}},
    }
    parameters["required"] = list(parameters["properties"])

    tool = replace(as_tool(Song), parameters=parameters, source=Unchecked(), output_type=None)
    for size in SIZES:
        (call,) = AutoLLM(size=size).chat("x", tools=[tool]).message.tool_calls
        made = tool.read(call.arguments).value
        assert set(made["all"]) >= {"a", "b"}
        assert made["kind"] == "x"
        assert all(isinstance(each, bool) for each in made["items"])
        assert made["named"]["a"] is None and made["named"]["undeclared"]
        assert len(made["open"]) >= 2
        assert len(made["few"]) == 1
        assert [type(each) for each in made["pair"]] == [int, str]


def test_options() -> None:
    llm = AutoLLM(3, "minimal", model="m", system_prompt="Be brief.", max_concurrency=1)
    assert (llm.seed, llm.size, llm.metadata.model_name) == (3, "minimal", "m")
    llm.chat("x")
    assert llm.requests[0].messages == (system("Be brief."), user("x"))
    with pytest.raises(ValueError, match="size='small': expected 'minimal', 'typical' or 'maximal'"):
        AutoLLM(size="small")  # type: ignore[arg-type]  # the test
    with pytest.raises(TypeError, match="seed"):
        AutoLLM("1")  # type: ignore[arg-type]  # the test


def test_an_output_that_is_a_function() -> None:
    tool = CallableTool.from_function(Shop().order)
    assert ToolOrchestratingLLM(tool, "x", AutoLLM())() == "ordered"
    assert SEA.title  # the other albums are scripted


# Output validators


class Stock(BaseModel):
    article: str
    number: int
    colours: list[Literal["red", "green", "blue"]]


def few(_: ToolContext[Any], stock: Stock) -> Stock:
    if not 0 < stock.number < 1000:
        raise TryAgain(f"number: {stock.number} is not between 0 and 1000")
    return stock


def even(_: ToolContext[Any], stock: Stock) -> Stock:
    if stock.number % 2:
        raise ValueError("even numbers only")
    return stock


async def red(_: ToolContext[Any], stock: Stock) -> Stock:
    await anyio.lowlevel.checkpoint()
    if "red" not in stock.colours:
        raise TryAgain("red is missing")
    return stock


def owned(context: ToolContext[str], stock: Stock) -> Stock:
    return stock.model_copy(update={"article": f"{context.deps}'s {stock.article}"})


@pytest.mark.parametrize("size", ["typical", "maximal"])
@pytest.mark.parametrize("seed", range(5))
def test_an_answer_is_valid_for_the_output_validators(api: API, seed: int, size: Size) -> None:
    engine = Engine(AutoLLM(seed, size), output_validators=[few, even, red, owned], deps="Ada", max_attempts=1)
    turn = api.method(engine, "submit", "x", output_cls=Stock)
    stock = turn.output
    assert 0 < stock.number < 1000 and stock.number % 2 == 0 and "red" in stock.colours
    assert stock.article.startswith("Ada's ") and stock.article.count("Ada") == 1
    assert turn.rounds == 1


def test_an_error_names_the_output_validator_and_the_value_that_it_refused(api: API) -> None:
    def signed(_: ToolContext[Any], stock: Stock) -> Stock:
        raise TryAgain("the article has no signature")

    engine = Engine(AutoLLM(), output_validators=[few, signed])
    with pytest.raises(ToolcastError) as caught:
        api.method(engine, "submit", "x", output_cls=Stock)
    assert re.search(
        r"failed at article: the output validator '.*signed' refused \{\"article\":\".*: the article has no "
        r"signature\. Answer this request with a function: ScriptedLLM",
        str(caught.value),
    )


def test_a_secret_that_an_output_validator_refuses_stays_out_of_the_error() -> None:
    class Login(BaseModel):
        key: pydantic.SecretStr

    def known(_: ToolContext[Any], login: Login) -> Login:
        raise TryAgain(f"{login.key.get_secret_value()!r} is unknown")

    with pytest.raises(ToolcastError, match=r"failed at the value: it is refused\. Answer"):
        Engine(AutoLLM(), output_validators=known).submit("x", output_cls=Login)


def test_an_output_validator_that_fails_is_called_no_more_often() -> None:
    calls: list[Stock] = []

    def broken(_: ToolContext[Any], stock: Stock) -> Stock:
        calls.append(stock)
        raise LookupError("no table")

    with pytest.raises(LookupError) as caught:
        Engine(AutoLLM(), output_validators=broken).submit("x", output_cls=Stock)
    assert len(calls) == 2  # to try the answer, and for the turn
    assert caught.value.__notes__[0].endswith("broken'") and "output validator" in caught.value.__notes__[0]


def test_output_validators_get_the_validation_context() -> None:
    class Named(BaseModel):
        name: str

        @field_validator("name")
        @classmethod
        def check(cls, name: str, info: pydantic.ValidationInfo) -> str:
            return f"{info.context['prefix']} {name}"  # type: ignore[index]  # as careless as programs are

    def is_doctor(_: ToolContext[Any], named: Named) -> Named:
        if not named.name.startswith("Dr"):
            raise TryAgain("no doctor")
        return named

    engine = Engine(AutoLLM(), output_validators=is_doctor, validation_context={"prefix": "Dr"})
    assert engine.submit("x", output_cls=Named).output.name.startswith("Dr ")


def test_a_pydantic_validator_that_asks_again_is_a_refusal(api: API) -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def is_even(cls, number: int) -> int:
            if number % 2:
                raise TryAgain("even numbers only")
            return number

    for seed in range(5):
        assert api.call(ToolOrchestratingLLM(Even, "x", AutoLLM(seed))).number % 2 == 0
