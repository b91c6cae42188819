"""Tests of a program that uses toolcast: no network, no key, no chance. Run it, or have pytest collect it."""

from pydantic import BaseModel

from toolcast import CallError, Ollama, ToolOrchestratingLLM
from toolcast.testing import ScriptedLLM, use_llm


class Mood(BaseModel):
    """The mood of a text."""

    word: str
    score: int


read_mood = ToolOrchestratingLLM(Mood, "How does this sound? {text}", Ollama("llama3.2"), max_attempts=2)


def describe(text: str) -> str:
    """The program under test."""
    try:
        mood = read_mood(text=text)
    except CallError:
        return "no idea"
    return f"{mood.word} ({mood.score})"


def test_describe() -> None:
    with use_llm(ScriptedLLM(Mood(word="glad", score=8))):
        assert describe("What a day!") == "glad (8)"


def test_a_wrong_answer_is_asked_for_again() -> None:
    fake = ScriptedLLM({"word": "glad", "score": "high"}, {"word": "glad", "score": 8})
    with use_llm(fake):
        assert describe("What a day!") == "glad (8)"
    assert len(fake.requests) == 2


def test_no_answer() -> None:
    with use_llm(ScriptedLLM("Hm.", "Hm.")):
        assert describe("What a day!") == "no idea"


if __name__ == "__main__":
    for test in (test_describe, test_a_wrong_answer_is_asked_for_again, test_no_answer):
        test()
        print(test.__name__, "passed")
