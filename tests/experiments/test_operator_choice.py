"""operator_choice.py: which channel a config names."""

from __future__ import annotations

from typing import Any

import pytest

from toolcast.experiments.config import ExperimentConfig
from toolcast.experiments.operator_choice import operator_of
from toolcast.experiments.operators import TerminalOperator, UnattendedOperator
from toolcast.experiments.telegram import TelegramOperator

TOKEN = "123456:ABC-DEF"


def config_with(**values: Any) -> ExperimentConfig:
    return ExperimentConfig.model_validate(
        {"run_id": "r", "model_name": "local:smollm2", "cycle_count": 1, "model_options": {}, **values}
    )


@pytest.mark.parametrize(("minutes", "seconds"), [(None, None), (0.5, 30.0), (0, 0), (-1, None)])
def test_the_terminal_of_a_config(minutes: float | None, seconds: float | None) -> None:
    operator = operator_of(config_with(operator_timeout_minutes=minutes), {})
    assert isinstance(operator, TerminalOperator)
    assert operator.timeout == seconds


def test_no_operator_of_a_config() -> None:
    assert isinstance(operator_of(config_with(operator="none"), {}), UnattendedOperator)


@pytest.mark.parametrize(("behind", "kind"), [("terminal", TerminalOperator), ("none", type(None))])
def test_telegram_of_a_config(behind: str, kind: type) -> None:
    values: dict[str, Any] = {"telegram_authorized_users": [7, "@ann"], "telegram_timeout_minutes": -1}
    operator = operator_of(config_with(operator=behind, telegram_enabled=True, **values), {"TELEGRAM_BOT_TOKEN": TOKEN})
    assert isinstance(operator, TelegramOperator)
    assert isinstance(operator.fallback, kind)
    assert operator.timeout_minutes == -1


def test_telegram_without_a_token_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_with(telegram_enabled=True, telegram_authorized_users=[7])
    with pytest.raises(ValueError, match="TELEGRAM_BOT_TOKEN is not set"):
        operator_of(config, {})
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    assert isinstance(operator_of(config), TelegramOperator)
