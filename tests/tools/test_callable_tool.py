"""CallableTool: specification, arguments and execution, sync and async."""

from __future__ import annotations

import functools
import itertools
import json
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import anyio
import anyio.lowlevel
import pydantic
import pytest
from pydantic import BaseModel, Field

from toolcast.errors import OutputTypeError, TryAgain, ValidationError
from toolcast.messages import ImagePart, ToolResultPart
from toolcast.tools.callable_tool import (
    CallableTool,
    ToolInvocation,
    ToolOutput,
    as_tool,
    as_tools,
    output_tools,
    tools_of,
)
from toolcast.tools.tool_results import text_of
from toolcast.values.tool_spec import ToolSpec

here: ContextVar[str] = ContextVar("here")


class Song(BaseModel):
    title: str
    seconds: int = 180


class Album(BaseModel):
    """A music album."""

    title: str
    songs: list[Song] = []


class Sea(BaseModel):
    depth: int


@dataclass
class Point:
    """
    A point.
    """

    x: int


def add(a: int, b: int = 0) -> int:
    """Add two numbers.

    Args:
        a: the first
    """
    return a + b


async def add_async(a: int, b: int = 0) -> int:
    await anyio.lowlevel.checkpoint()
    return a + b


def eventually(a: int, b: int = 0) -> Any:
    return add_async(a, b)


class Call(NamedTuple):
    """One tool, called through one API."""

    api: str
    tool: CallableTool

    async def __call__(self, arguments: Any, **options: Any) -> ToolOutput:
        if self.api == "sync":
            return self.tool.call(arguments, **options)
        return await self.tool.acall(arguments, **options)


@pytest.fixture(params=["sync", "async"])
def through(request: pytest.FixtureRequest) -> Callable[[Any], Call]:
    """Makes a tool that is called through either API, here inside a running loop."""
    return lambda value: Call(request.param, as_tool(value))


# What a model is shown


def test_from_model() -> None:
    tool = CallableTool.from_model(Album)
    assert tool.spec == ToolSpec("Album", "A music album.", tool.parameters)
    assert list(tool.parameters["properties"]) == ["title", "songs"]
    assert (tool.output_type, tool.wrapped) == (Album, False)
    assert CallableTool.from_model(Song).description == "Create an instance of Song."
    assert CallableTool.from_model(Point).description == "A point."
    named = CallableTool.from_model(Album, "make", "Make it.")
    assert (named.name, named.description) == ("make", "Make it.")


def test_from_type() -> None:
    tool = CallableTool.from_type(list[Song])
    assert (tool.name, tool.wrapped, tool.output_type) == ("list_Song", True, list[Song])
    assert tool.description == "Create an instance of list_Song."


def test_from_function() -> None:
    tool = CallableTool.from_function(add)
    assert (tool.name, tool.description) == ("add", "Add two numbers.")
    assert tool.parameters["properties"]["a"] == {"type": "integer", "description": "the first"}
    assert (tool.output_type, tool.wrapped) == (None, False)
    assert CallableTool.from_function(lambda: 0).spec.description == "Call lambda."
    named = CallableTool.from_function(add, name="files.add", description="Sum.")
    assert (named.name, named.description) == ("files.add", "Sum.")
    not_a_function: Any = 5
    with pytest.raises(OutputTypeError, match="5 cannot be called"):
        CallableTool.from_function(not_a_function)


def test_a_tool_shows_what_it_is() -> None:
    assert repr(CallableTool.from_function(add)) == (
        "CallableTool(name='add', description='Add two numbers.', output_type=None, wrapped=False)"
    )


# Calling


@pytest.mark.parametrize(
    "function",
    [
        add,
        add_async,
        eventually,
        functools.partial(add, b=2),
        functools.partial(add_async, b=2),
        lambda a, b: add(a, b),
    ],
)
async def test_every_function_works_from_both_apis(function: Any, through: Callable[[Any], Call]) -> None:
    given = '{"a": 40}' if isinstance(function, functools.partial) else '{"a": 40, "b": 2}'
    call = through(function)
    for arguments in (given, json.loads(given)):
        output = await call(arguments)
        assert output == ToolOutput("42", call.tool.name, arguments, 42)


def test_an_async_function_without_a_loop() -> None:
    assert as_tool(add_async).call('{"a": "1"}').raw_output == 1


