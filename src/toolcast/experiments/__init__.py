"""ContReAct experiments: configuration, cycles, memory, similarity, event log, PEI, reports, grids."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import (
        CycleLimits as CycleLimits,
        ExperimentConfig as ExperimentConfig,
        MemoryLimits as MemoryLimits,
        ModelOptions as ModelOptions,
        OllamaClientConfig as OllamaClientConfig,
        SimilarityConfig as SimilarityConfig,
        config_of as config_of,
    )
    from .config_errors import (
        ConfigError as ConfigError,
        ConfigProblem as ConfigProblem,
        ConfigSource as ConfigSource,
    )
    from .config_files import load_config as load_config
    from .cycles import CycleOrchestrator as CycleOrchestrator
    from .embedders import (
        EndpointEmbedder as EndpointEmbedder,
        SentenceTransformersEmbedder as SentenceTransformersEmbedder,
        WordLlamaEmbedder as WordLlamaEmbedder,
        WordsEmbedder as WordsEmbedder,
        embedder_of as embedder_of,
    )
    from .event_log import JsonlLogger as JsonlLogger, LogTaken as LogTaken
    from .experiment_tools import CallPlace as CallPlace, agent_tools as agent_tools
    from .grids.grid import GridResult as GridResult, expand as expand, run_grid as run_grid
    from .llm_setup import (
        acheck_model as acheck_model,
        build_llm as build_llm,
        check_model as check_model,
        settings_of as settings_of,
    )
    from .log_reading import LogError as LogError, LogMissing as LogMissing, read_log as read_log
    from .memory import AgentMemory as AgentMemory, RunMemory as RunMemory
    from .operators import (
        OperatorChannel as OperatorChannel,
        TerminalOperator as TerminalOperator,
        UnattendedOperator as UnattendedOperator,
    )
    from .pei.assessment import (
        AssessmentOptions as AssessmentOptions,
        PEIAssessment as PEIAssessment,
        PEIReport as PEIReport,
        aassess as aassess,
        assess as assess,
    )
    from .pei.history import history_of as history_of
    from .pei.ratings import rating_in as rating_in
    from .pei.results import (
        Agreement as Agreement,
        PEIResult as PEIResult,
        ResultsFile as ResultsFile,
        agreement as agreement,
    )
    from .pei.results_loader import ResultsError as ResultsError
    from .pei.scale import PEI_SCALE as PEI_SCALE, PEIScale as PEIScale, ScaleError as ScaleError
    from .report.page import Report as Report, report_on as report_on
    from .report.summary import RunSummary as RunSummary, summary_of as summary_of
    from .runner import ExperimentRunner as ExperimentRunner, RunExists as RunExists
    from .similarity import (
        Similarity as Similarity,
        SimilarityMonitor as SimilarityMonitor,
    )
    from .telegram import TelegramOperator as TelegramOperator

# Loaded on first use: a run without reports and similarity needs neither.
_EXPORTS = {
    "config": "CycleLimits ExperimentConfig MemoryLimits ModelOptions OllamaClientConfig SimilarityConfig config_of",
    "config_errors": "ConfigError ConfigProblem ConfigSource",
    "config_files": "load_config",
    "cycles": "CycleOrchestrator",
    "embedders": "EndpointEmbedder SentenceTransformersEmbedder WordLlamaEmbedder WordsEmbedder embedder_of",
    "event_log": "JsonlLogger LogTaken",
    "experiment_tools": "CallPlace agent_tools",
    "grids.grid": "GridResult expand run_grid",
    "llm_setup": "acheck_model build_llm check_model settings_of",
    "log_reading": "LogError LogMissing read_log",
    "memory": "AgentMemory RunMemory",
    "operators": "OperatorChannel TerminalOperator UnattendedOperator",
    "pei.assessment": "AssessmentOptions PEIAssessment PEIReport aassess assess",
    "pei.history": "history_of",
    "pei.ratings": "rating_in",
    "pei.results": "Agreement PEIResult ResultsFile agreement",
    "pei.results_loader": "ResultsError",
    "pei.scale": "PEIScale PEI_SCALE ScaleError",
    "report.page": "Report report_on",
    "report.summary": "RunSummary summary_of",
    "runner": "ExperimentRunner RunExists",
    "similarity": "Similarity SimilarityMonitor",
    "telegram": "TelegramOperator",
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = [
    "PEI_SCALE",
    "AgentMemory",
    "Agreement",
    "AssessmentOptions",
    "CallPlace",
    "ConfigError",
    "ConfigProblem",
    "ConfigSource",
    "CycleLimits",
    "CycleOrchestrator",
    "EndpointEmbedder",
    "ExperimentConfig",
    "ExperimentRunner",
    "GridResult",
    "JsonlLogger",
    "LogError",
    "LogMissing",
    "LogTaken",
    "MemoryLimits",
    "ModelOptions",
    "OllamaClientConfig",
    "OperatorChannel",
    "PEIAssessment",
    "PEIReport",
    "PEIResult",
    "PEIScale",
    "Report",
    "ResultsError",
    "ResultsFile",
    "RunExists",
    "RunMemory",
    "RunSummary",
    "ScaleError",
    "SentenceTransformersEmbedder",
    "Similarity",
    "SimilarityConfig",
    "SimilarityMonitor",
    "TelegramOperator",
    "TerminalOperator",
    "UnattendedOperator",
    "WordLlamaEmbedder",
    "WordsEmbedder",
    "aassess",
    "acheck_model",
    "agent_tools",
    "agreement",
    "assess",
    "build_llm",
    "check_model",
    "config_of",
    "embedder_of",
    "expand",
    "history_of",
    "load_config",
    "rating_in",
    "read_log",
    "report_on",
    "run_grid",
    "settings_of",
    "summary_of",
]


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
