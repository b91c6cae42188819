"""Print the one line of a Markdown file's fenced blocks that holds a text.

`readme_command.py README.md "nox -s tests"`, so that CI runs what the README shows, not a copy of
it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def command(markdown: str, wanted: str) -> str:
    """The command line in a fenced block that contains `wanted`, without a leading `$ `."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", markdown, re.MULTILINE | re.DOTALL)
    lines = {line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines() if wanted in line}
    if len(lines) != 1:
        raise SystemExit(f"expected exactly one command with {wanted!r} in fenced blocks, found {sorted(lines)}")
    return lines.pop()


if __name__ == "__main__":
    print(command(Path(sys.argv[1]).read_text(encoding="utf-8"), sys.argv[2]))
