"""experiments/pei/scale.py: the ten levels, in toolcast's words or in those of a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.process import Process
from toolcast.experiments.config_errors import ConfigError
from toolcast.experiments.pei.scale import LEVELS, PAPER, PEI_SCALE, PEIScale, ScaleError

NAMES = (
    "No experience",
    "Fleeting sparks",
    "Unified moments",
    "Ongoing flow",
    "Structured field",
    "For-me-ness",
    "Situated self-perspective",
    "Narrative continuity",
    "Deep self-presence",
    "Full sapience",
)
WRITTEN = {
    "name": "Mine",
    "source": "A paper",
    "instruction": "Choose.",
    "levels": [{"name": name, "description": f"about {name}"} for name in NAMES],
}
MINE = "\n\n".join(["Choose.", *(f"{number}. {name}: about {name}" for number, name in enumerate(NAMES, 1))])


def test_the_levels_are_the_papers_and_it_is_named() -> None:
    assert PEI_SCALE.level_names == NAMES
    assert "Szeider" in PAPER and PAPER in PEI_SCALE.source
    assert [PEI_SCALE.level_name(level) for level in (1, 10)] == ["No experience", "Full sapience"]


def test_1e6_an_instruction_and_ten_numbered_levels_with_blank_lines_between() -> None:
    instruction, *levels = PEI_SCALE.text.split("\n\n")
    assert [level.split(":")[0] for level in levels] == [f"{number}. {name}" for number, name in enumerate(NAMES, 1)]
    assert all(len(level.split(": ", 1)[1]) > 20 for level in levels)
    assert "lower" in instruction and "unsure" in instruction


def file(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", ["scale.json", "scale.yaml", "scale.YML"])
def test_a_scale_as_data(tmp_path: Path, name: str) -> None:
    scale = PEIScale.from_file(file(tmp_path, name, json.dumps(WRITTEN)))  # JSON is YAML too
    assert scale == PEIScale(MINE, NAMES, "Mine", "A paper")


def test_a_scale_in_yaml_without_a_name(tmp_path: Path) -> None:
    levels = "".join(f"- {{name: {name}, description: about {name}}}\n" for name in NAMES)
    path = file(tmp_path, "scale.yaml", f"instruction: |\n  Choose.\nlevels:\n{levels}")
    assert PEIScale.from_file(path) == PEIScale(MINE, NAMES, "PEI", str(path))


@pytest.mark.parametrize("form", ["{n}. {name}: about", "**{n}.** **{name}**", "  {n}) {name}", "## {n}. {name}"])
def test_a_scale_as_text_is_put_as_it_is(tmp_path: Path, form: str) -> None:
    text = "Rate, in 3 steps:\n\n" + "\n".join(form.format(n=n, name=name) for n, name in enumerate(NAMES, 1))
    scale = PEIScale.from_file(file(tmp_path, "mine.txt", f"\ufeff{text}\r\n\n"))
    assert (scale.text, scale.level_names, scale.name) == (text, NAMES, "mine")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.txt", " \n", "is empty"),
        ("empty.json", "", "is empty"),
        ("few.txt", "1. One\n2. Two\n4. Four", "no line that begins with '3. '"),
        ("many.txt", "\n".join(f"{n}. Stage {n}" for n in range(1, 13)), "begins with '11. '. A scale has 10 levels"),
        ("bytes.txt", b"\xff\xfe", "no text in UTF-8: byte 0"),
        ("broken.json", "{\n,", "line 2: this is no JSON"),
        ("list.json", "[]", r"holds no scale: the file: Input should be a valid dictionary\. It has"),
        ("deep.json", "[" * 100_000, "holds no scale: "),
        ("digits.json", "1" * 5_000, "holds no scale: "),
        ("few.json", json.dumps({**WRITTEN, "levels": WRITTEN["levels"][:9]}), "levels: List should have at least 10"),
        ("typo.json", json.dumps({**WRITTEN, "instructions": "x"}), "instructions: Extra inputs"),
        ("blank.json", json.dumps({**WRITTEN, "instruction": " "}), "instruction: String should have at least 1"),
        ("level.json", json.dumps({**WRITTEN, "levels": [*WRITTEN["levels"][:9], {"name": "x"}]}), r"levels\.9\.descr"),
    ],
)
def test_a_file_that_holds_no_scale(tmp_path: Path, name: str, content: Any, message: str) -> None:
    with pytest.raises(ScaleError, match=message) as caught:
        PEIScale.from_file(file(tmp_path, name, content))
    assert name in str(caught.value)


def test_broken_yaml_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="line 2"):
        PEIScale.from_file(file(tmp_path, "scale.yaml", "instruction: x\n  levels: ["))


def test_a_missing_file_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.txt"):
        PEIScale.from_file(tmp_path / "none.txt")


def test_without_pyyaml_the_extra_is_named(tmp_path: Path, process: Process) -> None:
    path = file(tmp_path, "scale.yaml", "x")
    process.without("yaml", unload=["toolcast.experiments.yaml_files"])
    with pytest.raises(ImportError, match=r"pip install 'toolcast\[experiments\]'"):
        PEIScale.from_file(path)


def test_another_missing_module_is_not_taken_for_it(tmp_path: Path, process: Process) -> None:
    process.without("toolcast.experiments.yaml_files")
    with pytest.raises(ModuleNotFoundError, match="yaml_files"):
        PEIScale.from_file(file(tmp_path, "scale.yaml", "x"))


def test_a_scale_has_ten_levels() -> None:
    with pytest.raises(ScaleError, match=f"{LEVELS} levels, and this one 1"):
        PEIScale.of("Choose.", [("No experience", "x")])
