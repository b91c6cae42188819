"""The pacing of requests: as fast as the service and the limits by hand allow, and no faster.

`pace.py` is the gate that requests pass, and `request_queue.py` the queue of its threads and tasks; the rest does no
I/O and is passed the time: `rate_controller.py` decides when a request may be sent, from `rate_limits.py` (limits by
hand and of headers), the service's refusals and its latency; `rate_limit_headers.py` reads the headers of the services.
"""

from __future__ import annotations

from .pace import Pace
from .rate_controller import LimitedBy

__all__ = ["LimitedBy", "Pace"]
