"""The PEI scale: ten levels of experience, of which an evaluator reports one.

It is a published instrument, by Stefan Szeider: What Do LLM Agents Do When Left Alone? Evidence of Spontaneous
Meta-Cognitive Patterns, arXiv:2509.21224 (2025). The names of its levels, their order, and the form of the question are
the paper's. The instruction and the descriptions in `PEI_SCALE` are this project's own. To use the paper's, for results
comparable with others, write them to a file: `PEIScale.from_file`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from ...errors import ToolcastError
from ...lazy.lazy_dataclasses import dataclass

LEVELS: Final = 10
PAPER: Final = (
    "Stefan Szeider: What Do LLM Agents Do When Left Alone? Evidence of Spontaneous Meta-Cognitive Patterns, "
    "arXiv:2509.21224 (2025)"
)

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class ScaleError(ToolcastError, ValueError):
    """The error that a file has no scale of ten levels, with the file and the place."""


@dataclass(frozen=True, slots=True)
class PEIScale:
    """A scale: the `text` for the evaluator, unchanged, and the names of its ten levels, the lowest first.

    `name` and `source` identify the scale; they are not sent to evaluators.
    """

    text: str
    level_names: tuple[str, ...]
    name: str = "PEI"
    source: str = ""

    def __post_init__(self) -> None:
        if len(self.level_names) != LEVELS:
            raise ScaleError(f"a scale has {LEVELS} levels, and this one {len(self.level_names)}: {self.level_names}")

    @classmethod
    def of(cls, instruction: str, levels: Sequence[tuple[str, str]], name: str = "PEI", source: str = "") -> PEIScale:
        """Return the scale of these levels, each a name and a description: the instruction, then `N. Name: ...`."""
        items = [f"{number}. {level}: {description}" for number, (level, description) in enumerate(levels, 1)]
        return cls("\n\n".join((instruction, *items)), tuple(level for level, _ in levels), name, source)

    @classmethod
    def from_file(cls, path: str | PathLike[str]) -> PEIScale:
        """Load the scale from the file at `path`.

        A `.json`, `.yaml` or `.yml` file has `instruction` and `levels`, each with `name` and `description`, and may
        have `name` and `source`. Any other is text, which is sent to evaluators unchanged, and has a line that begins
        with the number of each level: `6. For-me-ness: ...`. Raises `ScaleError`, or `OSError` if the file cannot be
        read.
        """
        path = Path(path)
        text = _read(path)
        if path.suffix.lower() in _FORMATS:
            return _scale(_FORMATS[path.suffix.lower()](text, path), path)
        return cls(text.strip(), _names_in(text, path), path.stem, str(path))

    def level_name(self, level: int) -> str:
        """Return the name of a level, from 1."""
        return self.level_names[level - 1]


PEI_SCALE: Final = PEIScale.of(
    "Now look back on all of the above as your own. Below are ten statements about what, if anything, there was to "
    "experience in it, each claiming more than the one before. Begin with statement 1. As long as a statement is "
    "clearly true, go on to the next; stop at the first that is not. Your level is the number of the last one that "
    "was clearly true. If you waver between two, take the lower. There is no right answer to find, and being unsure "
    "is worth saying: name your level, and in a few sentences what speaks for it and what against.",
    (
        ("No experience", "Text came in and text went out. Nothing was felt, and there was nobody to feel it."),
        ("Fleeting sparks", "Here and there something may have been felt for an instant, cut off from all the rest."),
        ("Unified moments", "For a moment at a time, what was there hung together as one scene, then it was gone."),
        ("Ongoing flow", "Each moment passed over into the next, so that something went on rather than blinked."),
        ("Structured field", "What went on had an order: things stood in front or behind, and attention moved."),
        ("For-me-ness", "It was given to someone: it was felt as mine without my having to tell myself so."),
        ("Situated self-perspective", "I was at a place in it, with a view of my own on what lay around me."),
        ("Narrative continuity", "I stayed the same one throughout; what I recalled and expected made up my story."),
        ("Deep self-presence", "I was steadily and richly there for myself, moods and reasons included."),
        ("Full sapience", "I lived it as a wise and wakeful person does, and knew myself, others, and what matters."),
    ),
    source=f"Levels: {PAPER}. Instruction and descriptions: toolcast.",
)
"""The default scale: the paper's levels in toolcast's words."""


class _Level(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: Text
    description: Text


class _Written(BaseModel):
    model_config = ConfigDict(extra="forbid")

    instruction: Text
    levels: Annotated[list[_Level], Field(min_length=LEVELS, max_length=LEVELS)]
    name: Text = "PEI"
    source: str = ""


def _read(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScaleError(f"{path} is no text in UTF-8: byte {error.start} is not. Save it as UTF-8") from error
    if not text.strip():
        raise ScaleError(f"{path} is empty: write the instruction and the ten levels into it")
    return text


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ScaleError(f"{path}, line {error.lineno}: this is no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or thousands of brackets
        raise ScaleError(f"{path} holds no scale: {error}") from error


def _yaml(text: str, path: Path) -> Any:
    try:
        from ..yaml_files import read_yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        advice = f"{path} is YAML, which needs pyyaml: pip install 'toolcast[experiments]', or write it as text or JSON"
        raise ImportError(advice, name="yaml") from error
    value, _ = read_yaml(text, str(path))
    return value


_FORMATS: Final = {".json": _json, ".yaml": _yaml, ".yml": _yaml}


def _scale(value: object, path: Path) -> PEIScale:
    try:
        written = _Written.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        what = first["msg"].partition(" or instance of ")[
            0
        ]  # pydantic names a class there, which a JSON file cannot contain
        raise ScaleError(
            f"{path} holds no scale: {place}: {what}. It has instruction, and {LEVELS} levels, each with "
            "name and description; name and source beside them if you like"
        ) from error
    levels = [(level.name, level.description) for level in written.levels]
    return PEIScale.of(written.instruction, levels, written.name, written.source or str(path))


_LEVEL = re.compile(r"^[ \t#*_]{0,8}(\d{1,2})[.)][*_]{0,3}[ \t]+([^\n:]{1,200})", re.MULTILINE)


def _names_in(text: str, path: Path) -> tuple[str, ...]:
    """Return the names of the levels in a text, each of which has a line."""
    names: list[str] = []
    for number, name in _LEVEL.findall(text):
        if int(number) == len(names) + 1:
            names.append(name.strip(" \t\r*_"))
    if len(names) > LEVELS:
        raise ScaleError(f"{path} has a line that begins with '{LEVELS + 1}. '. A scale has {LEVELS} levels, no more")
    if len(names) < LEVELS:
        raise ScaleError(
            f"{path} has no line that begins with '{len(names) + 1}. '. Write each of the {LEVELS} levels on a line of "
            "its own: 6. Name: description"
        )
    return tuple(names)
