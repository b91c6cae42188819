"""The scenes of the gallery on the page: each clicks and types in a Chromium, which shows the real `toolcast web`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from gallery_model import MODEL, ScriptedOllama, call
from gallery_terminal import ANSWER, EDIT, HASH_MODULE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SIZES = {390: 844, 1280: 800}
PICTURE = Path(__file__).parent / "images" / "web-messages-1280-light.png"
PROGRAM = "import sys; from toolcast.apps.cli import main; sys.exit(main())"

RIGHT_TO_LEFT = """\
## دالة التجزئة

تحوّل **دالة التجزئة** أي مدخل إلى قيمة ذات طول ثابت، مثل `SHA-256`.

- سريعة الحساب
- لا يمكن عكسها

- [x] اختيار دالة
- [ ] قياس السرعة

| الدالة | عدد البتات |
|---|---|
| SHA-256 | 256 |

> פונקציית גיבוב ממפה כל קלט לערך בגודל קבוע.

What is left to do:

- [x] choose a hash: ~~MD5~~ SHA-256
- [x] read files in binary mode
- [ ] hash large files in pieces
  - [ ] measure it
"""
WIDE_TABLE = """\
| function | bits | block size | rounds | year | designed by | speed (MB/s) | status |
|:--|--:|--:|--:|--:|:--|--:|:--|
| MD5 | 128 | 512 | 64 | 1992 | Ronald Rivest | 650 | broken |
| SHA-1 | 160 | 512 | 80 | 1995 | NSA | 900 | broken |
| SHA-256 | 256 | 512 | 64 | 2001 | NSA | 2,000 | in use |
| BLAKE3 | 256 | 512 | 7 | 2020 | O'Connor, Aumasson, Neves, Wilcox-O'Hearn | 6,800 | in use |

SHA-256 is the one to choose where others must check the hash.
"""


class Shown:
    """The page in a tab, with its server, the scripted model and a project as the server's folder."""

    def __init__(self, page: Page, model: ScriptedOllama, home: Path, folder: Path) -> None:
        self.page, self.model, self.home, self.folder = page, model, home, folder

    @property
    def is_phone(self) -> bool:
        """True if the tab is as narrow as a phone."""
        size = self.page.viewport_size
        return size is not None and size["width"] < 700

    def find(self, selector: str, has_text: str | None = None) -> Locator:
        """Return what a CSS selector selects."""
        return self.page.locator(selector, has_text=has_text)

    def press(self, name: str, inside: str = "body") -> None:
        """Click the last button of that name."""
        self.find(inside).get_by_role("button", name=name, exact=True).last.click()

    def submit(self, text: str) -> None:
        """Send a message."""
        self.find("#text").fill(text)
        self.page.keyboard.press("Enter")

    def in_state(self, *states: str) -> None:
        """Wait for one of these states of the chat."""
        self.find(", ".join(f"#state[data-state={state}]" for state in states)).wait_for()

    def ask(self, text: str, answer: str = "") -> None:
        """Send a message, and wait for the end of the turn."""
        if answer:
            self.model.replies(answer)
        before = self.find("#log .assistant").count()
        self.submit(text)
        self.find("#log .assistant:not(.live)").nth(before).wait_for()
        self.in_state("ready")

    def ask_for_approval(self, text: str, *calls: dict[str, Any], content: str = "") -> None:
        """Send a message that is answered by calls, and wait until they are shown."""
        self.model.calls(*calls, content=content)
        self.submit(text)
        self.in_state("waiting_for_tool_approval")
        self.find(".approval").nth(len(calls) - 1).wait_for()

    def choose_mode(self, name: str) -> None:
        """Change what the model may do."""
        self.find("#mode").click()
        self.page.get_by_role("menuitemradio", name=name).click()
        self.find("#mode-name", has_text=name).wait_for()
        self.page.mouse.move(0, 0)

    def new_chat(self) -> None:
        """Begin a chat."""
        before = self.page.url
        self.show_chats()
        self.find("#new-chat").click()
        self.page.wait_for_function("before => location.href !== before", arg=before)
        self.in_state("ready")

    def show_chats(self) -> None:
        """Open the list of chats, if it is hidden."""
        if self.is_phone:
            self.find("#unfold").click()

    def has_chats(self, count: int) -> None:
        """Wait until the list has that many chats."""
        self.find("#chat-list li").nth(count - 1).wait_for()

    def settle(self) -> None:
        """Wait until what moves has come to rest."""
        self.page.wait_for_timeout(500)

    def picture(self, scheme: Literal["light", "dark"]) -> bytes:
        """Return the page as a PNG with a palette of 192 colours."""
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.page.wait_for_timeout(50)
        return with_palette(self.page.screenshot(caret="initial", animations="disabled"))


