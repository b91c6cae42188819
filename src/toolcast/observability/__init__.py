"""OpenTelemetry: spans and metrics of calls, turns and tools, made by hooks. Nothing in other packages calls it."""
