"""Histories for hypothesis: sound ones, and ones that a cancel, a crash or a service left broken."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from toolcast.messages import (
    ImagePart,
    Message,
    Part,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    user,
)

words = st.sampled_from(["", " ", "yes", "It rains.", "x" * 50])
thoughts = st.builds(ThinkingPart, words, st.sampled_from([None, "signed"]))
texts = st.builds(TextPart, words)
images = st.just(ImagePart(data=b"png", media_type="image/png"))
ids = st.sampled_from(["", "call_1", "call_2", "call_1-2", "c"])
arguments = st.sampled_from(
    ["{}", '{"a": 1}', "", '{"a": "cut o', "[1]", "null", '{"malformed": 1}', '{"malformed":1}']
)
# Of no provider among those that the tests send to: blocks of others stay out of a request.
searches = st.builds(ServerToolPart, st.just("web_search"), ids, st.just({"query": "sea"}), provider=st.just("other"))
calls = st.builds(ToolCallPart, ids, st.just("look"), arguments, st.booleans())
results = st.builds(ToolResultPart, ids, words, st.sampled_from(["look", ""]), st.booleans())


def _messages(role: Any, *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    sample_texts: st.SearchStrategy[tuple[Part, ...]] = st.lists(st.one_of(*parts), max_size=4).map(tuple)
    return st.builds(Message, st.just(role), sample_texts)


broken_messages = st.one_of(
    _messages("system", texts),
    _messages("user", texts, images, results),
    _messages("assistant", texts, thoughts, calls, searches),
    _messages("tool", results),
)

broken = st.lists(broken_messages, max_size=12).map(tuple)
"""Anything that the wires have a place for, in any order."""


@st.composite
def sound(draw: st.DrawFn) -> tuple[Message, ...]:
    """A history as an engine leaves it: system messages, then rounds, perhaps the last of them without its answers."""
    history = [system("Be brief.")] * draw(st.integers(0, 2))
    number = 0
    for _ in range(draw(st.integers(0, 5))):
        history += [user(draw(sample_texts))] * draw(st.integers(1, 2))
        for _ in range(draw(st.integers(0, 4))):
            made = [ToolCallPart(f"call_{number + n}", "look") for n in range(draw(st.integers(1, 3)))]
            number += len(made)
            history.append(assistant(*draw(st.lists(st.builds(TextPart, sample_texts), max_size=1)), *made))
            answers = [ToolResultPart(call.id, draw(words), "look") for call in made]
            joined = draw(st.booleans())
            history += [Message("tool", tuple(answers))] if joined else [Message("tool", (one,)) for one in answers]
            if draw(st.integers(0, 9)) == 0:
                history.append(system("Now in French."))
        if draw(st.booleans()):
            history.append(assistant(draw(sample_texts)))
    return tuple(history)


sample_texts = st.sampled_from(["Hello.", "word " * 20, "word " * 400])