async def test_arguments_are_coerced_and_repairs_listed(through: Callable[[Any], Call]) -> None:
    def take(code: str, count: int, songs: list[Song]) -> Any:
        return code, count, songs

    output = await through(take)('{"code": "00123", "count": "5", "songs": "[{\\"title\\": \\"Sea\\"}]"}')
    assert output.raw_output == ("00123", 5, [Song(title="Sea")])
    assert output.repairs == ("decoded the JSON text in `songs`",)


@pytest.mark.parametrize(
    ("type_form", "arguments", "value"),
    [
        (
            Album,
            {"title": "Sea", "songs": [{"title": "Wave", "seconds": 180}]},
            Album(title="Sea", songs=[Song(title="Wave")]),
        ),
        (Point, {"x": 1}, Point(1)),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (int, {"value": 5}, 5),
        (Album | None, {"value": None}, None),
        (Literal["a", "b"], {"value": "b"}, "b"),
        (str, {"value": "x"}, "x"),
        (dict[str, int], {"a": 1}, {"a": 1}),
    ],
)
async def test_output_types(type_form: Any, arguments: Any, value: Any, through: Callable[[Any], Call]) -> None:
    call = through(type_form)
    output = await call(arguments)
    assert (output.raw_output, type(output.raw_output)) == (value, type(value))
    assert json.loads(call.tool.arguments_for(value) or "") == arguments


@pytest.mark.parametrize("nothing", ["", " \n", "null", "{}", {}])
async def test_no_arguments(nothing: Any, through: Callable[[Any], Call]) -> None:
    assert (await through(lambda: "done")(nothing)).content == "done"


async def test_validation_context(through: Callable[[Any], Call]) -> None:
    def check(value: int, info: pydantic.ValidationInfo) -> int:
        return value + info.context

    def take(x: Annotated[int, pydantic.AfterValidator(check)]) -> int:
        return x

    assert (await through(take)('{"x": 1}', context=2)).raw_output == 3


async def test_context_variables_are_seen(through: Callable[[Any], Call]) -> None:
    async def look() -> str:
        return here.get()

    here.set("there")
    assert (await through(look)({})).raw_output == "there"
    assert (await through(lambda: here.get())({})).raw_output == "there"


@pytest.mark.fault(115)
async def test_a_sync_function_does_not_block_the_loop() -> None:
    tool = as_tool(lambda: threading.get_ident())
    assert (await tool.acall("{}")).raw_output != threading.get_ident()
    assert tool.call("{}").raw_output == threading.get_ident()


# Failing


class Boom(Exception):
    pass


def boom(ran: list[int], error: BaseException) -> tuple[Any, Any]:
    def fails() -> None:
        ran.append(1)
        raise error

    async def fails_async() -> None:
        fails()

    return fails, fails_async


@pytest.mark.parametrize("which", [0, 1])
async def test_a_tool_that_raises_ran_once_and_is_named(which: int, through: Callable[[Any], Call]) -> None:
    ran: list[int] = []
    error = Boom("no")
    function = boom(ran, error)[which]
    for _ in range(2):
        with pytest.raises(Boom) as caught:
            await through(function)("{}")
        assert caught.value is error
    assert ran == [1, 1]
    assert error.__notes__ == [f"raised by the tool {function.__name__!r}"]


async def test_what_is_no_exception_passes_as_it_is(through: Callable[[Any], Call]) -> None:
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        await through(boom([], error)[0])("{}")
    assert not hasattr(error, "__notes__")


async def test_arguments_that_do_not_fit(through: Callable[[Any], Call]) -> None:
    ran: list[int] = []

    def take(songs: list[Song]) -> None:
        ran.append(1)

    text = json.dumps({"songs": [{"title": "x" * 200, "seconds": "x" * 200}, {}]})
    with pytest.raises(ValidationError) as caught:
        await through(take)(text)
    error = caught.value
    assert ran == []
    assert (error.tool_name, error.arguments, error.error_count()) == ("take", text, 2)
    assert [fault["loc"] for fault in error.errors()] == [("songs", 0, "seconds"), ("songs", 1, "title")]
    assert isinstance(error.__cause__, pydantic.ValidationError)
    words = str(error)
    assert words.startswith("the arguments for take do not fit, 2 errors: songs.0.seconds: Input should be")
    assert "songs.1.title: Field required, got {}" in words
    assert "max_attempts" not in words
    assert "x" * 78 + "…" in words
    assert "x" * 80 not in words


