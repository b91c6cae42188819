"""`Repl`: reads what a person says, has it answered, and begins again, until there is nothing more to read.

    init ──> idle ──> processing_input ──> streaming_response <──> routing ──> thinking, tool_execution, content_output
              ^               │                    │
              └───────────────┴────────────────────┴──> error ──> idle

The turns go on in a thread of the session; this is the thread that the screen belongs to, and Ctrl-C reaches. A turn
that fails is one line and the prompt again. The states are the table `REPL` (toolcast.states); an observer hears of
each, `state` and `trace` tell them, and a scripted `Screen` is all that a test needs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from textwrap import shorten
from typing import Final

from ...agents.sessions.session import Session
from ...approvals import ApprovalDecision, PermissionRequest
from ...errors import (
    AuthFailed,
    BadRequest,
    ConnectFailed,
    ContextTooLong,
    LLMError,
    NotFound,
    QuotaExceeded,
    ToolcastError,
    TurnStopped,
)
from ...events import ToolProgress
from ...llms.base import FunctionCallingLLM
from ...llms.provider_llms import llm
from ...messages import Message, user
from ...states import REPL, Observer, Trace
from ...toolbox.questions import Question
from ...tools.results import REFUSES_TOOLS
from ..cli_errors import command_words
from .approval_prompt import answered, asked
from .commands import COMMANDS, typed_command
from .conversation import OpenConversation
from .event_router import EventRouter
from .screen import Screen

PROMPT: Final = "> "
INTERRUPTED: Final = 130
"""The exit code of who leaves by Ctrl-C, as shells have it."""

_EXITS: Final = ("", "exit", "quit")

_SHOWN_QUESTION: Final = 200
_SHOWN_ANSWER: Final = 2000
"""Characters of the last exchange that are shown when a session is gone on with."""

_HINTS: Final[Mapping[type[BaseException], str]] = {
    ConnectFailed: "is a server running there? --host or OLLAMA_HOST say where; /retry asks again",
    AuthFailed: "is the key right? --token or the service's environment variable has it",
    NotFound: "/model NAME takes another model",
    ContextTooLong: "/undo takes the last turn back, /clear begins anew",
    QuotaExceeded: "/model NAME takes another model",
    LLMError: "/retry asks again",
    TurnStopped: "say 'go on', or /undo",
    BaseException: "/retry asks again; --debug shows where it failed",
}
"""What to do now, by the first row that fits."""


class Repl:
    """The loop over one `conversation` on one `screen`. `run` gives the exit code.

    `model` gives the LLM for the name behind `/model`. `failed` hears of every error, for a log; `observer(id, state)`
    of every state.
    """

    def __init__(
        self,
        conversation: OpenConversation,
        screen: Screen,
        *,
        model: Callable[[str], FunctionCallingLLM] = llm,
        observer: Observer | None = None,
        failed: Callable[[BaseException], object] | None = None,
    ) -> None:
        self.conversation: OpenConversation = conversation
        self.screen: Screen = screen
        self.model: Callable[[str], FunctionCallingLLM] = model
        self.trace: list[str] = []
        self._states = Trace(REPL, observer)
        self._routes = EventRouter(screen, self._step, self._hear)
        self._log = failed
        self._has_failed = False
        self._is_over = False

    @property
    def state(self) -> str:
        """Where the loop is, as the table `REPL` (toolcast.states) names it."""
        return self._states.state

    @property
    def session(self) -> Session:
        """The session that is open."""
        return self.conversation.session

    def run(self) -> int:
        """Read and answer until the end. 0: all went well; 1: something failed, with nobody there; 130: Ctrl-C."""
        try:
            code = self._loop()
        finally:
            self._step("left")
            self.conversation.close()
        if self.screen.is_interactive and self.conversation.engine.history:
            self.screen.note(f"toolcast chat --session {self.session.id} goes on here.")
        return code

    def leave(self) -> None:
        """End the loop, once what is being done is done."""
        self._is_over = True

    def ask(self, said: Message) -> None:
        """A turn that answers `said`."""
        self._step("asked")
        self._turn(said)

    def show_where_it_was_left(self) -> None:
        """Show how much was said in the session, and the last exchange of it."""
        history = self.conversation.engine.history
        if not history:
            self.screen.note(f"A new session begins: {self.session.id}.")
            return
        questions = sum(message.role == "user" for message in history)
        said = f"{counted(len(history), 'message')}, {counted(questions, 'question')}"
        self.screen.note(f"The session {self.session.id} goes on: {said}. It ended with:")
        last = self.conversation.last_exchange
        question = " ".join(message.text for message in last if message.role == "user")
        self.screen.note(f"{PROMPT}{shorten(question, _SHOWN_QUESTION, placeholder=' ...')}")
        answer = "\n\n".join(message.text for message in last if message.role == "assistant" and message.text)
        shown = answer if len(answer) <= _SHOWN_ANSWER else f"... {answer[-_SHOWN_ANSWER:]}"
        self.screen.content(shown)
        self.screen.end_answer()

    def fail(self, message: str, hint: str = "") -> None:
        """Tell of an error, in one line."""
        self._has_failed = True
        self.screen.end_answer()
        self.screen.error(" ".join(command_words(message).split()), hint if self.screen.is_interactive else "")

    # One input.

    def _loop(self) -> int:
        try:
            self._step("opened")
            self._go_on_where_it_was_left()
            while not self._is_over and (said := self.screen.read(PROMPT)) is not None:
                self._take(said.strip())
        except KeyboardInterrupt:
            return INTERRUPTED
        return int((self._has_failed or self._routes.has_skipped) and not self.screen.is_interactive)

    def _take(self, said: str) -> None:
        """Do what one input asks for."""
        if said.lower() in _EXITS:
            self.leave()
            return
        self.trace = [self.state]
        self._step("entered")
        try:
            self._do(said)
        except ToolcastError as error:
            self.fail(str(error))
        except KeyboardInterrupt:
            if self.state != "processing_input":  # a turn that does not end, or for which nobody is there
                raise
            self.screen.note("(broken off)")
        if self.state == "processing_input":
            self._step("done")

    def _do(self, said: str) -> None:
        if typed := typed_command(said):
            self._command(*typed)
        elif said.startswith("!") and "\n" not in said and self.screen.is_interactive:
            self._run_shell(said.removeprefix("!").strip())
        else:
            self.ask(user(said))

    def _command(self, name: str, argument: str) -> None:
        command = COMMANDS.get(name)
        if command is None:
            near = get_close_matches(name, COMMANDS, 1, 0.0)[0]
            self.fail(f"there is no command {name}", f"{near} is the nearest, /help lists all")
        else:
            command.run(self, argument)

    def _run_shell(self, command: str) -> None:
        """Run a command of the person's own, on this very terminal."""
        mode = self.conversation.kit.mode
        if not mode.runs_commands:
            self.fail(f"the mode {mode.name} runs no commands", "/mode verify and /mode auto do")
        elif code := subprocess.run(command, shell=True, check=False).returncode:
            self.screen.note(f"(exit code {code})")

    # One turn.

    def _go_on_where_it_was_left(self) -> None:
        """Finish the turn in the middle of which the session was left. Without a person it is for the next question."""
        if self.session.unfinished and self.screen.is_interactive:
            self.screen.note("The session was left in the middle of a turn, which goes on now.")
            self._step("went_on")
            self._turn(None)

    def _turn(self, said: Message | None) -> None:
        """A whole turn, with all that the person is asked in it. However it ends, the prompt comes back."""
        try:
            if said is not None or not self.session.pending:
                self._listen(said)
            while requests := self.session.pending:
                self._step("approval_needed")
                answers = self._answers(requests)
                self._step("routed")
                self._listen(None, answers)
            self._step("ended")
        except KeyboardInterrupt:
            self._cancel()
        except BrokenPipeError:  # nobody reads what is written
            raise
        except (Exception, SystemExit) as error:  # a foreign tool or model: its failure is one line, then the prompt
            # Whatever ends a turn, foreign tools and models among it, is one line and the prompt again.
            self._stop()
            self._step("failed")
            self._tell(error)
            self._step("recovered")
        finally:
            self.screen.end_answer()
            if said is not None:
                self.conversation.settle(said)

    def _listen(self, said: Message | None, answers: Iterable[ApprovalDecision] = ()) -> None:
        """Have the session go on, without tools where the model takes none. Raises what it ends with."""
        try:
            self._hear_out(said, answers)
        except (BadRequest, NotFound) as error:
            kit = self.conversation.kit
            if not kit.tools or not REFUSES_TOOLS.search(str(error)):
                raise
            self.screen.note(f"{kit.llm.metadata.model_name} takes no tools, and is offered none from now on.")
            self.conversation.use(replace(kit, toolless=kit.llm))
            self._hear_out(said, answers)

    def _hear_out(self, said: Message | None, answers: Iterable[ApprovalDecision]) -> None:
        """Have the session go on, and show what it tells."""
        self.session.send(said, answers=answers)
        events = self.session.events()
        for event in events:
            self._routes.take(event)
            if events.is_caught_up:
                self.screen.catch_up()
        self.session.result()

    def _answers(self, requests: Iterable[PermissionRequest]) -> list[ApprovalDecision]:
        """What the person says to each. After an `always` the calls of that tool are left: most need no answer now."""
        answers: list[ApprovalDecision] = []
        always: set[str] = set()
        for request in requests:
            if request.tool not in always:
                answers.append(asked(self.screen, request))
            if answers[-1].action == "allow_session":
                always.add(request.tool)
        return answers

    def _hear(self, said: ToolProgress) -> None:
        """What a running tool says: a question to the person, or something to show."""
        if isinstance(said.data, Question):
            answered(self.screen, said.data)
            return
        text = said.data if isinstance(said.data, str) else f"{said.data}\n"
        self.screen.call_progress(said.call_id, said.name, text)

    def _cancel(self) -> None:
        """Ctrl-C: end the turn. Where nobody is at the prompt, it ends all."""
        self._stop()
        if self.state != "idle":  # it came so late that the turn had ended
            self._step("cancelled")
        self.screen.end_answer()
        self.screen.note("(cancelled)")
        if not self.screen.is_interactive:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        """End the turn that is going on, if there is one, and wait for its end."""
        self.session.cancel()
        for _ in self.session.events():
            pass

    def _tell(self, error: BaseException) -> None:
        hint = next(words for kind, words in _HINTS.items() if isinstance(error, kind))
        kind = "" if isinstance(error, ToolcastError) else f"{type(error).__name__}: "
        self.fail(f"{kind}{error}".removesuffix(": "), hint)
        if self._log is not None:
            self._log(error)

    def _step(self, event: str) -> None:
        self._states.step(event)
        self.trace.append(self.state)


def counted(count: int, noun: str) -> str:
    """Return the number of things with their noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
