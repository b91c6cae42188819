"""Sessions with every provider: one program, in which nothing changes but the name of its LLM.

Five protocols are llmock's and one is aimock's, which send the queued answers; three are llama.cpp's server's, with
a small model behind them; and `LlamaCpp` has that model inside the program. Where the answers are the same, so must be
the screens.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from servers.aimock_server import Aimock
from servers.cutting import cut
from servers.llama_server import LlamaServer
from support.albums import SHORT
from user.session import KEY, OPENING, Screen, begin, environment, finish, play, press_ctrl_c

if TYPE_CHECKING:
    from llmock.pytest_plugin import LLMock

pytestmark = pytest.mark.networked

INGRID = {"name": "Ingrid Dahl", "age": 51, "city": "Oslo"}
SEEN = "name='Ingrid Dahl' age=51 city='Oslo'"
SIGINT_DEATH = -2

# By what llmock or llama.cpp's server is called here: the start of the line that makes the LLM, and where it leads.
MOCKED = {
    "chat": ('OpenAI("gpt-4o"', "openai"),
    "responses": ('OpenAIResponses("gpt-4o"', "openai"),
    "anthropic": ('Anthropic("claude-sonnet-4-6"', "anthropic"),
    "google": ('Google("gemini-2.5-pro"', "gemini"),
    "mistral": ('Mistral("mistral-large-latest"', "mistral"),
}
REAL = {
    "llama-chat": ('OpenAICompatible("smollm2", service="llama.cpp"', "/v1"),
    "llama-responses": ('OpenAIResponses("smollm2", service="llama.cpp"', "/v1"),
    "llama-messages": ('Anthropic("smollm2"', ""),
}
KEY_NAMES = {
    "chat": "OPENAI_API_KEY",
    "responses": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "llama-chat": "LLAMA_API_KEY",
    "llama-responses": "LLAMA_API_KEY",
    "llama-messages": "ANTHROPIC_API_KEY",
}


def with_llm(made: str) -> str:
    """The beginning of every session, with another LLM."""
    name = made.partition("(")[0]
    return OPENING.replace("import OpenAI,", f"import {name},").replace('OpenAI("m-1"', made)


@dataclass(frozen=True)
class Provider:
    """What a session begins with, and the address that it leads to."""

    name: str
    opening: str
    url: str

    def play(self, script: str) -> Screen:
        return play(script, self.url, opening=self.opening)

    def changed(self, old: str, new: str) -> Provider:
        """The same with another line somewhere."""
        assert old in self.opening
        return Provider(self.name, self.opening.replace(old, new), self.url)


@pytest.fixture(params=MOCKED)
def mocked(request: pytest.FixtureRequest, llmock: LLMock) -> Provider:
    """Each protocol of llmock in turn."""
    made, served = MOCKED[request.param]
    return Provider(request.param, with_llm(made), llmock.base_url(served))


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest, llama: LlamaServer) -> Provider:
    """Each protocol of llama.cpp's server in turn."""
    made, root = REAL[request.param]
    exact = 'settings=Settings(temperature=0, max_tokens=60, extra={"cache_prompt": False}), max_retries'
    opening = with_llm(made).replace(KEY, llama.key).replace("max_retries", exact)
    return Provider(request.param, opening, llama.url + root)


def sent(llmock: LLMock) -> str:
    """The body of the last request."""
    return json.dumps(llmock.last_request.body)


# -- objects ------------------------------------------------------------------------------------------------------

PEOPLE = """
import asyncio
from toolcast import is_partial

class Person(BaseModel):
    '''A person who is mentioned in a text.'''
    name: str
    age: int
    city: str

tom = Person(name="Tom Reed", age=34, city="Lima")
prompt = [("user", "In Lima our guest was Tom Reed (34)."), ("assistant", tom), ("user", "{text}")]
find = ToolOrchestratingLLM(Person, prompt, llm)
met = "Last week in Oslo we met Ingrid Dahl (51)."

print(find(text=met))
*growing, last = find(text=met, stream=True)
print(last, all(is_partial(person) for person in growing))
print(asyncio.run(find.acall(text=met)))
async def streamed():
    async with find.astream(text=met) as people:
        return [person async for person in people][-1]
print(asyncio.run(streamed()))
"""
FOUND = [SEEN, f"{SEEN} True", SEEN, SEEN]
IN_WORDS = PEOPLE.replace("prompt, llm)", 'prompt, llm, mode="prompted")')


def test_objects(mocked: Provider, llmock: LLMock) -> None:
    llmock.call_tool("Person", INGRID, times=None)
    assert mocked.play(PEOPLE).went_well() == FOUND
    assert len(llmock.requests) == 4


def test_objects_of_the_model_inside_the_program(smollm2: Path) -> None:
    """The same program, the same screen, and no server."""
    made = f"""LlamaCpp({str(smollm2)!r}, server=ServerOptions(threads=1), settings=Settings(
        temperature=0, max_tokens=120, extra={{"cache_prompt": False}}))"""
    line = next(line for line in OPENING.splitlines() if line.startswith("llm = "))
    opening = with_llm("LlamaCpp(").replace(line.replace('OpenAI("m-1"', "LlamaCpp("), f"llm = {made}")
    opening = "from toolcast.llms.local.llama_server import ServerOptions\n" + opening
    assert play(PEOPLE, opening=opening).went_well() == FOUND