def with_palette(png: bytes) -> bytes:
    """Return a picture with its 96 most frequent colours as they are, and 96 others for the edges of letters."""
    import numpy
    from PIL import Image

    drawn = Image.open(BytesIO(png)).convert("RGB")
    counts = sorted(drawn.getcolors(1 << 24) or (), reverse=True)
    frequent = [colour for _, colour in counts[:96]]
    others = drawn.quantize(96, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).getpalette() or []
    palette = numpy.array([*frequent, *zip(others[::3], others[1::3], others[2::3], strict=True)], dtype=numpy.int32)
    colours = numpy.array([colour for _, colour in counts], dtype=numpy.int32)
    nearest = ((colours[:, None, :] - palette[None]) ** 2).sum(axis=2).argmin(axis=1).astype(numpy.uint8)
    keys = colours @ (65536, 256, 1)
    order = keys.argsort()
    pixels = numpy.asarray(drawn, dtype=numpy.int32) @ (65536, 256, 1)
    reduced = Image.fromarray(nearest[order][numpy.searchsorted(keys[order], pixels)], "P")
    reduced.putpalette(palette.astype(numpy.uint8).tobytes())
    out = BytesIO()
    reduced.save(out, "PNG", optimize=True)
    return out.getvalue()


Script: TypeAlias = Callable[[Shown], object]


class PageScene(NamedTuple):
    """A screen of the gallery: the script that leads to it, and its description."""

    name: str
    title: str
    script: Script


SCENES: dict[str, PageScene] = {}


