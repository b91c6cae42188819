"""Draw the diagrams of docs/reference/states.md and docs/how-to/chat.md from the tables that the code itself walks.

`python docs/diagrams.py` writes them between their markers; the rest of a page is kept. A test holds the pages
against `drawn`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from toolcast.chat.transitions import diagram
from toolcast.values.states import (
    CALL,
    CYCLE,
    ELF,
    ORCHESTRATOR,
    REPL,
    SESSION,
    STREAM,
    TOOL_CALL,
    TURN,
    Table,
    mermaid,
)

DOCS = Path(__file__).parent
PAGES: dict[Path, dict[str, Table]] = {
    DOCS / "reference" / "states.md": {
        "ORCHESTRATOR": ORCHESTRATOR,
        "CALL": CALL,
        "TOOL_CALL": TOOL_CALL,
        "STREAM": STREAM,
        "TURN": TURN,
        "SESSION": SESSION,
        "ELF": ELF,
        "REPL": REPL,
        "CYCLE": CYCLE,
    },
    DOCS / "how-to" / "chat.md": {"CHAT": diagram()},
}
LARGE = {"CHAT"}
"""The tables whose diagram is an outline, with all transitions in a table below it."""


def drawn(page: str, tables: Mapping[str, Table]) -> str:
    """Return `page` with every diagram drawn again."""
    for name, table in tables.items():
        begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
        text = f"{_fence(outline(table))}\n{rows(table)}" if name in LARGE else _fence(mermaid(table))
        page, found = re.subn(f"{begin}.*?{end}", lambda _, new=begin + text + end: new, page, flags=re.S)
        if found != 1:
            raise ValueError(f"the markers of {name} are there {found} times, not once")
    return page


def outline(table: Table) -> str:
    """Return a diagram with one arrow for all events that lead from one state to another, without conditions.

    An event that every state allows is drawn only where no other event leaves the state.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table))}"]
    anywhere = set.intersection(*({_event(label) for label in moves} for moves in table.values()))
    for state, moves in table.items():
        leaving = [(_event(label), target) for label, target in moves.items() if target != state]
        special = [(event, target) for event, target in leaving if event not in anywhere] or leaving
        for target in dict.fromkeys(target for _, target in special):
            events = dict.fromkeys(event for event, other in special if other == target)
            lines.append(f"    {state} --> {target}: {'<br>'.join(events)}")
    return "\n".join(lines) + "\n"


def rows(table: Table) -> str:
    """Return all transitions as a table in Markdown."""
    lines = ["| state | event | condition | next state |", "|---|---|---|---|"]
    for state, moves in table.items():
        for label, target in moves.items():
            event, condition = re.fullmatch(r"([^[]*?) ?(?:\[(.*)\])?", label).groups()
            cells = (state, event, condition, target)
            lines.append(f"| {' | '.join(f'`{cell}`' if cell else '' for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _fence(diagram: str) -> str:
    return f"```mermaid\n{diagram}```\n"


def _event(label: str) -> str:
    """Return a label without its condition, unless it has nothing else."""
    return label.partition(" [")[0]


if __name__ == "__main__":
    for path, tables in PAGES.items():
        path.write_text(drawn(path.read_text(encoding="utf-8"), tables), encoding="utf-8")
