"""ContReAct experiments: configuration, cycles, memory, similarity, event log, PEI, reports, grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agent_memory import AgentMemory as AgentMemory, RunMemory as RunMemory
    from .config_errors import ConfigError as ConfigError, ConfigProblem as ConfigProblem, ConfigSource as ConfigSource
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
    from .experiment_config import (
        CycleLimits as CycleLimits,
        ExperimentConfig as ExperimentConfig,
        MemoryLimits as MemoryLimits,
        ModelOptions as ModelOptions,
        OllamaClientConfig as OllamaClientConfig,
        SimilarityConfig as SimilarityConfig,
        config_of as config_of,
    )
    from .experiment_tools import CallPlace as CallPlace, agent_tools as agent_tools
    from .grids.grid import GridResult as GridResult, expand as expand, run_grid as run_grid
    from .llm_setup import (
        acheck_model as acheck_model,
        build_llm as build_llm,
        check_model as check_model,
        settings_of as settings_of,
    )
    from .log_reading import LogError as LogError, LogMissing as LogMissing, read_log as read_log
    from .operators import (
        OperatorChannel as OperatorChannel,
        TerminalOperator as TerminalOperator,
        UnattendedOperator as UnattendedOperator,
    )
    from .pei.agreement import Agreement as Agreement, PEIResult as PEIResult, agreement as agreement
    from .pei.assessment import (
        AssessmentOptions as AssessmentOptions,
        PEIAssessment as PEIAssessment,
        PEIReport as PEIReport,
        aassess as aassess,
        assess as assess,
    )
    from .pei.assessment_files import ResultsError as ResultsError, ResultsFile as ResultsFile
    from .pei.rating_text import rating_in as rating_in
    from .pei.run_history import history_of as history_of
    from .pei.scale import PEI_SCALE as PEI_SCALE, PEIScale as PEIScale, ScaleError as ScaleError
    from .report.page import Report as Report, report_on as report_on
    from .report.summary import RunSummary as RunSummary, summary_of as summary_of
    from .runner import ExperimentRunner as ExperimentRunner, RunExists as RunExists
    from .similarity import Similarity as Similarity, SimilarityMonitor as SimilarityMonitor
    from .telegram import TelegramOperator as TelegramOperator
else:
    from ..lazy.lazy_exports import lazy_exports

    __getattr__, __dir__ = lazy_exports(__name__)
