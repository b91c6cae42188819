"""The models that the page offers: asked for at most once a minute, checked before one is used."""

from __future__ import annotations

import pytest

from toolcast.apps.web import model_picker
from toolcast.apps.web.model_picker import FRESH, ModelPicker
from toolcast.errors import NotFound
from toolcast.values.prices import Prices


class Clock:
    """A clock that the test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def test_providers_are_asked_once_a_minute() -> None:
    clock, calls = Clock(), list[float]()

    def others() -> tuple[list[str], dict[str, str]]:
        calls.append(clock.now)
        return ["openai:gpt-4.1", "local:smollm2"], {"ollama": "nothing answers"}

    picker = ModelPicker(["local:smollm2"], list_others=others, clock=clock)
    first = picker.listed()
    assert [row["id"] for row in first["models"]] == ["local:smollm2", "openai:gpt-4.1"]
    assert first["models"][1]["context"] > 100_000
    assert first["errors"] == [{"provider": "ollama", "error": "nothing answers"}]
    clock.now = FRESH
    assert picker.listed() == first
    clock.now = FRESH + 1
    picker.listed()
    assert calls == [0.0, FRESH + 1]


def test_without_providers_there_are_the_names() -> None:
    found = ModelPicker(["bare", "any:model"]).listed()
    assert [(row["provider"], row["label"]) for row in found["models"]] == [("bare", "bare"), ("any", "model")]
    assert found["errors"] == []


def test_prices_are_those_of_a_million_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {("openai", "one"): Prices("2.50", "10")}
    monkeypatch.setattr(model_picker, "listed_prices", lambda *model: known.get(model))
    found = ModelPicker(["openai:one", "local:two"]).listed()
    assert [row["price"] for row in found["models"]] == ["$2.5 / $10 per million", None]


def test_a_model_is_checked_once_a_minute_and_a_failure_again() -> None:
    clock, calls = Clock(), list[str]()

    def check(name: str) -> None:
        calls.append(name)
        if name == "bad":
            raise NotFound("no model 'bad'")

    picker = ModelPicker(check=check, clock=clock)
    assert [picker.problem(name) for name in ("good", "good", "bad", "bad")] == [None, None, *["no model 'bad'"] * 2]
    clock.now = FRESH
    picker.check("good")
    assert calls == ["good", "bad", "bad", "good"]
    with pytest.raises(NotFound):
        picker.check("bad")


def test_without_a_check_every_model_may_be_used() -> None:
    assert ModelPicker().problem("any") is None