def test_objects_of_ollama(aimock: Aimock) -> None:
    aimock.reply("we met Ingrid Dahl", json.dumps(INGRID))
    assert play(PEOPLE, aimock.url, opening=with_llm('Ollama("llama3.2"')).went_well() == FOUND


def test_objects_of_bedrock(aimock: Aimock) -> None:
    """Converse and its event stream, as another program writes them."""
    aimock.call("Person", INGRID)
    made = with_llm('Bedrock("us.anthropic.claude-sonnet-4-5-20250929-v1:0"')
    assert play(PEOPLE, aimock.url, opening=made).went_well() == FOUND
    (first, *_) = aimock.requests()
    assert first["path"].startswith("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse")


def test_a_text_only_model(mocked: Provider, llmock: LLMock) -> None:
    """Asked in words; what it writes around the object does not matter."""
    llmock.reply(f"Here is what you asked for:\n```json\n{json.dumps(INGRID)}\n```\nAnything else?", times=None)
    assert mocked.play(IN_WORDS).went_well() == FOUND
    assert "tools" not in llmock.last_request.body
    assert "Tom Reed" in sent(llmock)


def test_a_small_real_model(real: Provider) -> None:
    assert real.play(IN_WORDS).went_well() == FOUND


# -- conversations ------------------------------------------------------------------------------------------------


def test_tools_and_their_results(mocked: Provider, llmock: LLMock) -> None:
    """Three turns: a call, what it gave, and one more question after that."""
    llmock.call_tool("weather", {"city": "Oslo"}).reply("It is cold").reply("Warmer")
    screen = mocked.play(
        """
        from toolcast import tool_result, user
        def weather(city: str) -> str:
            '''The weather in a city.'''
            return f"4C in {city}"
        messages = [user("How is the weather in Oslo?")]
        answer = llm.chat_with_tools([weather], messages)
        (call,) = llm.get_tool_calls_from_response(answer)
        print(call.name, call.arguments.replace(" ", ""), answer.stop_reason)
        messages += [answer.message, tool_result(call.id, weather(city="Oslo"), name=call.name)]
        answer = llm.chat_with_tools([weather], messages)
        print(answer.text, answer.stop_reason)
        messages += [answer.message, user("And tomorrow?")]
        stream = llm.chat_with_tools([weather], messages, stream=True)
        print("".join(event.text for event in stream if hasattr(event, "text")))
        """
    )
    assert screen.went_well() == ['weather {"city":"Oslo"} tool_use', "It is cold end_turn", "Warmer"]
    body = sent(llmock)
    assert body.count("4C in Oslo") == 1
    assert body.index("How is the weather") < body.index("4C in Oslo") < body.index("It is cold")
    assert body.index("It is cold") < body.index("And tomorrow?")


def test_an_image(mocked: Provider, llmock: LLMock) -> None:
    llmock.reply("A dot").call_tool("Album", SHORT.model_dump())
    screen = mocked.play(
        """
        from toolcast import user
        from toolcast.messages import ImagePart
        dot = ImagePart(data=b"not really a picture", media_type="image/png")
        print(llm.chat([user("What is this?", dot)]).text)
        cover = ToolOrchestratingLLM(Album, [user("Whose cover is this?", dot)], llm)
        print(cover().title)
        """
    )
    assert screen.went_well() == ["A dot", "B"]
    assert base64.b64encode(b"not really a picture").decode() in sent(llmock)


# -- keys and models ----------------------------------------------------------------------------------------------


def test_a_wrong_key(mocked: Provider, llmock: LLMock) -> None:
    """The service repeats the key in its error, as some do; `finish` looks for it on every screen."""
    llmock.fail(401, message=f"Incorrect API key provided: {KEY}.")
    words = mocked.play("make_album(topic='the sea')").failed_with("AuthFailed")
    assert "401" in words
    assert KEY_NAMES[mocked.name] in words
    assert len(llmock.requests) == 1


def test_a_wrong_key_for_a_real_server(real: Provider, llama: LlamaServer) -> None:
    words = real.changed(llama.key, KEY).play("make_album(topic='the sea')").failed_with("AuthFailed")
    assert "401" in words
    assert KEY_NAMES[real.name] in words


def command(*arguments: str) -> Screen:
    """The screen of `toolcast ...`."""
    program = Path(sys.executable).with_name("toolcast")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, env=environment())
    return Screen(done.stdout, done.stderr, done.returncode)


def test_which_models_are_known() -> None:
    first, *rows = command("models").went_well()
    assert (first.split()[0], first.split()[-1]) == ("PROVIDER", "MODEL")
    providers = {row.split()[0] for row in rows}
    assert {"openai", "anthropic", "google", "mistral", "ollama", "groq", "llama.cpp", "local"} <= providers
    for provider in ("anthropic", "openrouter"):
        some = json.loads(command("models", provider, "--json").out)
        assert {row["provider"] for row in some} == {provider}


