"""Types with `hide_input_in_errors`, and secrets: their input from a model appears in no error and no retry."""

from __future__ import annotations

import json
import logging
import traceback
from dataclasses import dataclass as plain_dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Secret,
    SecretBytes,
    SecretStr,
    create_model,
    field_validator,
)
from pydantic.dataclasses import dataclass
from typing_extensions import TypedDict

from support.chunks import delta, sse
from support.sync_and_async import API
from toolcast import CallError, Engine, OpenAI, Session, ToolOrchestratingLLM, TryAgain, ValidationError
from toolcast.errors import NoToolCallError
from toolcast.events import Finish, TextDelta, ThinkingDelta, ToolCallDone, ToolCallStart
from toolcast.messages import ToolCallPart
from toolcast.parsing.core_schemas import hides_input
from toolcast.parsing.partial_value import PartialValue, plan_for
from toolcast.stores.memory_store import MemoryStore
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.tools.output_schema import output_schema

HALVES = ("hunter", "2-cAnArY")
WORD = "".join(HALVES)


class Login(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True)
    password: str = Field(min_length=40)


class Account(BaseModel):
    login: Login
    name: str = ""


class Vault(BaseModel):
    key: SecretStr = Field(min_length=40)


class Bytes(BaseModel):
    key: SecretBytes = Field(min_length=40)


class Number(BaseModel):
    key: Secret[int]


class Custom(BaseModel):
    key: SecretStr

    @field_validator("key")
    @classmethod
    def too_short(cls, value: SecretStr) -> SecretStr:
        raise ValueError("too short")


@dataclass(config=ConfigDict(hide_input_in_errors=True))
class Record:
    password: str = Field(min_length=40)


class Typed(TypedDict):
    login: Login


class Node(BaseModel):
    key: SecretStr | None = None
    children: list[Node] = []


class Strict(BaseModel):
    model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")
    plain: int = 0


class Keyed(BaseModel):
    logins: dict[str, Login] = {}
    ages: dict[int, int | list[int]] = {}


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    key: SecretStr


