"""Days of an application that binds a user interface of its own to a chat machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chunks import USAGE, delta, sse
from support.loopback import CLOSE, HOLD, Loopback
from user.session import KEY, answered, begin, finish, play, press_ctrl_c, spoken
from user.test_agent_days import OSLO, ROME, calls, given, reply, sent

OPENING = f"""\
import asyncio, json, sys
from toolcast import Agent, OpenAI, Permissions
from toolcast.chat import AsyncChatMachine, ChatMachine

def model(name="m-1"):
    return OpenAI(name.rpartition(":")[2], base_url=sys.argv[1], api_key="{KEY}", max_retries=0)

def look(city: str) -> str:
    '''Look at a city.'''
    print("looking at", city)
    return city + " is fine."

def leave() -> str:
    '''Leave.'''
    raise SystemExit(3)

agent = Agent(model(), [look, leave], permissions=Permissions())
PATIENCE = 20

def send_message(chat, text):
    chat.dispatch({{"type": "QUEUE_MESSAGE", "message": text}})
"""


def test_a_good_day() -> None:
    """One call allowed, one forbidden; a message that waits meanwhile is answered in the end."""
    with Loopback() as server:
        calls(server, OSLO, ROME)
        reply(server, "Oslo is fine.")
        reply(server, "You are welcome.")
        screen = play(
            """
            with ChatMachine(agent) as chat:
                send_message(chat, "How are Oslo and Rome?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("waiting_for_tool_approval", timeout=PATIENCE)
                oslo, rome = chat.context.pending
                send_message(chat, "Thank you.")
                chat.dispatch({"type": "REJECT_TOOL_CALL", "call_id": rome.call_id, "reason": "too far"})
                chat.dispatch({"type": "APPROVE_TOOL_CALL", "call_id": oslo.call_id, "fingerprint": oslo.fingerprint})
                chat.run_until("ready", timeout=PATIENCE)
                print([message.text for message in chat.context.messages if message.role == "assistant"])
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["looking at Oslo", "['', 'Oslo is fine.', 'You are welcome.']"]
        fine, denied = given(server)
        assert (fine, "too far" in denied) == ("Oslo is fine.", True)
        assert sent(server)["messages"][-1] == {"role": "user", "content": "Thank you."}


def test_what_a_page_is_sent_makes_the_same_chat() -> None:
    """The changes alone, applied in order, give the same as a snapshot."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo is fine.")
        screen = play(
            """
            page, shown = {}, []
            with ChatMachine(agent) as chat:
                page = chat.snapshot()["context"]
                def send(change):
                    plain = json.loads(json.dumps(change.to_dict()))
                    for name, value in plain["changes"].items():
                        if name == "messages":
                            page[name][value["from"]:] = next(v for k, v in value.items() if k != "from")
                        else:
                            page[name] = value
                chat.subscribe(send)
                send_message(chat, "How is Oslo?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("waiting_for_tool_approval", timeout=PATIENCE)
                chat.dispatch({"type": "APPROVE_TOOL_CALL", "for_session": True})
                chat.run_until("ready", timeout=PATIENCE)
                whole = json.loads(json.dumps(chat.snapshot()["context"]))
                print(page["messages"] == whole["messages"], len(whole["messages"]))
                print([name for name in whole if page.get(name) != whole[name]])
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["looking at Oslo", "True 4", "[]"]


def test_an_interruption_closes_the_line_and_the_next_message_is_answered() -> None:
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        reply(server, "Fine.")
        screen = play(
            """
            with ChatMachine(agent) as chat:
                def stop(change):
                    if change.event.type == "STREAM_CHUNK":
                        chat.dispatch("INTERRUPT")
                end = chat.subscribe(stop)
                send_message(chat, "How is Oslo?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("ready", timeout=PATIENCE)
                end()
                print([message.text for message in chat.context.messages[1:]])
                send_message(chat, "Well?")
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.messages[-1].text)
            """,
            server,
            opening=OPENING,
        )
        received, answer = screen.went_well()
        assert received.startswith("['Oslo")
        assert answer == "Fine."
        server.wait_open(0)


def test_a_wrong_key_a_cut_line_and_again() -> None:
    """Errors are reported with their stage, without the key; RETRY_GENERATION asks the same once more."""
    with Loopback() as server:
        server.answer(answered(f'{{"error": {{"message": "Incorrect API key: {KEY}"}}}}'.encode(), 401))
        reply(server, "Oslo is f", CLOSE)
        reply(server, "Oslo is fine.")
        screen = play(
            """
            with ChatMachine(agent) as chat:
                send_message(chat, "How is Oslo?")
                chat.dispatch("LOAD_MODEL")
                for _ in range(2):
                    chat.run_until("ready", timeout=PATIENCE)
                    print(chat.context.last_error.stage, chat.context.last_error.message)
                    chat.dispatch("RETRY_GENERATION")
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.last_error, chat.context.messages[-1].text, len(chat.context.messages))
            """,
            server,
            opening=OPENING,
        )
        wrong, cut, fine = screen.went_well()
        assert wrong.startswith("generation openai m-1: the service refused the key (401)")
        assert cut.startswith("stream ")
        assert fine == "None Oslo is fine. 2"
        assert [sent(server, number)["messages"] for number in (1, 2)] == [sent(server, 0)["messages"]] * 2


def test_a_model_that_is_not_there_and_another() -> None:
    with Loopback() as server:
        reply(server, "Hello.")
        screen = play(
            """
            def make(name):
                if name == "gone":
                    raise ImportError("pip install gone")
                return model(name)
            with ChatMachine(agent, llms=make) as chat:
                send_message(chat, "Hello?")
                chat.dispatch({"type": "LOAD_MODEL", "model_id": "gone"})
                chat.run_until("load_failed", timeout=PATIENCE)
                print(chat.context.last_error.message, len(chat.context.queue))
                chat.dispatch({"type": "LOAD_MODEL", "model_id": "openai:m-2"})
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.messages[-1].text, chat.context.last_error)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["pip install gone 1", "Hello. None"]
        assert sent(server)["model"] == "m-2"


def test_a_tool_that_would_end_the_program() -> None:
    """It ends its own stage. The chat goes on, and so does the program."""
    with Loopback() as server:
        calls(server, ("a", "leave", {}))
        reply(server, "Never mind.")
        screen = play(
            """
            with ChatMachine(agent) as chat:
                send_message(chat, "Leave.")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("waiting_for_tool_approval", timeout=PATIENCE)
                chat.dispatch("APPROVE_TOOL_CALL")
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.last_error.stage, chat.context.last_error.message)
                send_message(chat, "Do not, then.")
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.messages[-1].text)
            """,
            server,
            opening=OPENING,
        )
        assert (screen.lines, screen.code) == (["tool_call SystemExit: 3", "Never mind."], 0)
        (result,) = given(server)
        assert result


def test_a_listener_with_a_fault() -> None:
    """The fault is logged; the chat goes on, and so do the other listeners."""
    with Loopback() as server:
        reply(server, "Hello.")
        screen = play(
            """
            with ChatMachine(agent) as chat:
                received = []
                chat.subscribe(lambda change: 1 / 0)
                chat.subscribe(lambda change: received.append(change.event.type))
                send_message(chat, "Hello?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("ready", timeout=PATIENCE)
                print(received[0], received[-1], chat.context.messages[-1].text)
            """,
            server,
            opening=OPENING,
        )
        assert (screen.lines, screen.code) == (["QUEUE_MESSAGE STREAM_COMPLETE Hello."], 0)
        assert "a listener failed on QUEUE_MESSAGE" in screen.err


def test_the_answer_comes_after_a_restart(tmp_path: Path) -> None:
    file = f"open({str(tmp_path / 'chat.json')!r}, %r)"
    with Loopback() as server:
        calls(server, OSLO)
        evening = play(
            f"""
            with ChatMachine(agent) as chat:
                send_message(chat, "How is Oslo?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("waiting_for_tool_approval", timeout=PATIENCE)
                with {file % "w"} as kept:
                    json.dump(chat.snapshot(), kept)
            """,
            server,
            opening=OPENING,
        )
        assert evening.went_well() == []
        reply(server, "Oslo is fine.")
        morning = play(
            f"""
            with ChatMachine(agent) as chat:
                with {file % "r"} as kept:
                    chat.restore(json.load(kept))
                chat.dispatch({{"type": "APPROVE_TOOL_CALL", "arguments": '{{"city": "Rome"}}'}})
                chat.run_until("ready", timeout=PATIENCE)
                print(chat.context.messages[-1].text)
            """,
            server,
            opening=OPENING,
        )
        assert morning.went_well() == ["looking at Rome", "Oslo is fine."]
        assert KEY not in (tmp_path / "chat.json").read_text()


@pytest.mark.parametrize("ending", ["pass", "chat.close()", "del chat"])
def test_a_program_ends_in_the_middle_of_an_answer(ending: str) -> None:
    """Whether it closes the chat or forgets to, the process ends, and the line is closed."""
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        screen = play(
            f"""
            chat = ChatMachine(agent)
            send_message(chat, "How is Oslo?")
            chat.dispatch("LOAD_MODEL")
            chat.run_until("streaming_response", timeout=PATIENCE)
            print("enough")
            {ending}
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["enough"]
        server.wait_open(0)


def test_ctrl_c_while_the_program_waits() -> None:
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        python = begin(
            """
            with ChatMachine(agent) as chat:
                send_message(chat, "How is Oslo?")
                chat.dispatch("LOAD_MODEL")
                chat.run_until("streaming_response", timeout=PATIENCE)
                print("it speaks")
                chat.run_until("ready", timeout=PATIENCE)
            """,
            server,
            opening=OPENING,
        )
        press_ctrl_c(python, "it speaks")
        screen = finish(python)
        assert screen.last == "KeyboardInterrupt"
        server.wait_open(0)


def test_an_application_with_an_event_loop() -> None:
    """The task that has the chat is cancelled in the middle of an answer, and the line is closed."""
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        screen = play(
            """
            async def one(speaking):
                async with AsyncChatMachine(agent) as chat:
                    send_message(chat, "How is Oslo?")
                    chat.dispatch("LOAD_MODEL")
                    await chat.run_until("streaming_response")
                    speaking.set()
                    await chat.run_until("ready")

            async def main():
                speaking = asyncio.Event()
                task = asyncio.create_task(one(speaking))
                await speaking.wait()
                task.cancel()
                await asyncio.wait([task])
                print(task.cancelled())
            asyncio.run(main())
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["True"]
        server.wait_open(0)


def test_a_thread_that_speaks_to_a_loop() -> None:
    with Loopback() as server:
        server.answer(*spoken(*sse(delta(content="Hello."), delta("stop"), USAGE)))
        screen = play(
            """
            from functools import partial
            async def main():
                async with AsyncChatMachine(agent) as chat:
                    try:
                        await asyncio.to_thread(chat.dispatch, "LOAD_MODEL")
                    except RuntimeError as error:
                        print(error)
                    loop = asyncio.get_running_loop()
                    message = {"type": "QUEUE_MESSAGE", "message": "Hello?"}
                    for event in (message, "LOAD_MODEL"):
                        await asyncio.to_thread(loop.call_soon_threadsafe, chat.dispatch, event)
                    await chat.run_until("ready")
                    print(chat.context.messages[-1].text)
            asyncio.run(main())
            """,
            server,
            opening=OPENING,
        )
        refused, answer = screen.went_well()
        assert "call_soon_threadsafe" in refused
        assert answer == "Hello."