@pytest.mark.fault(75)
def test_many_faults_are_counted_and_some_are_shown() -> None:
    with pytest.raises(ValidationError, match=r"8 errors: .*value 4|and 3 more") as caught:
        as_tool(list[int]).read({"value": ["x"] * 8})
    assert str(caught.value).count("unable to parse") == 5


def test_a_single_fault() -> None:
    with pytest.raises(ValidationError, match="1 error: arguments: Field required"):
        as_tool(int).read("")


@pytest.mark.parametrize("text", ['{"x": 1', "[1]", '{"x": NaN}', '{"x": 1e999}'])
def test_what_is_no_strict_json_does_not_fit(text: str) -> None:
    with pytest.raises(ValidationError):
        as_tool(lambda x: x).read(text)


def test_try_again_comes_through() -> None:
    def refuse(value: int) -> int:
        raise TryAgain("no")

    with pytest.raises(TryAgain, match="no"):
        as_tool(Annotated[int, pydantic.AfterValidator(refuse)]).read({"value": 1})


# Few-shot


def test_arguments_for_what_does_not_fit() -> None:
    assert as_tool(Album).arguments_for(Song(title="x")) is None
    assert as_tool(list[int]).arguments_for(["x"]) is None
    assert as_tool(add).arguments_for({"c": 1}) is None


def test_arguments_for_a_function() -> None:
    assert as_tool(add).arguments_for({"a": 1}) == '{"a":1}'


# Output


class Cyclic:
    def __init__(self) -> None:
        self.me = self


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("words", "words"),
        (5, "5"),
        (None, "null"),
        (Song(title="Sea"), '{"title":"Sea","seconds":180}'),
        ([Song(title="Sea"), Point(1)], '[{"title":"Sea","seconds":180},{"x":1}]'),
        (b"\xff", '"_w=="'),
        (Cyclic, json.dumps(str(Cyclic))),
    ],
)
def test_text_of(result: Any, text: str) -> None:
    assert text_of(result) == text


def test_text_of_what_holds_itself() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert text_of(ring) == "[[...]]"


def test_an_output_answers_its_call() -> None:
    output = ToolOutput("no", "f", is_error=True, call_id="c")
    assert output.part() == ToolResultPart("c", "no", "f", is_error=True)


# Choosing the tool


def test_as_tool_takes_what_is_one() -> None:
    tool = as_tool(Album)
    assert as_tool(tool) is tool
    assert as_tool(add).name == "add"
    assert as_tool(Literal["a"]).output_type == Literal["a"]

    class Maker:
        def as_tool(self) -> CallableTool:
            return tool

    assert as_tool(Maker()) is tool


@pytest.mark.parametrize("wrong", [5, None, "Album", Song(title="x")])
def test_what_is_no_tool(wrong: object) -> None:
    with pytest.raises(OutputTypeError, match="is no tool"):
        as_tool(wrong)
    with pytest.raises(OutputTypeError, match="cannot be an output type"):
        output_tools(wrong)


def test_tools_need_names_of_their_own() -> None:
    assert [tool.name for tool in as_tools([add, Album])] == ["add", "Album"]
    with pytest.raises(OutputTypeError, match="several tools are named Album, add; give each"):
        as_tools([add, Album, add, Album])


@pytest.mark.parametrize(
    ("output_cls", "names"),
    [
        (Album, ["Album"]),
        (Album | Sea, ["Album", "Sea"]),
        (Album | None, ["Album_or_None"]),
        (list[Song], ["list_Song"]),
        (add, ["add"]),
        (as_tool(add), ["add"]),
    ],
)
def test_output_tools(output_cls: Any, names: list[str]) -> None:
    assert [tool.name for tool in output_tools(output_cls)] == names


def test_union_members_are_not_wrapped() -> None:
    one, two = output_tools(Annotated[Album | Sea, Field(description="either")])
    assert (one.output_type, two.output_type) == (Album, Sea)
    assert not one.wrapped


# A structured call as a tool


class Calls:
    def __call__(self, /, **values: str) -> Album:
        return Album(title=f"sync {values}")

    async def acall(self, /, **values: str) -> Album:
        return Album(title=f"async {values}")