def test_a_provider_no_one_knows() -> None:
    screen = command("models", "olama")
    assert screen.code == 2
    assert "ollama" in screen.last


# -- leaving early, bad connections -------------------------------------------------------------------------------

STORY = """
for event in llm.stream_chat("Tell a long story about the sea.", settings=Settings(max_tokens=3000)):
    print("have", type(event).__name__)
"""


def interrupted(provider: Provider) -> None:
    """Ctrl-C once the story has begun."""
    python = begin(STORY, provider.url, opening=provider.opening)
    press_ctrl_c(python, after="have TextDelta")
    screen = finish(python)
    assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
    assert "toolcast.errors" not in screen.err


def test_ctrl_c_in_a_stream(mocked: Provider, llmock: LLMock) -> None:
    llmock.reply("Once upon a time there was a sea").stall(after_chunks=6, seconds=20)
    interrupted(mocked)
    (request,) = llmock.requests
    assert not request.completed
    assert request.stall_waited is None or request.stall_waited < 20  # None: Ctrl-C came before the sixth chunk


def test_ctrl_c_while_a_real_model_writes(real: Provider, llama: LlamaServer) -> None:
    """The server works at one answer at a time: the next would wait for the story's end."""
    interrupted(real)
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
    headers = {"authorization": f"Bearer {llama.key}"}
    assert httpx.post(f"{llama.base_url}/chat/completions", json=body, headers=headers, timeout=10).is_success


CUT = """
from toolcast import LLMError
from toolcast.events import TextDelta
for _ in range(2):
    messages = []
    try:
        for event in llm.stream_chat("Tell of the sea."):
            messages += [event.text] if isinstance(event, TextDelta) else []
        print("all of it:", "".join(messages))
    except LLMError as error:
        print(type(error).__name__, "after", "".join(messages)[:4])
"""


@pytest.mark.parametrize(("fault", "kind"), [("disconnect", "StreamInterrupted"), ("truncate", "StreamTruncated")])
def test_a_cut_connection(mocked: Provider, llmock: LLMock, fault: str, kind: str) -> None:
    """What came is kept, an error shows that it is not all, and the program goes on."""
    llmock.reply("Once upon a time there was a sea", times=2)
    cutting: Callable[..., Any] = getattr(llmock, fault)
    cutting(after_chunks=6)
    assert mocked.play(CUT).went_well() == [f"{kind} after Once", "all of it: Once upon a time there was a sea"]


def test_a_connection_to_a_real_model_that_is_cut(real: Provider, llama: LlamaServer) -> None:
    with cut(llama.url, after=2500) as url:
        far = Provider(real.name, real.opening, real.url.replace(llama.url, url))
        first, second = far.play(CUT).went_well()
    assert first == second
    assert len(first) > len("StreamInterrupted after ")
    assert first.startswith("StreamInterrupted after ")


# -- several models, and many callers -----------------------------------------------------------------------------


def test_from_a_dead_server_to_a_living_one(mocked: Provider, llmock: LLMock) -> None:
    llmock.call_tool("Album", SHORT.model_dump(), times=2).reply("Hello")
    screen = mocked.play(
        """
        import asyncio
        from toolcast import FallbackLLM, Mistral
        dead = Mistral("m-0", base_url="http://127.0.0.1:9/v1", api_key="sk-x", max_retries=0)
        either = FallbackLLM([dead, llm])
        make = make_album.with_(llm=either)
        first = make.run(topic="the sea")
        print(first.output.title, [type(attempt.error).__name__ for attempt in first.attempts], either.current is llm)
        print(list(make.stream(topic="the sea"))[-1].title)
        print(asyncio.run(either.achat("hello")).text)
        """
    )
    assert screen.went_well() == ["B ['ConnectFailed', 'NoneType'] True", "B", "Hello"]
    assert len(llmock.requests) == 3


def test_two_at_a_time(mocked: Provider, llmock: LLMock) -> None:
    """Ten threads, then ten tasks; the server never has more than two of their requests."""
    llmock.call_tool("Album", SHORT.model_dump(), times=None).delay(0.05, times=None)
    few = mocked.changed("max_retries=0", "max_retries=0, max_concurrency=2")
    screen = few.play(
        """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor
        def last(number):
            return list(make_album(topic=f"sea {number}", stream=True))[-1].title
        with ThreadPoolExecutor(10) as pool:
            print(list(pool.map(last, range(10))))
        async def main():
            found = await asyncio.gather(*(make_album.acall(topic=f"sea {number}") for number in range(10)))
            print([album.title for album in found])
            await llm.aclose()
        asyncio.run(main())
        """
    )
    assert screen.went_well() == [str(["B"] * 10)] * 2
    requests = llmock.requests
    assert len(requests) == 20
    # The next may begin at the last event of an answer, which comes a little before the server has sent it all.
    starts = [request.started_at for request in requests]
    assert max(sum(start <= one < start + 0.04 for start in starts) for one in starts) == 2
