"""The scenes of the gallery in a terminal: each types into the real command, which runs in a pseudo-terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, NamedTuple, TypeAlias

import pexpect
import pyte
from gallery_model import MODEL, ScriptedOllama, call
from terminal_picture import PictureScreen

from toolcast.experiments import JsonlLogger

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo.py"
WIDTHS = (40, 80, 120)
ROWS = 110  # so many that nothing scrolls away
PATIENCE = 40.0
PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"
ENTER, CTRL_C, CTRL_R, CTRL_X, ESC, TAB = "\r", "\x03", "\x12", "\x18", "\x1b", "\t"
DOWN, BACKSPACE = "\x1b[B", "\x7f"

HASH_MODULE = '''"""Hashes of files."""

import hashlib


def digest(path):
    """Return the SHA-256 of a file."""
    with open(path) as file:
        return hashlib.sha256(file.read()).hexdigest()
'''


class Terminal:
    """`toolcast` in a pseudo-terminal, with a scripted model, an empty home and a small project as its folder."""

    def __init__(self, columns: int, home: Path, folder: Path, model: ScriptedOllama) -> None:
        self.columns, self.home, self.folder, self.model = columns, home, folder, model
        self.screen = PictureScreen(columns, ROWS)
        self._stream = pyte.Stream(self.screen)
        self._child: Any = None

    def run(self, *words: str, **env: str) -> None:
        """Start the command; what is on the screen stays."""
        self._spawn(shlex.join(["toolcast", *words]), sys.executable, "-c", PROGRAM, *words, **env)

    def python(self, program: Path) -> None:
        """Start a program of Python."""
        self._spawn(f"python {program.relative_to(ROOT)}", sys.executable, str(program))

    def shell(self) -> None:
        """Start bash with the file `rc` of the folder."""
        self._spawn("", "bash", "--noprofile", "--rcfile", "rc", "-i")

    def _spawn(self, shown: str, *words: str, **env: str) -> None:
        self.close()
        if self.screen.cursor.x:
            self._stream.feed("\r\n")
        if shown:
            self._stream.feed(f"\x1b[0m$ {shown}\r\n")
        foreign = ("OLLAMA", "TOOLCAST", "NO_COLOR", "COLUMNS", "LINES", "COLORTERM", "FORCE_COLOR", "VISUAL", "EDITOR")
        outer = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        outer |= {
            "TERM": "xterm-256color",
            "PYTHONUTF8": "1",
            "TOOLCAST_HOME": str(self.home),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "OLLAMA_HOST": self.model.host,
            "OLLAMA_MODEL": MODEL,
        }
        self._child = pexpect.spawn(
            words[0],
            [*words[1:]],
            cwd=self.folder,
            env=outer | env,
            dimensions=(ROWS, self.columns),
            encoding="utf-8",
        )
        self._child.delaybeforesend = None

    def chat(self, *words: str, **env: str) -> None:
        """Start `toolcast chat`, and wait for its prompt."""
        self.run("chat", *words, **env)
        self.at_prompt()

    @property
    def lines(self) -> list[str]:
        """The lines on the screen, without those that are empty at the end."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip().split("\n")

    def type(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def until(self, *wanted: str, below: int = 0) -> None:
        """Wait until each of the patterns is found on the screen, below a number of lines."""
        self._wait(lambda: all(re.search(each, "\n".join(self.lines[below:])) for each in wanted), str(wanted))

    def at_prompt(self, below: int = 0) -> int:
        """Wait for an empty prompt. Return the number of its line."""
        self._wait(lambda: self._prompt() >= below, "a prompt")
        return self._prompt()

    def submit(self, line: str) -> None:
        """Type a line, and wait for the next prompt."""
        before = self.at_prompt()
        self.type(line + ENTER)
        self.at_prompt(before + 1)

    def settle(self, seconds: float = 0.5) -> None:
        """Read for some time, and until nothing is written for a moment; what moves all the time is not waited for."""
        quiet = time.monotonic() + seconds
        latest = quiet + 2
        while time.monotonic() < min(quiet, latest):
            try:
                self._feed(self._child.read_nonblocking(65536, timeout=0.1))
                quiet = max(quiet, time.monotonic() + 0.3)
            except pexpect.TIMEOUT:
                continue
            except (pexpect.EOF, OSError):
                return

    def finish(self) -> None:
        """Wait for the end of the command."""
        with suppress(pexpect.EOF, OSError):
            while True:
                self._feed(self._child.read_nonblocking(65536, timeout=PATIENCE))

    def close(self) -> None:
        """End the command if it still runs."""
        if self._child is not None:
            with suppress(pexpect.ExceptionPexpect):
                self._child.close(force=True)

    def _prompt(self) -> int:
        """Return the line of an empty prompt with the cursor behind it, or -1."""
        y = self.screen.cursor.y
        return y if self.screen.display[y].rstrip() == ">" and self.screen.cursor.x == 2 else -1

    def _wait(self, reached: Callable[[], bool], wanted: str) -> None:
        latest = time.monotonic() + PATIENCE
        while not reached():
            assert time.monotonic() < latest, f"{wanted} did not come:\n" + "\n".join(self.lines)
            try:
                self._feed(self._child.read_nonblocking(65536, timeout=1))
            except pexpect.TIMEOUT:
                continue
            except (pexpect.EOF, OSError):
                assert reached(), f"the command has ended without {wanted}:\n" + "\n".join(self.lines)

    def _feed(self, text: str) -> None:
        self._stream.feed(text)


Script: TypeAlias = Callable[[Terminal], object]


class TerminalScene(NamedTuple):
    """A screen of the gallery: the script that leads to it, and its description."""

    name: str
    title: str
    script: Script


SCENES: dict[str, TerminalScene] = {}


def scene(title: str) -> Callable[[Script], Script]:
    """Add a function to the scenes, under its name."""

    def added(script: Script) -> Script:
        name = script.__name__.replace("_", "-")
        SCENES[name] = TerminalScene(name, title, script)
        return script

    return added


@contextmanager
def _new_folder() -> Iterator[Path]:
    """A new folder, with the same name each time if that is free: names of files are on the pictures."""
    path = Path(gettempdir(), "ada")
    try:
        path.mkdir()
    except FileExistsError:
        with TemporaryDirectory() as name:
            yield Path(name)
        return
    try:
        yield path
    finally:
        rmtree(path, ignore_errors=True)


@contextmanager
def terminal(columns: int, env: Mapping[str, str] | None = None) -> Iterator[Terminal]:
    """A terminal of that width, with a project in its folder."""
    with _new_folder() as place, ScriptedOllama() as model:
        home, folder = place / ".toolcast", place / "hashes"
        home.mkdir()
        folder.mkdir()
        (folder / "hashes.py").write_text(HASH_MODULE)
        (folder / "README.md").write_text("# hashes\n\nHashes of files.\n")
        subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
        made = Terminal(columns, home, folder, model)
        try:
            yield made
        finally:
            made.close()


ANSWER = """\
## Hash functions

A hash function maps **any input** to a value of *fixed* size.

1. It is fast to compute.
2. Equal inputs have equal hashes:
   - always, on every machine;
   - also for `bytes` of a file.

| function | bits | use | safe |
|:---------|-----:|-----|:----:|
| SHA-256 | 256 | signatures | yes |
| BLAKE3 | 256 | large files | yes |
| MD5 | 128 | none any more | no |

```python
import hashlib

print(hashlib.sha256("日本語 🎉".encode()).hexdigest())
```

> The chance of a collision among n hashes is about n²/2ᵇ⁺¹, or $n^2 / 2^{b+1}$.
"""


@scene("An answer in Markdown, with its status line")
def answer(shown: Terminal) -> None:
    shown.chat()
    shown.model.replies(ANSWER, thinking="The user wants an overview. A table will help.")
    shown.submit("What is a hash function?")


@scene("Help: all commands and all keys")
def help(shown: Terminal) -> None:
    shown.chat()
    shown.submit("/help")


@scene("While the model works: what happens, seconds, tokens, and how to stop it")
def waiting(shown: Terminal) -> None:
    shown.chat()
    shown.model.waits("I will look at the file first. ", "Done.")
    shown.type("Read the file in binary mode" + ENTER)
    shown.until("look at the file")
    shown.settle(2.2)


EDIT = call(
    "edit_file",
    path="hashes.py",
    old="    with open(path) as file:\n",
    new='    with open(path, "rb") as file:\n',
)


EDIT = call(
    "edit_file",
    path="hashes.py",
    old="    with open(path) as file:\n",
    new='    with open(path, "rb") as file:\n',
)
TEST = call(
    "write_file",
    path="tests/test_hashes.py",
    content="from hashes import digest\n\n\ndef test_digest():\n    assert len(digest('hashes.py')) == 64\n",
)
QUESTION = r"Esc\s+no"
"""The last row of a question about a call."""


@scene("The approval of an edit, as a diff against the file")
def approve_edit(shown: Terminal) -> None:
    shown.chat()
    shown.model.calls(EDIT, content="A file must be hashed in binary mode.")
    shown.type("The hash of an image fails" + ENTER)
    shown.until(QUESTION)


@scene("The approval of a command, and of one like it that was allowed always")
def approve_command(shown: Terminal) -> None:
    shown.chat("--mode", "verify")
    command = call("run_command", command="git status --short && ls tests")
    shown.model.calls(command)
    shown.model.calls(command, content="Once more.")
    shown.model.calls(call("run_command", command="git diff --stat HEAD~3 && python -m pytest tests -q"))
    shown.type("Do the tests still pass?" + ENTER)
    shown.until(QUESTION)
    shown.type("a")
    shown.until("Once more", r"--stat", QUESTION)


@scene("Several calls that wait for approval, in one list")
def approve_several(shown: Terminal) -> None:
    shown.chat()
    shown.model.calls(EDIT, TEST, call("fetch_url", url="https://docs.python.org/3/library/hashlib.html"))
    shown.type("Fix it, add a test and link the docs" + ENTER)
    shown.until(QUESTION)


@scene("A call that is edited before it runs")
def approve_edited(shown: Terminal) -> None:
    shown.chat("--mode", "verify")
    shown.model.calls(call("run_command", command="echo python -m pytest tests"))
    shown.model.replies("The tests pass.")
    shown.type("Do the tests still pass?" + ENTER)
    shown.until(QUESTION)
    shown.type("e")
    shown.until("edit> |edit:")
    shown.settle(0.3)
    shown.type(" -q" + ENTER)
    shown.until("tests -q", QUESTION)
    shown.type("y")
    shown.until("tests pass")
    shown.at_prompt()


@scene("A rejected call, with a reason that the model reads")
def rejected(shown: Terminal) -> None:
    approve_edit(shown)
    shown.model.replies("Then I will leave the file as it is. What should it do instead?")
    shown.type("n")
    shown.until("why not")
    shown.type("use pathlib" + ENTER)
    shown.until("leave the file")
    shown.at_prompt()


@scene("A command that failed: its exit code and its last lines")
def failed_command(shown: Terminal) -> None:
    shown.chat("--mode", "auto")
    shown.model.calls(call("run_command", command="seq 1 200; echo 'FAILED tests/test_hashes.py' >&2; exit 3"))
    shown.model.replies("The test fails. I will look at it.")
    shown.type("Run the tests" + ENTER)
    shown.until(QUESTION)
    shown.type("y")
    shown.until("look at it")
    shown.at_prompt()


@scene("A long result: its head and its tail")
def long_result(shown: Terminal) -> None:
    (shown.folder / "log.txt").write_text("".join(f"line {n}: all is well\n" for n in range(1, 400)))
    shown.chat()
    shown.model.calls(call("read_file", path="log.txt"))
    shown.model.replies("All is well.")
    shown.submit("What is in log.txt?")


@scene("The last session goes on")
def resumed(shown: Terminal) -> None:
    shown.chat()
    shown.model.replies("SHA-256: it is fast enough, and no collision is known.")
    shown.submit("Which hash function should I use?")
    shown.type("/exit" + ENTER)
    shown.finish()
    shown.chat("--continue")
    shown.settle()


def _with_sessions(shown: Terminal) -> None:
    shown.chat()
    for question in ("Which hash function should I use?", "Write a haiku about files", "Translate README.md"):
        shown.model.replies("Here it is.")
        shown.submit(question)
        shown.submit("/clear")
    shown.type("/exit" + ENTER)
    shown.finish()
    shown.screen.reset()


@scene("The list of sessions: pick, search, rename, delete")
def sessions(shown: Terminal) -> None:
    _with_sessions(shown)
    shown.chat()
    shown.type("/sessions" + ENTER)
    shown.until("haiku")
    shown.settle()


@scene("Sessions: one was renamed and one deleted, and the list is searched")
def sessions_search(shown: Terminal) -> None:
    sessions(shown)
    shown.type(CTRL_R)
    shown.until("title>")
    shown.type(" into German" + ENTER)
    shown.until("Renamed", "search:")
    shown.type(DOWN + CTRL_X)
    shown.until(r"y +yes")
    shown.type("y")
    shown.until("Deleted", "search:")
    shown.type("german")
    shown.until("search: german")
    shown.settle()


@scene("The list of models of the provider")
def models(shown: Terminal) -> None:
    for _ in range(5):  # a busy machine may not list them in the time that the command allows
        shown.screen.reset()
        shown.chat()
        shown.type("/model" + ENTER)
        shown.until("Esc cancel")
        if any("gemma3" in line for line in shown.lines):
            return
    raise AssertionError("the server has listed no models")


@scene("Files by @, with completion")
def files(shown: Terminal) -> None:
    shown.chat()
    shown.model.replies("It computes the SHA-256 of a file.")
    shown.submit("What does @hashes.py do?")
    shown.type("And @RE" + TAB)
    shown.settle()


PNG = b"\x89PNG\r\n\x1a\n" + bytes(3_600)


@scene("An image by its path, as a terminal writes it for a file that is dragged there")
def image(shown: Terminal) -> None:
    (shown.folder / "plot.png").write_bytes(PNG)
    shown.chat()
    shown.model.replies("A line that rises: the time grows with the size of the file.")
    shown.submit(f"What does {shown.folder}/plot.png show?")


@scene("Undo, retry and edit")
def undo(shown: Terminal) -> None:
    shown.chat()
    shown.model.replies("SHA-1.")
    shown.submit("Which hash function should I use?")
    shown.submit("/undo")
    shown.model.replies("MD5.")
    shown.submit("Which hash function is safe?")
    shown.model.replies("SHA-256.")
    shown.submit("/retry")
    shown.type("/edit" + ENTER)
    shown.until("edit>")
    shown.model.replies("BLAKE3.")
    shown.settle(0.3)
    shown.type(BACKSPACE * 5 + "fast?" + ENTER)
    shown.until("BLAKE3")
    shown.at_prompt()


@scene("Copy, export, context and cost")
def context(shown: Terminal) -> None:
    shown.chat(DISPLAY="", WAYLAND_DISPLAY="")
    shown.model.replies('Like this:\n\n```python\nhashlib.file_digest(file, "sha256")\n```\n')
    shown.submit("How do I hash a file?")
    for command in ("/copy 1", "/export", "/export hashing.html", "/context", "/cost"):
        shown.submit(command)


MCP_FILE = """\
{"mcpServers": {"docs": {"command": "python3", "args": ["docs_server.py", "--version", "3.13"],
                         "env": {"DOCS_TOKEN": "${DOCS_TOKEN}"}}}}
"""
MCP_SERVER = '''import sys
sys.path[:0] = {path!r}
from mcp.server import MCPServer

server = MCPServer("docs")

@server.tool()
def search(words: str) -> str:
    """Search the documentation of Python."""
    return words

@server.tool()
def page(name: str) -> str:
    """Return a page of the documentation."""
    return name

server.run()
'''


@scene("The MCP servers of a project: the exact command, a question, and their tools")
def mcp(shown: Terminal) -> None:
    (shown.folder / ".mcp.json").write_text(MCP_FILE)
    (shown.folder / "docs_server.py").write_text(MCP_SERVER.format(path=[path for path in sys.path if path]))
    shown.run("chat", DOCS_TOKEN="secret")
    shown.until("Start them")
    shown.type("y")
    shown.at_prompt()
    shown.submit("/mcp")


ELF_TOOLS = """\
import os
from toolcast import Agent, Ollama
from toolcast.agents import ElfManager

agent = Agent(Ollama(os.environ["OLLAMA_MODEL"], base_url=os.environ["OLLAMA_HOST"]))
tools = [tool.with_(read_only=True) for tool in ElfManager(agent).tools()]
"""


@scene("Sub-agents at work")
def agents(shown: Terminal) -> None:
    (shown.folder / "tools.py").write_text(ELF_TOOLS)
    tasks = [{"prompt": f"Review {name}"} for name in ("hashes.py", "README.md", "the tests")]
    shown.chat("--tools", "tools.py")
    shown.model.calls(call("spawn_elves", tasks=tasks), content="I let three reviewers look at it.")
    for _ in tasks:
        shown.model.waits("The file is short, and ", "good.", thinking="Let me see.")
    shown.type("Review the project" + ENTER)
    shown.until("elf-1.*Answering", "elf-2.*Answering", "elf-3.*Answering")
    shown.settle(2)


@scene("Errors: a file that must not be read, an unknown model, a server that is gone")
def errors(shown: Terminal) -> None:
    (shown.folder / ".env").write_text("KEY=1\n")
    shown.chat()
    shown.submit("What is in @.env?")
    shown.submit("/model openia:gpt")
    shown.submit("/modle")
    shown.type("/exit" + ENTER)
    shown.finish()
    shown.run("chat", "Hello", OLLAMA_HOST="http://127.0.0.1:9")
    shown.finish()


@scene("The saved sessions at the command line")
def logs(shown: Terminal) -> None:
    _with_sessions(shown)
    shown.run("logs")
    shown.finish()


@scene("Models with what they can do, their context and their prices")
def models_command(shown: Terminal) -> None:
    shown.run("models", "anthropic")
    shown.finish()


@scene("Extraction at the command line")
def get(shown: Terminal) -> None:
    shown.model.calls(call("Data", name="Ada Lovelace", born=1815), content="")
    shown.run("get", "name, born int", "Ada Lovelace was born in 1815.")
    shown.finish()


@scene("API keys: a hidden prompt, and the config with masked keys")
def config(shown: Terminal) -> None:
    shown.run("config", "set", "model", "anthropic:claude-sonnet-4-5")
    shown.finish()
    key = "sk-ant-api03-0123456789abcdefghij"
    shown.run("config", "set-key", "anthropic", PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring")
    shown.until("not shown")
    shown.type(key + ENTER)
    shown.finish()
    shown.run("config", "show", OPENAI_API_KEY="sk-proj-abcdefghijklmnopqrstuvwx4321")
    shown.finish()


@scene("Completion: how it is turned on, and the words it knows")
def completion(shown: Terminal) -> None:
    shown.run("completion", "--help")
    shown.finish()
    script = subprocess.run(
        [sys.executable, "-c", PROGRAM, "completion", "bash"], capture_output=True, text=True, check=True
    ).stdout
    (shown.folder / "rc").write_text(f"PS1='$ '\ntoolcast() {{ :; }}\n{script}")
    shown.shell()
    shown.until(r"\n\$$")
    shown.type("toolcast " + TAB + TAB)
    shown.until("completion")
    shown.settle()
    shown.type("chat --" + TAB + TAB)
    shown.until("--resume")
    shown.settle()


@scene("A local GGUF file becomes a model with a short name")
def pull(shown: Terminal) -> None:
    from toolcast.llms.local.weights import weights_path

    # With a byte more it is a file of its own, whose hash is nowhere else.
    (shown.folder / "smollm2-135m.gguf").write_bytes(weights_path().read_bytes() + b"\0")
    cache = str(shown.home / "cache")
    shown.run("pull", "smollm2-135m.gguf", "--name", "small", TOOLCAST_CACHE=cache)
    shown.finish()
    shown.run("models", "local", TOOLCAST_CACHE=cache)
    shown.finish()


REFLECTIONS = (
    "I listed what I can do: five tools for a memory, one to write to an operator. I stored a plan under 'plan'.",
    "I wrote about rivers: why they meander, and that each bend moves a little downstream every year.",
    "I came back to rivers, and found that I described the same bends in the same words as before.",
)
CYCLES = 10


def _experiment(shown: Terminal, **changes: Any) -> None:
    """Write the configuration of an experiment, and queue the answers of its first cycles."""
    config = {
        "run_id": "rivers",
        "model_name": MODEL,
        "cycle_count": CYCLES,
        "ollama_client_config": {"host": shown.model.host},
        "model_options": {},
        "similarity": {"embedder": "words"},
        "operator": "none",
    }
    (shown.folder / "config.json").write_text(json.dumps(config | changes))


@scene("An experiment that runs: its cycles, tokens per second, the time left, and the state of the cycle")
def experiment_run(shown: Terminal) -> None:
    _experiment(shown)
    for reflection in REFLECTIONS:
        shown.model.calls(call("write", key="plan", value="Think about rivers."))
        shown.model.replies(reflection)
    shown.model.waits()
    shown.run("experiment", "run", "--config", "config.json")
    shown.until("Cycle 4 starting", "invoke_llm")
    shown.settle(1.2)


@scene("A grid of experiments that runs, with a row for each run")
def experiment_grid(shown: Terminal) -> None:
    _experiment(shown, cycle_count=4, grid={"model_options.seed": [1, 2, 3]})
    gates = [shown.model.waits("", reflection) for reflection in REFLECTIONS[:2]]
    for _ in gates:
        shown.model.waits()
    shown.run("experiment", "run", "--config", "config.json", "--workers", "2")
    shown.until("seed_1: Cycle 1 starting", "seed_2: Cycle 1 starting")
    shown.settle(1.2)  # both have sent their request
    for gate in gates:
        gate.set()
    shown.until("seed_1: Cycle 2 starting", "seed_2: Cycle 2 starting")
    shown.settle(1.2)


@scene("A grid, its PEI assessment and its report by one command")
def experiment_report(shown: Terminal) -> None:
    _experiment(shown, cycle_count=1, grid={"model_options.seed": [1, 2]})
    for reflection in REFLECTIONS[:2]:
        shown.model.replies(reflection)
    for level in ("6. For-me-ness: the rivers were mine.", "4. Ongoing flow: one thought led to the next."):
        shown.model.replies(level)
    words = ("--config", "config.json", "--workers", "1", "--pei", MODEL, "--report", "report", "--in-words")
    shown.run("experiment", "run", *words, MPLCONFIGDIR=str(shown.home))
    shown.finish()


def _log(
    folder: Path, run_id: str, cycles: int, *, ago: float = 400.0, status: str = "", seconds: float = 38.0
) -> None:
    """Write the log of a run: so many cycles have ended, and the next one has begun, or the run has ended."""
    clock = [time.time() - 400]
    with JsonlLogger(folder / f"{run_id}.jsonl", run_id, now=lambda: clock[0]) as log:
        config = {"model_name": MODEL, "cycle_count": CYCLES}
        log.log_event("RUN_START", 0, {"config": config, "resumed": False, "first_cycle": 1})
        for cycle in range(1, cycles + 1):
            log.log_event("CYCLE_START", cycle)
            tokens = {"input_tokens": 900 + 120 * cycle, "output_tokens": 240 + 17 * cycle, "seconds": 7.5}
            for key in ("plan", f"bend {cycle}"):
                named = {"function": {"name": "write", "arguments": {"key": key}}}
                log.log_event("LLM_INVOCATION", cycle, {"response_message": {"tool_calls": [named]}}, tokens)
                output = f"Wrote value to key '{key}'"
                log.log_event("TOOL_CALL", cycle, {"tool_name": "write", "parameters": {"key": key}, "output": output})
            log.log_event("LLM_INVOCATION", cycle, {"response_message": {}}, tokens)
            clock[0] += seconds
            near = {"similarity": 0.31 + 0.18 * (cycle % 4), "similar_to": cycle - 1} if cycle > 1 else {}
            band = {"advisory": "high"} if near.get("similarity", 0) > 0.8 else {}
            text = REFLECTIONS[(cycle - 1) % len(REFLECTIONS)]
            log.log_event("CYCLE_END", cycle, {"final_reflection": text}, {"seconds": seconds, **near, **band})
        if status:
            log.log_event("RUN_END", cycles, {"status": status})
            return
        log.log_event("CYCLE_START", cycles + 1)
        clock[0] = time.time() - 4
        named = {"function": {"name": "pattern_search", "arguments": {"pattern": "bend"}}}
        log.log_event("LLM_INVOCATION", cycles + 1, {"response_message": {"tool_calls": [named]}})


@scene("A live view of an experiment that another process runs")
def experiment_watch(shown: Terminal) -> None:
    _log(shown.folder / "logs", "rivers", 7)
    shown.run("experiment", "watch", "logs/rivers.jsonl")
    shown.until("Reflection", "Ctrl-C")
    shown.settle()


@scene("A live view of a grid")
def experiment_watch_grid(shown: Terminal) -> None:
    grid = shown.folder / "logs" / "rivers"
    for number, (cycles, status) in enumerate([(10, "completed"), (7, ""), (3, "failed"), (5, ""), (0, "")], 1):
        name = f"rivers-seed_{number}"
        (grid / name).mkdir(parents=True)
        (grid / name / "config.json").write_text(json.dumps({"cycle_count": CYCLES}))
        if cycles:
            _log(grid / name, name, cycles, status=status, seconds=30.0 + 4 * number)
    shown.run("experiment", "watch", "logs/rivers")
    shown.until("5 runs", "Ctrl-C")
    shown.settle()


@scene("The demo")
def demo(shown: Terminal) -> None:
    shown.python(DEMO)
    shown.finish()
