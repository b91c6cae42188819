"""Many inputs: one structured call for each, with progress, resumption, rate limits and budgets.

`ToolOrchestratingLLM.map` and `amap` return an iterator of `Outcome`.
"""

from __future__ import annotations

from .outcome import Outcome

__all__ = ["Outcome"]