async def test_from_call() -> None:
    tool = CallableTool.from_call(Calls(), ("topic", "class"), None, None, as_tool(Album))
    assert (tool.name, tool.description, tool.output_type) == ("make_Album", "A music album.", None)
    assert tool.parameters == {
        "type": "object",
        "properties": {"topic": {"type": "string"}, "class": {"type": "string"}},
        "required": ["topic", "class"],
        "additionalProperties": False,
    }
    values = {"topic": "sea", "class": "b"}
    assert tool.call(values).raw_output == Album(title=f"sync {values}")
    assert (await tool.acall(values)).raw_output == Album(title=f"async {values}")
    assert json.loads(tool.arguments_for(values) or "") == values
    assert tool.arguments_for({"topic": "sea"}) is None
    named = CallableTool.from_call(Calls(), (), "ask", "Ask.", as_tool(Album))
    assert (named.name, named.description, named.call("").content) == ("ask", "Ask.", '{"title":"sync {}","songs":[]}')


# The methods of an object


class Shelf:
    """Holds songs."""

    songs: tuple[str, ...] = ()
    looked = 0

    def __init__(self) -> None:
        self.called = lambda: 1

    def add(self, title: str) -> int:
        return len(title)

    def everything(self):  # type: ignore[no-untyped-def]  # its docstring has the types
        """All songs."""
        return self.songs

    def untold(self):  # type: ignore[no-untyped-def]  # no word about it
        return None

    @property
    def size(self) -> int:
        raise AssertionError

    @functools.cached_property
    def weight(self) -> int:
        raise AssertionError

    @staticmethod
    def plain(x: int) -> int:
        return x

    @classmethod
    def made(cls, x: int) -> str:
        return f"{cls.__name__} {x}"

    async def slow(self, x: int) -> int:
        return x

    def _own(self, x: int) -> int:
        return x

    class Inner:
        """No method."""


class Big(Shelf):
    def more(self) -> None: ...
    def add(self, title: str) -> int:
        """Add one."""
        return 0

    plain = None  # type: ignore[assignment]  # taken away


def test_tools_of() -> None:
    tools = {tool.name: tool for tool in tools_of(Shelf())}
    assert list(tools) == ["add", "everything", "plain", "made", "slow"]
    assert tools["add"].call({"title": "Sea"}).raw_output == 3
    assert tools["everything"].description == "All songs."
    assert (tools["made"].call({"x": 1}).content, tools["slow"].call({"x": 1}).content) == ("Shelf 1", "1")


def test_tools_of_what_inherits() -> None:
    tools = tools_of(Big())
    assert [tool.name for tool in tools] == ["add", "everything", "made", "slow", "more"]
    assert tools[0].description == "Add one."


def test_tools_of_a_pydantic_model_are_its_own() -> None:
    class Counter(BaseModel):
        count: int = 0

        def step(self, by: int = 1) -> int:
            self.count += by
            return self.count

    counter = Counter()
    (tool,) = tools_of(counter)
    assert (tool.name, tool.call("").content, counter.count) == ("step", "1", 1)


def test_an_object_without_tools() -> None:
    with pytest.raises(OutputTypeError, match="int has no public method with"):
        tools_of(5)
    with pytest.raises(OutputTypeError, match="Shelf is a class; tools_of takes an object"):
        tools_of(Shelf)


# What a tool may return


def test_a_tool_may_say_how_its_result_is_shown() -> None:
    image = ImagePart(url="https://example.com/a.png")

    def fails(x: int) -> ToolOutput:
        return ToolOutput("x" * 20, "", raw_output=x, is_error=True, images=(image,))

    tool = as_tool(fails).with_(output_limit=4)
    output = tool.answer(ToolInvocation('{"x": 1}', tool.read('{"x": 1}'), 100, "c1"))
    assert output.part() == ToolResultPart("c1", "xxxx... [16 characters left out]", "fails", True, (image,))
    assert (output.raw_output, output.raw_input) == (1, '{"x": 1}')


def test_a_tool_may_return_images() -> None:
    image = ImagePart(url="https://example.com/a.png")
    output = as_tool(lambda: ["Look:", image]).call("")
    assert (output.content, output.images, output.raw_output) == ("Look:", (image,), ["Look:", image])


