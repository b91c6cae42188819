"""llm, a command line for LLMs: how soon it is ready."""

# /// script
# dependencies = ["llm"]
# ///

from __future__ import annotations

from peers.common import Peer, main

READY = "import llm; llm.get_model('gpt-4o-mini').prompt"

if __name__ == "__main__":
    main(Peer("llm", ("llm",), READY, command="llm --help"))
