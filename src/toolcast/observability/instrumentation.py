"""`instrument`: spans and metrics of all calls of the process, by OpenTelemetry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..values.hooks import HookHandle, hooks
from ..values.option_types import require_optional

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider


def instrument(
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    capture_content: bool = False,
) -> HookHandle:
    """Record spans and metrics of all calls of this process, by OpenTelemetry's conventions for generative AI.

    A second call with the same arguments records nothing twice.

    Args:
        tracer_provider: Makes the spans. Default: the global provider.
        meter_provider: Makes the metrics. Default: the global provider.
        capture_content: Record messages, the definitions of tools, their arguments and results, and the texts of
            errors as well, which may contain personal data. Credentials and hidden input are left out in any case.

    Returns:
        A handle whose `remove` ends the recording; also a context manager. Operations that have begun are recorded to
        their end.

    Raises:
        ImportError: opentelemetry-api is not installed (`pip install 'toolcast[otel]'`).
        TypeError: An argument is not a provider.
    """
    try:
        from opentelemetry.metrics import MeterProvider
        from opentelemetry.trace import TracerProvider

        from .telemetry_hooks import telemetry_hooks
    except ModuleNotFoundError as error:
        raise ImportError(
            "instrument() needs opentelemetry-api: pip install 'toolcast[otel]'", name="opentelemetry"
        ) from error
    require_optional("tracer_provider", tracer_provider, TracerProvider, "a TracerProvider of OpenTelemetry")
    require_optional("meter_provider", meter_provider, MeterProvider, "a MeterProvider of OpenTelemetry")
    return hooks.add(telemetry_hooks(tracer_provider, meter_provider, capture_content))
