"""Run llama.cpp's server with one model: `python llama_process.py MODEL KEY`.

It prints its address and stays until standard input closes. A process of its own, because the server cannot
be stopped cleanly inside one that goes on.
"""

from __future__ import annotations

import os
import sys

import xllamacpp  # type: ignore[import-untyped]  # the wheel has no types


def parameters(model: str, key: str) -> xllamacpp.CommonParams:
    """One slot, small batches (a cancel is seen soon), quiet, and closed to requests without the key."""
    chosen = xllamacpp.CommonParams()
    chosen.model.path = model
    chosen.n_ctx, chosen.n_parallel, chosen.n_batch, chosen.n_ubatch = 4096, 1, 128, 128
    chosen.n_gpu_layers, chosen.verbosity, chosen.cache_ram_mib = 0, -1, 64
    # One thread: llama.cpp's threads wait for each other by spinning, so that with a core taken by something
    # else two are fifty times slower than one.
    chosen.cpuparams.n_threads = chosen.cpuparams_batch.n_threads = 1
    chosen.ui, chosen.endpoint_slots = False, False
    chosen.api_keys = [key]
    return chosen


def main() -> None:
    model, key = sys.argv[1:]
    server = xllamacpp.Server(parameters(model, key))
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # leaving in the ordinary way aborts while a stream is being written


if __name__ == "__main__":
    main()
