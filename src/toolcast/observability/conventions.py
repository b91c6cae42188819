"""The names of OpenTelemetry's semantic conventions for generative AI, version 0.1.0.

The conventions are in development in a repository of their own (open-telemetry/semantic-conventions-genai); a new
version renames attributes and metrics. The names follow its docs/gen-ai/client-inference.md, model/metrics.yaml and
model/token-metrics.yaml as they were on 23 November 2026, not the files at the tag v0.1.0. All names that spans and
metrics have are in this module. Names that begin with `toolcast.` are not of the conventions.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

VERSION: Final = "0.1.0"
"""The version of the conventions."""

# Operations, the values of `OPERATION`. A structured call is a chat whose output type is JSON.
CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"

# Attributes of spans and metrics.
OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
ERROR_TYPE: Final = "error.type"
STATUS_CODE: Final = "http.response.status_code"  # of the conventions for HTTP
TOKEN_MODALITY: Final = "gen_ai.token.modality"
UNKNOWN_MODALITY: Final = "unknown"  # services do not report it for all tokens

# Attributes of requests.
CONVERSATION: Final = "gen_ai.conversation.id"
REQUEST_STREAM: Final = "gen_ai.request.stream"
OUTPUT_TYPE: Final = "gen_ai.output.type"
REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "temperature": "gen_ai.request.temperature",
        "top_p": "gen_ai.request.top_p",
        "top_k": "gen_ai.request.top_k",
        "max_tokens": "gen_ai.request.max_tokens",
        "stop": "gen_ai.request.stop_sequences",
        "seed": "gen_ai.request.seed",
    }
)
"""The attributes for the fields of `Settings`."""

# Attributes of responses.
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK_SECONDS: Final = "gen_ai.response.time_to_first_chunk"
USAGE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_tokens": "gen_ai.usage.input_tokens",
        "output_tokens": "gen_ai.usage.output_tokens",
        "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
        "cache_creation_tokens": "gen_ai.usage.cache_write.input_tokens",
        "reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
    }
)
"""The attributes for the fields of `Usage`. Audio tokens are not split into input and output, and have none."""

# Attributes of tools.
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
FUNCTION: Final = "function"

# Content, recorded only where it is asked for.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

# Metrics.
INFERENCE_SECONDS: Final = "gen_ai.client.inference.duration"
FIRST_CHUNK: Final = "gen_ai.client.inference.time_to_first_chunk"
AGENT_SECONDS: Final = "gen_ai.invoke_agent.duration"
AGENT_REQUESTS: Final = "gen_ai.invoke_agent.inference_calls"
AGENT_TOOLS: Final = "gen_ai.invoke_agent.tool_calls"
TOOL_SECONDS: Final = "gen_ai.execute_tool.duration"
TOKEN_COUNTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_tokens": "gen_ai.client.inference.usage.input_tokens",
        "output_tokens": "gen_ai.client.inference.usage.output_tokens",
        "cache_read_tokens": "gen_ai.client.inference.usage.cache_read.input_tokens",
        "cache_creation_tokens": "gen_ai.client.inference.usage.cache_write.input_tokens",
        "reasoning_tokens": "gen_ai.client.inference.usage.reasoning.output_tokens",
    }
)
"""The counters for the fields of `Usage`."""
TOKEN_HISTOGRAMS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "input_tokens": "gen_ai.client.inference.operation.input_tokens",
        "output_tokens": "gen_ai.client.inference.operation.output_tokens",
    }
)
"""The histograms for the fields of `Usage`."""
SECONDS_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
AGENT_SECONDS_BUCKETS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
COUNT_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
TOKEN_BUCKETS: Final = tuple([4**power for power in range(14)])

# Events and attributes that the conventions do not have: the attempts of an operation, and the end of a turn.
ATTEMPT_EVENT: Final = "toolcast.attempt"
ATTEMPT_NUMBER: Final = "toolcast.attempt.number"
ATTEMPT_SECONDS: Final = "toolcast.attempt.seconds"
ATTEMPT_ERROR: Final = "toolcast.attempt.error"  # its text, which is content
RETRY_EVENT: Final = "toolcast.retry"
RETRY_WAIT: Final = "toolcast.retry.wait"
TURN_END: Final = "toolcast.turn.end"
TURN_ROUNDS: Final = "toolcast.turn.rounds"
CACHED: Final = "toolcast.cached"  # on spans, attempts and metrics of an answer from a `CachedLLM`; absent otherwise
COST: Final = "toolcast.cost"  # US dollars; the conventions have no attribute for money

PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "anthropic-vertex": "gcp.vertex_ai",
        "azure": "azure.ai.openai",
        "azure-v1": "azure.ai.openai",
        "azure-foundry": "azure.ai.inference",
        "bedrock": "aws.bedrock",
        "bedrock-mantle": "aws.bedrock",
        "google": "gcp.gemini",
        "mistral": "mistral_ai",
        "moonshot": "moonshot_ai",
        "xai": "x_ai",
    }
)
"""The conventions' names of the providers that have another one in toolcast."""

FINISH: Final[Mapping[str, str]] = MappingProxyType(
    {
        "end_turn": "stop",
        "stop_sequence": "stop",
        "max_tokens": "length",
        "tool_use": "tool_call",
        "refusal": "content_filter",
    }
)
"""The conventions' names of the stop reasons that have another one in toolcast."""
ABNORMAL_FINISH: Final = "error"  # of a response that did not come to its end