def scene(title: str) -> Callable[[Script], Script]:
    """Add a function to the scenes, under its name with the prefix `page-`."""

    def added(script: Script) -> Script:
        name = f"page-{script.__name__.strip('_').replace('_', '-')}"
        SCENES[name] = PageScene(name, title, script)
        return script

    return added


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = os.environ.get("TOOLCAST_CHROMIUM") or which("chromium") or which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def page(browser: Browser, width: int) -> Iterator[Shown]:
    """A new tab of that width, with a new server. A narrow one is a phone's: it has touch, and nothing hovers."""
    with TemporaryDirectory() as name, ScriptedOllama() as model:
        home, folder = Path(name, "home"), Path(name, "hashes")
        home.mkdir()
        folder.mkdir()
        (folder / "hashes.py").write_text(HASH_MODULE)
        names = ("OLLAMA", "TOOLCAST_H", "TOOLCAST_MODEL")
        env = {key: value for key, value in os.environ.items() if not key.startswith(names)}
        env |= {"TOOLCAST_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "OLLAMA_HOST": model.host}
        env |= {"OLLAMA_MODEL": MODEL, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-c", PROGRAM, "web", "--no-browser", "--port", "0", "--mode", "auto"]
        server = subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert server.stdout is not None
        try:
            printed = ""
            while not (found := re.search(r"http://\S+", printed)):
                line = server.stdout.readline()
                assert line, f"the server has ended: {printed}"
                printed += line
            context = browser.new_context(
                viewport={"width": width, "height": SIZES[width]},
                reduced_motion="reduce",
                has_touch=width < 700,
                is_mobile=width < 700,
            )
            context.set_default_timeout(20_000)
            tab = context.new_page()
            tab.goto(found[0])
            shown = Shown(tab, model, home, folder)
            shown.in_state("ready")
            yield shown
            context.close()
        finally:
            server.terminate()
            server.communicate(timeout=30)


@scene("A new chat")
def new(shown: Shown) -> None:
    shown.settle()


@scene("An answer: Markdown, a table, code with its language, mathematics")
def answer(shown: Shown) -> None:
    shown.model.replies(ANSWER, thinking="The user wants an overview. A table will help.")
    shown.ask("What is a hash function?")
    shown.settle()


@scene("While the answer streams: the state, a queued message, and how to stop")
def streaming(shown: Shown) -> None:
    _streams(shown)
    shown.settle()


@scene("A queued message is edited")
def edit_queued(shown: Shown) -> None:
    _streams(shown)
    shown.find("#queue").get_by_role("button", name="Edit").click()
    shown.settle()


def _streams(shown: Shown) -> None:
    shown.model.waits("A hash function maps any input to a value of fixed size. It ", "is fast.")
    shown.submit("What is a hash function?")
    shown.page.get_by_text("fixed size").wait_for()
    shown.submit("And which one is the fastest?")
    shown.find("#queue li").wait_for()


@scene("The approval of an edit, as a diff against the file")
def approve_edit(shown: Shown) -> None:
    shown.choose_mode("build")
    shown.ask_for_approval("The hash of an image fails", EDIT, content="A file must be hashed in binary mode.")
    shown.settle()


@scene("Several calls that wait for approval, in one list")
def approve_several(shown: Shown) -> None:
    shown.choose_mode("build")
    test = "from hashes import digest\n\n\ndef test_digest():\n    assert len(digest('hashes.py')) == 64\n"
    shown.ask_for_approval(
        "Fix it as the manual says, and add a test",
        EDIT,
        call("write_file", path="tests/test_hashes.py", content=test),
        call("fetch_url", url="https://docs.python.org/3/library/hashlib.html"),
    )
    shown.settle()


@scene("What “Always allow” will allow, before it is clicked")
def always(shown: Shown) -> None:
    shown.ask_for_approval("What has changed?", call("run_command", command="git diff --stat"))
    shown.find(".approval .always").focus()
    shown.settle()


@scene("A command is edited before it runs")
def edit_command(shown: Shown) -> None:
    command = "git diff --stat HEAD~3 && python -m pytest tests -q"
    shown.ask_for_approval("Do the tests still pass?", call("run_command", command=command))
    shown.find(".approval .edit").click()
    shown.settle()


@scene("A call is rejected with a reason")
def reject(shown: Shown) -> None:
    shown.ask_for_approval("Clean up", call("run_command", command="git clean -fdx"))
    shown.find(".approval .reason").fill("keep the downloaded models")
    shown.settle()


@scene("The results of tools: a command that failed, and a rejected call with its reason")
def results(shown: Shown) -> None:
    shown.model.calls(call("read_file", path="hashes.py"), content="I will read the file and run the tests.")
    shown.ask_for_approval("Do the tests pass?", call("run_command", command="seq 1 200; echo FAILED; exit 3"))
    shown.model.calls(call("run_command", command="git clean -fdx"))
    shown.find(".approval .approve").click()
    shown.find(".approval .command", has_text="clean").wait_for()
    shown.model.replies("One test fails. I have deleted nothing.")
    shown.find(".approval .reason").fill("keep the downloaded models")
    shown.find(".approval .reject").click()
    shown.page.get_by_text("deleted nothing").wait_for()
    shown.in_state("ready")
    shown.settle()


@scene("The list of chats, with the actions of one")
def chats(shown: Shown) -> None:
    _three_chats(shown)
    shown.find(".chat-menu").last.click()
    shown.settle()


@scene("Chats are searched")
def search_chats(shown: Shown) -> None:
    _three_chats(shown)
    shown.find("#chat-search").fill("haiku")
    shown.find("#chat-list li").nth(2).wait_for(state="detached")
    shown.settle()


@scene("A chat is renamed")
def rename_chat(shown: Shown) -> None:
    _three_chats(shown)
    shown.find(".chat-menu").nth(1).click()
    shown.page.get_by_role("menuitem", name="Rename").click()
    shown.settle()


@scene("A chat is deleted, after a question")
def delete_chat(shown: Shown) -> None:
    _three_chats(shown)
    shown.find(".chat-menu").nth(1).click()
    shown.page.get_by_role("menuitem", name="Delete").click()
    shown.settle()


def _three_chats(shown: Shown) -> None:
    for number, question in enumerate(("Which hash should I use?", "A haiku about files", "Translate README.md")):
        if number:
            shown.new_chat()
        shown.ask(question, f"Here is my answer to: {question}")
    shown.show_chats()
    shown.has_chats(3)


@scene("Several chats at once: one works, and one waits for an approval")
def several(shown: Shown) -> None:
    shown.model.waits("Files are ", "like leaves.")
    shown.submit("A haiku about files")
    shown.page.get_by_text("Files are").wait_for()
    shown.new_chat()
    shown.ask_for_approval("Clean up", call("run_command", command="git clean -fdx"))
    shown.new_chat()
    shown.ask("Which hash should I use?", "SHA-256, unless the files are very large: then BLAKE3.")
    shown.show_chats()
    shown.has_chats(3)
    shown.find(".badge.waits").wait_for()
    shown.find(".badge.runs").wait_for()
    shown.settle()


@scene("The models of the provider")
def models(shown: Shown) -> None:
    shown.find("#model").click()
    shown.find("#model-list [data-model='ollama:gemma3:4b']").wait_for()
    shown.settle()


@scene("The modes: what the model may do")
def modes(shown: Shown) -> None:
    shown.find("#mode").click()
    shown.settle()


@scene("Files before they are sent")
def files(shown: Shown) -> None:
    _attach(shown)
    shown.find("#text").fill("Does the picture fit the code?")
    shown.settle()


@scene("Attached files in the log")
def picture(shown: Shown) -> None:
    _attach(shown)
    shown.ask("Does the picture fit the code?", "Yes: it shows the page that the code draws.")
    shown.page.wait_for_function(
        "document.querySelector('.picture :is(img, canvas)').getBoundingClientRect().width > 99"
    )
    shown.settle()


def _attach(shown: Shown) -> None:
    shown.page.set_input_files("#file-input", [str(shown.folder / "hashes.py"), str(PICTURE)])
    shown.find("#chips .chip[aria-busy=false]").nth(1).wait_for()


@scene("A message is edited")
def edit_message(shown: Shown) -> None:
    shown.ask("Which hash function should I use?", "SHA-256.")
    shown.find("#log .user").hover()
    shown.press("Edit message")
    shown.settle()


@scene("Another answer to the same question: the branches of a chat")
def branches(shown: Shown) -> None:
    shown.ask("Which hash function should I use?", "SHA-256.")
    shown.model.replies("BLAKE3, if the files are large.")
    shown.press("Regenerate the answer")
    shown.page.get_by_text("if the files are large").wait_for()
    shown.in_state("ready")
    shown.settle()


@scene("A turn that was stopped leaves a trace")
def stopped(shown: Shown) -> None:
    shown.model.waits("A hash function maps any input to a ", "value.")
    shown.submit("What is a hash function?")
    shown.page.get_by_text("any input").wait_for()
    shown.find("#stop").click()
    shown.in_state("ready")
    shown.settle()


@scene("A turn that failed: why, and another try")
def failed(shown: Shown) -> None:
    for _ in range(9):
        shown.model.fails("model requires more system memory (5.6 GiB) than is available (3.9 GiB)")
    shown.submit("What is a hash function?")
    shown.page.get_by_text("5.6 GiB").first.wait_for()
    shown.settle()


@scene("Text from right to left, task boxes, and what is struck out")
def right_to_left(shown: Shown) -> None:
    shown.ask("ما هي دالة التجزئة؟", RIGHT_TO_LEFT)
    shown.settle()


@scene("A table that is wider than a phone")
def wide_table(shown: Shown) -> None:
    shown.ask("Compare the hash functions", WIDE_TABLE)
    shown.settle()


@scene("A chat of 10,000 messages, scrolled up")
def long(shown: Shown) -> None:
    from toolcast.apps.web.saved_chat import SavedChat
    from toolcast.chat.chat_context import ChatContext
    from toolcast.messages import Message, assistant, user
    from toolcast.stores.sqlite_store import SQLiteStore

    def text(number: int) -> Message:
        question = f"Question {number // 2 + 1:,}: which files are the same?"
        return user(question) if number % 2 == 0 else assistant(f"Those whose hash begins with `{number:06x}`.")

    with SQLiteStore(shown.home / "sessions.db") as store:
        chat = SavedChat("long", store)
        chat.save("ready", ChatContext(messages=tuple([text(number) for number in range(10_000)])))
        chat.close()
    shown.page.evaluate("location.hash = 'long'")
    shown.page.get_by_text("Question 5,000").first.wait_for()
    shown.page.mouse.move(700, 400)
    shown.find("#log").focus()
    for _ in range(3):
        shown.page.keyboard.press("PageUp")
        shown.page.wait_for_timeout(200)
    shown.find(".newest").wait_for()
    shown.settle()


@scene("The details: usage, notifications, and the states of the chat")
def details(shown: Shown) -> None:
    shown.ask("Which hash function should I use?", "SHA-256.")
    shown.find("#details-button").click()
    shown.find("#states summary").click()
    shown.settle()


@scene("The keyboard shortcuts")
def shortcuts(shown: Shown) -> None:
    shown.find("#log").focus()
    shown.page.keyboard.press("?")
    shown.find("#shortcuts[open]").wait_for()
    shown.settle()