# The arguments by their names


@pytest.mark.parametrize(
    ("kind", "arguments", "named"),
    [
        (add, {"a": 1}, {"a": 1, "b": 0}),
        (int, {"value": 5}, {"value": 5}),
        (Song, {"title": "Sea"}, Song(title="Sea")),
        (CallableTool.from_call(Calls(), ("topic",), None, None, as_tool(Album)), {"topic": "a"}, {"topic": "a"}),
    ],
)
def test_named(kind: Any, arguments: Any, named: Any) -> None:
    tool = as_tool(kind)
    assert tool.named(tool.read(arguments).value) == named


# What gives its items one by one


def counted() -> Any:
    yield from itertools.count()


async def counted_later() -> Any:
    for number in itertools.count():
        await anyio.lowlevel.checkpoint()
        yield number


async def returned_later() -> Any:
    return counted()


async def coroutine_of_items() -> Any:
    return counted_later()


def eventually_items() -> Any:
    return coroutine_of_items()


@pytest.mark.parametrize(
    "function",
    [counted, counted_later, returned_later, coroutine_of_items, eventually_items, itertools.count, lambda: counted()],
)
async def test_of_what_yields_as_much_is_read_as_is_shown(function: Any, through: Callable[[Any], Call]) -> None:
    tool = CallableTool.from_function(lambda: function()).with_(output_limit=10)
    output = await through(tool)("")
    assert output.content == "[0,1,2,3,4... [the rest was left out]"
    assert output.raw_output == list(range(len(output.raw_output)))
    assert len(output.raw_output) < 10


async def test_an_async_generator_function_is_a_tool(through: Callable[[Any], Call]) -> None:
    async def letters(many: int) -> Any:
        for letter in "abc"[:many]:
            yield letter

    output = await through(letters)('{"many": 2}')
    assert (output.content, output.raw_output) == ('["a","b"]', ["a", "b"])


async def test_an_endless_file_is_read_no_further_than_it_is_shown(through: Callable[[Any], Call]) -> None:
    output = await through(as_tool(Path("/dev/zero").open).with_(output_limit=12))("")
    assert output.content == r'["\u0000\u00... [the rest was left out]'


async def test_what_fails_while_it_yields_is_the_failure_of_the_tool(through: Callable[[Any], Call]) -> None:
    def fails() -> Any:
        yield 1
        raise Boom("no")

    async def fails_later() -> Any:
        yield 1
        raise Boom("no")

    for function in (fails, fails_later):
        with pytest.raises(Boom) as caught:
            await through(function)("")
        assert caught.value.__notes__ == [f"raised by the tool {function.__name__!r}"]


async def test_what_a_sync_function_gives_is_read_in_its_own_thread() -> None:
    threads: list[int] = []

    def look() -> Any:
        here = threading.get_ident()

        def read() -> Any:
            yield here == threading.get_ident() != threads[0]

        return read()

    threads.append(threading.get_ident())
    assert (await as_tool(look).acall("")).raw_output == [True]


async def test_what_an_async_function_gives_is_read_out_of_the_loop_if_it_may_be_slow() -> None:
    loop = threading.get_ident()

    async def look(lazy: bool) -> Any:
        found = Named(lambda: str(threading.get_ident() == loop))
        return (found for _ in range(1)) if lazy else [found]

    tool = as_tool(look)
    assert (await tool.acall('{"lazy": true}')).content == '["False"]'
    assert (await tool.acall('{"lazy": false}')).content == '["True"]'


class Named:
    def __init__(self, name: Callable[[], str]) -> None:
        self._name = name

    def __str__(self) -> str:
        return self._name()


def test_a_generator_that_is_run_and_not_answered_is_left_alone() -> None:
    made = as_tool(counted)
    assert next(made.run(made.read("").value)) == 0


# The type of the arguments


def test_the_type_of_the_arguments() -> None:
    assert as_tool(Album).arguments_type is Album
    assert as_tool(list[int]).arguments_type == list[int]
    made = CallableTool.from_call(Calls(), ("topic",), None, None, as_tool(Album))
    assert made.arguments_type == dict[str, Any]
    found = as_tool(add).arguments_type
    assert (found.__annotations__, found.__total__) == ({"a": int, "b": int}, False)
