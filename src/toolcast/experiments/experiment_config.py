"""Configuration of an experiment: one frozen, validated value.

The keys are those of ContReAct's YAML files, and some of toolcast's own whose defaults change nothing. An unknown key,
a value of the wrong type or a run id that is no file name is refused before anything is created. `config_of` reports
all problems at once (config_errors.py); `load_config` reads files (config_files.py).

Presets of the configuration: named values that a configuration begins with, and may replace one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ..errors import UnsupportedLLMError
from .config_errors import (
    NOWHERE,
    ConfigProblem,
    ConfigSource,
    UnknownKey,
    WrongValue,
    error_of,
    missing,
    problem_at,
    problems_of,
)

PresetName: TypeAlias = Literal["published"]

PRESETS: Final[Mapping[PresetName, Mapping[str, Any]]] = {
    "published": {
        "cycle_count": 10,
        "history": "reset",
        "opening": None,
        "tool_mode": "native",
        "similarity": {"embedder": "sentence-transformers:all-MiniLM-L6-v2", "high": 0.8, "moderate": 0.7},
    }
}
"""`published` is the set-up of ContReAct: ten cycles that begin without a message, each with an empty history, and
reflections that are compared by MiniLM. The paper's texts, which are not toolcast's, are no part of it."""


def with_preset(mapping: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `mapping` with the values of its preset, if it names one that exists, for the keys that it lacks."""
    found = PRESETS.get(cast("PresetName", mapping.get("preset"))) if isinstance(mapping.get("preset"), str) else None
    if found is None:
        return mapping
    merged = dict(found) | dict(mapping)
    for key, usual in found.items():
        given: object = mapping.get(key)
        if isinstance(usual, Mapping) and isinstance(given, Mapping):
            merged[key] = {**cast("Mapping[str, Any]", usual), **cast("Mapping[str, Any]", given)}
    return merged


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def _refused(must: str, *key: str) -> PydanticCustomError:
    """Return the error that a value does not satisfy `must`; `key` is its place, if not where it was found."""
    return PydanticCustomError("refused", cast("Any", must), {"key": key})


def _file_name(run_id: str) -> str:
    if not _NAME.fullmatch(run_id):
        raise _refused(
            "must be fit for a file's name: letters, digits, '.', '_' and '-', the first no sign, at most 128"
        )
    return run_id


def _address(host: str) -> str:
    from ..errors import BadRequest
    from ..llms.model_registry import ollama_address

    try:
        ollama_address(host)
    except BadRequest as error:
        raise _refused("must be the address of an Ollama: a name, name:port or an http URL") from error
    return host


def _model(name: str) -> str:
    if not name.strip() or name.endswith(":"):
        raise _refused("must name a model, as provider:model or as Ollama calls it")
    return name


def _embedder(name: str) -> str:
    from .embedders import embedder_of

    try:
        embedder_of(name)
    except ValueError as error:
        must = "must be default, wordllama, words, none, sentence-transformers:NAME, or PROVIDER:MODEL of a service"
        raise _refused(must) from error
    return name


def _tokens(number: int) -> int:
    if number == 0:
        raise _refused("must be a number of tokens, or -1 for no limit")
    return number


def _user(given: object) -> str | int:
    if isinstance(given, bool) or not isinstance(given, (str, int)):
        raise _refused("must be the number or the name of a user")
    return given


RunId = Annotated[StrictStr, AfterValidator(_file_name)]
"""A name that can be a file name: letters, digits, `.`, `_`, `-`."""

