"""experiment_config.py: the published set-up, and that every value of it can be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.ollama_by_rule import MODEL, OllamaByRule, reply
from toolcast.experiments.config_errors import ConfigError
from toolcast.experiments.experiment_config import PRESETS, ExperimentConfig, config_of, with_preset
from toolcast.experiments.grids.grid import expand
from toolcast.experiments.runner import ExperimentRunner

MINE: dict[str, Any] = {"run_id": "mine", "model_name": "local", "model_options": {}, "operator": "none"}


def test_the_published_set_up() -> None:
    config = config_of(MINE | {"preset": "published"})
    assert (config.cycle_count, config.history, config.opening, config.tool_mode) == (10, "reset", None, "native")
    assert (config.similarity.high, config.similarity.moderate) == (0.8, 0.7)
    assert config.similarity.embedder == "sentence-transformers:all-MiniLM-L6-v2"
    assert ExperimentConfig.model_validate(MINE | {"preset": "published"}) == config


def test_the_configuration_comes_first() -> None:
    given = {"preset": "published", "cycle_count": 3, "similarity": {"embedder": "none"}, "opening": "Go."}
    config = config_of(MINE | given)
    assert (config.cycle_count, config.opening) == (3, "Go.")
    assert (config.similarity.embedder, config.similarity.high) == ("none", 0.8)


@pytest.mark.parametrize("preset", ["publised", 3, ["published"], {}])
def test_an_unknown_preset(preset: Any) -> None:
    with pytest.raises(ConfigError, match="preset must be 'published'"):
        config_of(MINE | {"cycle_count": 1, "preset": preset})


def test_without_a_preset_nothing_changes() -> None:
    assert with_preset(MINE) is MINE
    assert with_preset(MINE | {"preset": None}) == MINE | {"preset": None}


def test_problems_are_reported_as_without_it() -> None:
    with pytest.raises(ConfigError, match="Missing required field in configuration: run_id"):
        config_of({"model_name": "local", "model_options": {}, "preset": "published"})
    with pytest.raises(ConfigError, match="similarity must be a mapping"):
        config_of(MINE | {"preset": "published", "similarity": 3})


def test_a_grid_of_the_preset_is_one_in_each_run() -> None:
    runs = expand(
        config_of(MINE | {"preset": "published", "grid": {"similarity.high": [0.9, 0.95], "cycle_count": [2]}})
    )
    assert [(run.cycle_count, run.opening, run.similarity.high) for run in runs] == [(2, None, 0.9), (2, None, 0.95)]


def test_the_first_request_has_the_system_message_alone(tmp_path: Path) -> None:
    folders = {"log_folder": tmp_path / "logs", "data_folder": tmp_path / "data", "similarity": {"embedder": "words"}}
    with OllamaByRule(lambda messages: reply("I saw the sea.")) as server:
        model = {"model_name": MODEL, "ollama_client_config": {"host": server.host}}
        runner = ExperimentRunner(config_of(MINE | folders | model | {"preset": "published", "cycle_count": 2}))
        assert [message.role for message in runner.prompt()] == ["system"]
        runner.run()
    assert [[message["role"] for message in request["messages"]] for request in server.requests] == [["system"]] * 2
    assert "**Cycle 1**: I saw the sea." in server.requests[1]["messages"][0]["content"]


def test_values_of_a_preset_are_keys_of_the_configuration() -> None:
    for preset in PRESETS.values():
        assert set(preset) <= set(ExperimentConfig.model_fields)
