"""The tests of a run that failed are run again, each alone; `.ci/run` reads the verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.pytest_projects import Project
from support.second_look import VARIABLE

FLAKY = """
    from pathlib import Path

    def test_{name}():
        ran = Path(__file__).with_name("{name}.ran")
        before = ran.exists()
        ran.touch()
        assert before, "only the second time"
"""
BROKEN = """
    def test_broken():
        assert False, "every time"
"""


def verdicts(folder: Path, *arguments: str, **tests: str) -> tuple[int, list[list[str]]]:
    """Return the exit code of a run of these modules with tests, and the verdicts that it wrote, without the loads."""
    project = Project(folder)
    project.write(**tests)
    file = folder / "verdicts"
    variables = {
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_ADDOPTS": "-p no:asyncio -p no:toolcast -p no:hypothesispytest -p support.second_look",
    }
    done = project.run(*arguments, **variables, **{VARIABLE: str(file)})
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [line.split("\t") for line in lines]
    assert all(row[-1].startswith("load ") for row in rows), done.stdout
    return done.returncode, sorted(row[:-1] for row in rows)


@pytest.mark.slow
def test_a_test_that_passes_alone_is_flaky(tmp_path: Path) -> None:
    code, found = verdicts(tmp_path, "-n", "2", test_a=FLAKY.format(name="a"), test_b="def test_b(): ...")
    assert (code, found) == (0, [["flaky", "test_a.py::test_a", "AssertionError: only the second time"]])


@pytest.mark.slow
def test_a_test_that_fails_twice_or_in_an_exact_folder_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "tests" / "chat").mkdir(parents=True)
    exact = {"tests/chat/test_c": FLAKY.format(name="c")}
    code, found = verdicts(tmp_path, test_a=FLAKY.format(name="a"), test_b=BROKEN, **exact)
    assert (code, [row[:2] for row in found]) == (
        1,
        [
            ["failed", "test_b.py::test_broken"],
            ["failed", "tests/chat/test_c.py::test_c"],
            ["flaky", "test_a.py::test_a"],
        ],
    )


@pytest.mark.slow
def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    code, found = verdicts(tmp_path, test_a="\n".join(FLAKY.format(name=name) for name in "abcd"))
    assert (code, [row[0] for row in found]) == (1, ["failed"] * 4)