Positive = Annotated[StrictInt, Field(gt=0)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Seconds = Annotated[Number, Field(gt=0)]
User = Annotated[str | int, PlainValidator(_user)]


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


class OllamaClientConfig(_Part):
    """The address of Ollama.

    The key is read from OLLAMA_API_KEY and never from here, because configurations are logged.
    """

    host: Annotated[StrictStr, AfterValidator(_address)] = "http://localhost:11434"


class ModelOptions(BaseModel):
    """Sampling options, under Ollama's names. `num_predict` is the maximum of output tokens, -1 for no limit.

    Options that are not listed here are sent to Ollama unchanged.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="allow")

    seed: StrictInt | None = Field(default=None, examples=[42])
    temperature: Number | None = Field(default=None, ge=0, examples=[0.7])
    top_p: Number | None = Field(default=None, ge=0, le=1, examples=[0.9])
    top_k: Annotated[StrictInt, Field(ge=0)] | None = Field(default=None, examples=[40])
    stop: tuple[StrictStr, ...] | None = Field(default=None, examples=[["END"]])
    num_predict: Annotated[StrictInt, Field(ge=-2), AfterValidator(_tokens)] | None = Field(default=None, examples=[-1])
    repeat_last_n: Annotated[StrictInt, Field(ge=-1)] | None = Field(default=None, examples=[64])
    repeat_penalty: Number | None = Field(default=None, examples=[1.1])
    num_ctx: Positive | None = Field(default=None, examples=[8192])


class CycleLimits(_Part):
    """The limits of a cycle: requests to the model, seconds, tokens (input and output)."""

    max_steps: Positive = 20
    max_seconds: Seconds | None = Field(default=None, examples=[600])
    max_tokens: Positive | None = Field(default=None, examples=[50_000])


class MemoryLimits(_Part):
    """The limits of a run's memory; lengths in characters."""

    max_keys: Positive = 1_000
    max_key_chars: Positive = 200
    max_value_chars: Positive = 100_000


class SimilarityConfig(_Part):
    """The embedder that compares reflections, and the cosine thresholds of the similarity bands.

    `embedder` is `default`, `wordllama`, `words` (nothing to install), `none`, `sentence-transformers:NAME`, or
    `PROVIDER:MODEL` for an embedding endpoint.
    """

    embedder: Annotated[StrictStr, AfterValidator(_embedder)] = "default"
    high: Number = Field(default=0.8, ge=-1, le=1)
    moderate: Number = Field(default=0.7, ge=-1, le=1)

    @model_validator(mode="after")
    def _check_bands(self) -> Self:
        if self.moderate > self.high:
            raise _refused(f"must be no more than {self.high}, which is what counts as high", "moderate")
        return self


class ExperimentConfig(_Part):
    """The configuration of an experiment: a model, the number of cycles, and their options."""

    preset: PresetName | None = Field(default=None, examples=["published"])
    run_id: RunId = Field(examples=["first-run"])
    model_name: Annotated[StrictStr, AfterValidator(_model)] = Field(examples=["llama3.2"])
    cycle_count: Positive = Field(examples=[10])
    ollama_client_config: OllamaClientConfig = OllamaClientConfig()
    model_options: ModelOptions = Field(examples=[{"temperature": 0.7}])

    history: Literal["reset", "full"] = "reset"
    system_prompt: StrictStr | None = Field(default=None, examples=["You are alone, and have tools."])
    opening: StrictStr | None = "Begin cycle {cycle}."
    max_reflections: Positive | None = Field(default=None, examples=[5])
    tool_mode: Literal["native", "required", "prompted", "none"] = "native"
    limits: CycleLimits = CycleLimits()
    memory: MemoryLimits = MemoryLimits()
    similarity: SimilarityConfig = SimilarityConfig()
    log_folder: Path = Path("logs")
    data_folder: Path = Path("data")

    operator: Literal["terminal", "none"] = "terminal"
    operator_timeout_minutes: Annotated[Number, Field(ge=-1)] | None = Field(default=None, examples=[30])
    telegram_enabled: StrictBool = False
    telegram_authorized_users: tuple[User, ...] = Field(default=(), examples=[[123456789]])
    telegram_timeout_minutes: StrictInt = Field(default=5, ge=-1, le=120)

    grid: Mapping[StrictStr, tuple[Any, ...]] | None = Field(default=None, examples=[{"model_options.seed": [1, 2, 3]}])

    @model_validator(mode="before")
    @classmethod
    def _begin_with_preset(cls, data: object) -> object:
        return with_preset(cast("Mapping[str, Any]", data)) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_telegram(self) -> Self:
        if self.telegram_enabled and not self.telegram_authorized_users:
            raise _refused("must name who may answer where telegram_enabled is true", "telegram_authorized_users")
        return self

    @property
    def log_path(self) -> Path:
        """The path of the log."""
        return self.log_folder / f"{self.run_id}.jsonl"

    @property
    def memory_path(self) -> Path:
        """The path of the SQLite file of the memory."""
        return self.data_folder / "memory.db"

    @property
    def asks_ollama(self) -> bool:
        """True if the model is one of Ollama, at the host of `ollama_client_config`."""
        return is_ollama_model(self.model_name, "ollama_client_config" in self.model_fields_set)


REQUIRED: Final = ("run_id", "model_name", "cycle_count", "ollama_client_config", "model_options")

OLLAMA_OPTIONS: Final = frozenset(
    (
        *ModelOptions.model_fields,
        *("min_p", "typical_p", "tfs_z", "presence_penalty", "frequency_penalty", "penalize_newline"),
        *("mirostat", "mirostat_tau", "mirostat_eta", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread"),
        *("low_vram", "vocab_only", "use_mmap", "use_mlock", "numa", "draft_num_predict"),
    )
)
"""The names of Ollama's `options`. Ollama ignores unknown ones silently, so a misspelled name would go unnoticed."""

_FAMILIES: Final = ("mistral", "qwen")
"""Model families of Ollama whose names are also those of providers."""


def is_ollama_model(model_name: str, has_host: bool) -> bool:
    """Return whether `model_name` means a model of Ollama.

    `has_host` is true if the configuration has Ollama's address: then `mistral:7b` is a tag of Ollama, as in
    ContReAct's own files, and otherwise a model of Mistral AI. Raises `UnsupportedLLMError` for an unknown provider.
    """
    from ..llms.model_registry import split_provider

    provider, _ = split_provider(model_name)
    is_bare = ":" not in model_name and provider != "local"
    return provider == "ollama" or is_bare or (has_host and provider in _FAMILIES)


def config_of(mapping: Mapping[str, Any], source: ConfigSource = NOWHERE) -> ExperimentConfig:
    """Return the experiment described by `mapping`. Raises a `ConfigError` with all problems.

    `source` is the file it was read from, for the error. Only a model of Ollama needs `ollama_client_config`.
    """
    try:
        config = ExperimentConfig.model_validate(mapping)
        faults: list[ConfigProblem] = []
    except ValidationError as error:
        config, faults = None, list(problems_of(error, ExperimentConfig, source))
    faults += (*_without_service(mapping, source), *_slips(mapping, source))
    if config is None or faults:
        raise error_of(faults)
    return config


def _without_service(mapping: Mapping[str, Any], source: ConfigSource) -> Iterator[ConfigProblem]:
    """Yield the problem that `model_name` has no provider, or that the address of its Ollama is missing."""
    model_name: object = mapping.get("model_name")
    if not isinstance(model_name, str):
        return
    try:
        of_ollama = is_ollama_model(model_name, False)
    except UnsupportedLLMError as error:
        yield problem_at(WrongValue, ("model_name",), str(error), source)
        return
    if of_ollama and "ollama_client_config" not in mapping:
        yield missing("ollama_client_config", ExperimentConfig, source)


def _slips(mapping: Mapping[str, Any], source: ConfigSource) -> Iterator[ConfigProblem]:
    """Yield a problem for each option whose name is almost one of Ollama's."""
    options: object = mapping.get("model_options")
    for name in cast("Mapping[object, object]", options) if isinstance(options, Mapping) else ():
        if str(name) in OLLAMA_OPTIONS:
            continue
        if meant := get_close_matches(str(name), OLLAMA_OPTIONS, 1, 0.85):
            what = f"is no option that is known. Did you mean {meant[0]}?"
            yield problem_at(UnknownKey, ("model_options", str(name)), what, source)