class Pet(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Settings(BaseModel):
    """Its fields have the names that the parts of a schema have."""

    config: Login
    type: str = ""


OUTPUTS: list[tuple[Any, Any]] = [
    (Strict, {"plain": 1, WORD: 2}),
    (Strict, {WORD: 2}),
    (Keyed, {"logins": {WORD: {"password": "x"}}}),
    (Keyed, {"logins": {"x": {"password": "x" * 40}, "y": {WORD: 1}}}),
    (Pet, {"pet": {"kind": WORD}}),
    (Settings, {"config": {"password": WORD}}),
    (Login, {"password": WORD}),
    (Account, {"login": {"password": WORD}}),
    (Account, {"name": WORD}),
    (Vault, {"key": WORD}),
    (Bytes, {"key": WORD}),
    (Number, {"key": WORD}),
    (Custom, {"key": WORD}),
    (Record, {"password": WORD}),
    (Typed, {"login": {"password": WORD}}),
    (Node, {"children": [{"children": WORD}]}),
    (list[Login], {"value": [{"password": WORD}]}),
    (Login | None, {"value": {"password": WORD}}),
]


def everything(error: BaseException) -> str:
    """What `error` and all that led to it show, also where a traceback leaves it out."""
    texts = traceback.format_exception(error)
    link: BaseException | None = error
    while link is not None:
        texts += [str(link), repr(link)]
        link = link.__cause__ or link.__context__
    return "".join(texts)


@pytest.mark.fault(75)
@pytest.mark.parametrize(("output", "wrong"), OUTPUTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_in_errors(output: Any, wrong: Any, streamed: bool, api: API, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    make = ToolOrchestratingLLM(output, "x", ScriptedLLM(wrong))
    if streamed:
        error = api.stream(make).error
    else:
        with pytest.raises(ValidationError) as caught:
            api.call(make)
        error = caught.value
    assert isinstance(error, ValidationError)
    assert error.error_count() == 1
    assert WORD not in everything(error) + caplog.text


@pytest.mark.fault(75)
def test_the_input_shows_where_no_type_hides_it(api: API) -> None:
    class Open(BaseModel):
        password: str = Field(min_length=40)

    with pytest.raises(ValidationError) as caught:
        api.call(ToolOrchestratingLLM(Open, "x", ScriptedLLM({"password": WORD})))
    assert f"got {WORD!r}" in str(caught.value)
    assert not hides_input(output_schema(Open).adapter.core_schema)


@pytest.mark.fault(75)
@pytest.mark.parametrize("answer", ["words with {word}", '{{"password": "{word}"}}', '[{{"password": "{word}"'])
def test_in_an_answer_without_a_call(answer: str, api: API) -> None:
    llm = ScriptedLLM(*[answer.format(word=WORD)] * 2)
    with pytest.raises(NoToolCallError, match="The model wrote: \\(hidden") as caught:
        api.call(ToolOrchestratingLLM(Login, "x", llm, max_attempts=2))
    assert WORD not in everything(caught.value)
    assert WORD not in str(llm.requests[1].messages)


@pytest.mark.fault(75)
@pytest.mark.parametrize(("output", "wrong"), OUTPUTS)
def test_when_asking_again(output: Any, wrong: Any, api: API) -> None:
    llm = ScriptedLLM(wrong, wrong)
    with pytest.raises(ValidationError):
        api.call(ToolOrchestratingLLM(output, "x", llm, max_attempts=2))
    again = llm.requests[1].messages
    assert WORD not in str(again)
    assert [len(message.tool_calls) for message in again] == [0, 1, 0]
    assert "The arguments were not valid" in str(again[-1])


def test_when_asking_again_after_a_validator_that_wants_another_try(api: API) -> None:
    class Picky(BaseModel):
        key: SecretStr

        @field_validator("key")
        @classmethod
        def another(cls, value: SecretStr) -> SecretStr:
            raise TryAgain("another one, please")

    llm = ScriptedLLM({"key": WORD}, {"key": WORD})
    with pytest.raises(CallError):
        api.call(ToolOrchestratingLLM(Picky, "x", llm, max_attempts=2))
    assert WORD not in str(llm.requests[1].messages)


def test_thoughts_that_a_service_wants_back_stay_when_asking_again(api: API) -> None:
    answer = [
        ThinkingDelta(f"It is {WORD}.", signature="signed"),
        ToolCallStart("c1", "Login"),
        ToolCallDone("c1", "Login", json.dumps({"password": WORD})),
        Finish("tool_use"),
    ]
    llm = ScriptedLLM([ThinkingDelta("no signature"), *answer[1:]], answer, {"password": "x" * 40})
    assert api.call(ToolOrchestratingLLM(Login, "x", llm, max_attempts=3)) == Login(password="x" * 40)
    kinds = [[part.type for part in message.parts] for message in llm.requests[2].messages]
    assert kinds == [["text"], ["tool_call"], ["tool_result"], ["thinking", "tool_call"], ["tool_result"]]
    assert llm.requests[2].messages[3].tool_calls[0].arguments == "{}"


def test_in_an_answer_that_a_filter_stopped(api: API) -> None:
    answer = [TextDelta(f"The password is {WORD}"), Finish("content_filter")]
    with pytest.raises(CallError, match=r"its text was: \(hidden") as caught:
        api.call(ToolOrchestratingLLM(Login, "x", ScriptedLLM(answer)))
    assert WORD not in everything(caught.value)


def test_a_typed_result_in_words_that_fits_is_kept() -> None:
    engine = Engine(ScriptedLLM(json.dumps({"password": WORD * 4})))
    assert engine.submit("go", output_cls=Login).output == Login(password=WORD * 4)
    assert WORD in str(engine.history)


def called(name: str, arguments: Any) -> ToolCallPart:
    return ToolCallPart("c1", name, json.dumps(arguments))


def store(login: Login) -> str:
    """Stores a login."""
    return "stored"


@pytest.mark.fault(75)
@pytest.mark.parametrize("wrong", [{"login": {"password": WORD}}, {"password": WORD}])
def test_in_a_session_and_its_store(wrong: Any) -> None:
    kept = MemoryStore()
    llm = ScriptedLLM(called("store", wrong), "done")
    session = Session(Engine(llm, [store]), store=kept)
    assert session.run("go").text == "done"
    result = session.engine.history[-2]
    assert "the arguments for store do not fit" in str(result)
    assert WORD not in str(session.engine.history)
    assert WORD not in str([kept.read(name) for name in kept.ids()])


def test_what_fits_is_kept() -> None:
    llm = ScriptedLLM(called("store", {"login": {"password": WORD * 4}}), "done")
    engine = Engine(llm, [store])
    assert engine.submit("go").text == "done"
    assert WORD in str(engine.history)


@pytest.mark.parametrize("wrong", [called("Login", {"password": WORD}), json.dumps({"password": WORD})])
def test_in_the_typed_result_of_an_agent(wrong: Any) -> None:
    llm = ScriptedLLM(wrong, {"password": "x" * 40})
    engine = Engine(llm)
    assert engine.submit("go", output_cls=Login).output == Login(password="x" * 40)
    assert WORD not in str(engine.history)
    assert WORD not in str(llm.requests[1].messages)


def test_in_a_damaged_event(api: API, caplog: pytest.LogCaptureFixture) -> None:
    damaged = f'data: {{"choices": [{{"delta": {{"content": "{WORD}\n\n'.encode()
    network = ReplayNetwork(Recorded([damaged, sse(delta(content="x"), delta("stop"))]))
    llm = OpenAI("m", api_key="k", network=network)
    seen = api.stream(ToolOrchestratingLLM(Login, "x", llm))
    assert seen.error is not None
    assert WORD not in everything(seen.error) + caplog.text
    assert "skipped (hidden)" in caplog.text


def test_in_a_value_that_grows() -> None:
    growing = PartialValue(plan_for(Account))
    with pytest.raises(ValueError, match=r"login\.password") as caught:
        growing.feed(json.dumps({"login": {"password": WORD}, "name": "x"}))
    assert WORD not in str(caught.value)


def test_locations_of_hidden_input_have_the_names_of_the_type() -> None:
    class Many(BaseModel):
        model_config = ConfigDict(hide_input_in_errors=True, extra="forbid")
        number: int | list[int] = Field(default=0, alias="the number")
        names: dict[int, Annotated[str, AfterValidator(lambda value: value)] | None] = {}

    wrong = {"the number": "x", "names": {WORD: "x", "1": 2}, WORD: 1}
    with pytest.raises(ValidationError) as caught:
        ToolOrchestratingLLM(Many, "x", ScriptedLLM(wrong))()
    assert [".".join(map(str, each["loc"])) for each in caught.value.errors()] == [
        "the number.int",
        "the number.list[...]",
        "names.(hidden).[key]",
        "names.(hidden)",
        "(hidden)",
    ]


@pytest.mark.parametrize("name", ["config", "default", "cls", "metadata", "expected", "serialization", "function"])
def test_a_field_may_have_any_name(name: str) -> None:
    made = create_model("Made", **{name: (Login, ...)})  # pyright: ignore - the stubs know no computed names
    assert hides_input(output_schema(made).adapter.core_schema)


def test_types_that_hide_nothing() -> None:
    @plain_dataclass
    class Plain:
        name: str
        more: list[dict[str, int]] | None = None

    assert not hides_input(output_schema(Plain).adapter.core_schema)
