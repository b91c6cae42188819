"""Which channel to its operator an experiment has: what its configuration says."""

from __future__ import annotations

import os
from collections.abc import Mapping

from .config import ExperimentConfig
from .operators import OperatorChannel, TerminalOperator, UnattendedOperator
from .telegram import TelegramOperator


def operator_of(config: ExperimentConfig, environ: Mapping[str, str] = os.environ) -> OperatorChannel:
    """The channel that `config` names: the terminal, Telegram with the terminal behind it, or nobody.

    The bot's token is `TELEGRAM_BOT_TOKEN` of `environ`. Raises `ValueError` where something is missing for Telegram.
    """
    minutes = config.operator_timeout_minutes
    terminal: OperatorChannel | None = None
    if config.operator == "terminal":
        terminal = TerminalOperator(timeout=None if minutes is None or minutes < 0 else minutes * 60)
    if not config.telegram_enabled:
        return terminal or UnattendedOperator()
    return TelegramOperator(
        config.telegram_authorized_users,
        timeout_minutes=config.telegram_timeout_minutes,
        token=environ.get("TELEGRAM_BOT_TOKEN", ""),
        fallback=terminal,
    )
