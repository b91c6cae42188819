"""The read-eval-print loop: read an input, answer it, repeat until the end of input.

    init ──> idle ──> processing_input ──> streaming_response <──> routing ──> thinking, tool_execution, content_output
              ^               │                    │
              └───────────────┴────────────────────┴──> error ──> idle

Turns run in a thread of the session; the REPL runs in the thread that owns the screen and receives Ctrl-C. A turn
that fails prints one line and the prompt returns. The states are the table `REPL` (toolcast.states); an observer is
called for each, and `state` and `trace` expose them. Tests replace the terminal by a scripted `Screen`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from textwrap import shorten
from typing import Final

from ...agents.sessions.session import Session
from ...approvals import ApprovalDecision
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
from ...tools.results import refuses_tools
from ..output import command_line_text
from .approval_prompt import ask_permissions, ask_question
from .commands import COMMANDS, typed_command
from .conversation import OpenConversation
from .event_router import EventRouter
from .screen import Screen

PROMPT: Final = "> "
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as in shells: 128 + SIGINT."""

_EXITS: Final = ("", "exit", "quit")

_SHOWN_QUESTION: Final = 200
_SHOWN_ANSWER: Final = 2000
"""Characters of the last question and answer that are shown when a session is resumed."""

_HINTS: Final[Mapping[type[BaseException], str]] = {
    ConnectFailed: "check that the server runs at the address in --host or OLLAMA_HOST; /retry sends the message again",
    AuthFailed: "check the API key in --token or in the service's environment variable",
    NotFound: "/model NAME switches to another model",
    ContextTooLong: "/undo removes the last turn, /clear starts a new conversation",
    QuotaExceeded: "/model NAME switches to another model",
    LLMError: "/retry sends the message again",
    TurnStopped: "type 'go on' to continue, or /undo",
    BaseException: "/retry sends the message again; --debug logs the traceback",
}
"""The next step after an error, from the first row that matches its class."""


class Repl:
    """The loop over one conversation on one screen.

    Args:
        conversation: The open conversation.
        screen: The screen to show output on and read input from.
        model: Returns the LLM for the name given to `/model`.
        observer: Called with an id and the state at every state change.
        on_error: Called with every error of a turn, for a log.
    """

    def __init__(
        self,
        conversation: OpenConversation,
        screen: Screen,
        *,
        model: Callable[[str], FunctionCallingLLM] = llm,
        observer: Observer | None = None,
        on_error: Callable[[BaseException], object] | None = None,
    ) -> None:
        self.conversation: OpenConversation = conversation
        self.screen: Screen = screen
        self.model: Callable[[str], FunctionCallingLLM] = model
        self.trace: list[str] = []
        self._states = Trace(REPL, observer)
        self._router = EventRouter(screen, self._step, self._on_tool_progress)
        self._on_error = on_error
        self._has_failed = False
        self._is_over = False

    @property
    def state(self) -> str:
        """The current state, as the table `REPL` (toolcast.states) names it."""
        return self._states.state

    @property
    def session(self) -> Session:
        """The open session."""
        return self.conversation.session

    def run(self, prompt: str | None = None) -> int:
        """Answer `prompt`, or read and answer until the end of input, and return the exit code.

        Returns:
            0, 1 if something failed without a person to go on, or 130 after Ctrl-C.
        """
        try:
            code = self._loop(prompt)
        finally:
            self._step("left")
            self.conversation.close()
        if self.screen.is_interactive and self.conversation.engine.history:
            self.screen.note(f"Continue with: toolcast chat --session {self.session.id}")
        return code

    def leave(self) -> None:
        """End the loop after the current input."""
        self._is_over = True

    def ask(self, message: Message) -> None:
        """Run a turn that answers `message`."""
        self._step("asked")
        self._turn(message)

    def show_resumed_session(self) -> None:
        """Show the number of messages in the session, and its last exchange."""
        history = self.conversation.engine.history
        if not history:
            self.screen.note(f"New session: {self.session.id}.")
            return
        questions = sum(message.role == "user" for message in history)
        counts = f"{pluralize(len(history), 'message')}, {pluralize(questions, 'question')}"
        self.screen.note(f"Resuming session {self.session.id}: {counts}. The last exchange:")
        last = self.conversation.last_exchange
        question = " ".join(message.text for message in last if message.role == "user")
        self.screen.note(f"{PROMPT}{shorten(question, _SHOWN_QUESTION, placeholder=' ...')}")
        answer = "\n\n".join(message.text for message in last if message.role == "assistant" and message.text)
        shown = answer if len(answer) <= _SHOWN_ANSWER else f"... {answer[-_SHOWN_ANSWER:]}"
        self.screen.content(shown)
        self.screen.end_answer()

    def fail(self, message: str, hint: str = "") -> None:
        """Show an error as one line."""
        self._has_failed = True
        self.screen.end_answer()
        self.screen.error(" ".join(command_line_text(message).split()), hint if self.screen.is_interactive else "")

    # One input.

    def _loop(self, prompt: str | None) -> int:
        try:
            self._step("opened")
            if prompt is not None:
                self._process(prompt)
                return int(self._has_failed or self._router.has_skipped)
            self._finish_interrupted_turn()
            while not self._is_over and (text := self.screen.read(PROMPT)) is not None:
                self._process(text.strip())
        except KeyboardInterrupt:
            return INTERRUPTED
        return int((self._has_failed or self._router.has_skipped) and not self.screen.is_interactive)

    def _process(self, text: str) -> None:
        """Process one input."""
        if text.lower() in _EXITS:
            self.leave()
            return
        self.trace = [self.state]
        self._step("entered")
        try:
            self._dispatch(text)
        except ToolcastError as error:
            self.fail(str(error))
        except KeyboardInterrupt:
            if self.state != "processing_input":  # a turn does not end, or there is no terminal
                raise
            self.screen.note("(interrupted)")
        if self.state == "processing_input":
            self._step("done")

    def _dispatch(self, text: str) -> None:
        if typed := typed_command(text):
            self._command(*typed)
        elif text.startswith("!") and "\n" not in text and self.screen.is_interactive:
            self._run_shell(text.removeprefix("!").strip())
        else:
            self.ask(user(text))

    def _command(self, name: str, argument: str) -> None:
        command = COMMANDS.get(name)
        if command is None:
            near = get_close_matches(name, COMMANDS, 1, 0.0)[0]
            self.fail(f"unknown command {name}", f"did you mean {near}? /help lists all commands")
        else:
            command.run(self, argument)

    def _run_shell(self, command: str) -> None:
        """Run a shell command of the user in this terminal."""
        mode = self.conversation.setup.mode
        if not mode.runs_commands:
            self.fail(f"mode {mode.name} does not run commands", "switch with /mode verify or /mode auto")
        elif code := subprocess.run(command, shell=True, check=False).returncode:
            self.screen.note(f"(exit code {code})")

    # One turn.

    def _finish_interrupted_turn(self) -> None:
        """Finish a turn that was open when the session was closed. Without a terminal the next message does that."""
        if self.session.unfinished and self.screen.is_interactive:
            self.screen.note("The session's last turn was interrupted; continuing it.")
            self._step("went_on")
            self._turn(None)

    def _turn(self, message: Message | None) -> None:
        """Run a whole turn, including its approval requests. The prompt returns however the turn ends."""
        try:
            if message is not None or not self.session.pending:
                self._run_session(message)
            while requests := self.session.pending:
                self._step("approval_needed")
                answers = ask_permissions(self.screen, requests)
                self._step("routed")
                self._run_session(None, answers)
            self._step("ended")
        except KeyboardInterrupt:
            self._cancel()
        except BrokenPipeError:  # the reader of stdout has gone
            raise
        except (Exception, SystemExit) as error:  # code of tools and models: any error is shown, and the prompt returns
            self._stop()
            self._step("failed")
            self._report(error)
            self._step("recovered")
        finally:
            self.screen.end_answer()
            if message is not None:
                self.conversation.remember_unanswered(message)

    def _run_session(self, message: Message | None, answers: Iterable[ApprovalDecision] = ()) -> None:
        """Run the session to its next pause, and again without tools if the model rejects them."""
        try:
            self._send_and_show(message, answers)
        except (BadRequest, NotFound) as error:
            setup = self.conversation.setup
            if not setup.tools or not refuses_tools(error):
                raise
            self.screen.note(f"{setup.llm.metadata.model_name} does not support tools; continuing without them.")
            self.conversation.use(replace(setup, toolless=setup.llm))
            self._send_and_show(message, answers)

    def _send_and_show(self, message: Message | None, answers: Iterable[ApprovalDecision]) -> None:
        """Send the message and the approval decisions, and show the events of the turn."""
        self.session.send(message, answers=answers)
        events = self.session.events()
        for event in events:
            self._router.route(event)
            if events.is_caught_up:
                self.screen.flush_updates()
        self.session.result()

    def _on_tool_progress(self, message: ToolProgress) -> None:
        """Show the progress of a running tool, or pass its question to the user."""
        if isinstance(message.data, Question):
            ask_question(self.screen, message.data)
            return
        text = message.data if isinstance(message.data, str) else f"{message.data}\n"
        self.screen.call_progress(message.call_id, message.name, text)

    def _cancel(self) -> None:
        """End the turn after Ctrl-C. Without a terminal on stdin, end the whole loop."""
        self._stop()
        if self.state != "idle":  # Ctrl-C arrived after the turn's end
            self._step("cancelled")
        self.screen.end_answer()
        self.screen.note("(cancelled)")
        if not self.screen.is_interactive:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        """Cancel the current turn, if there is one, and wait until it has ended."""
        self.session.cancel()
        for _ in self.session.events():
            pass

    def _report(self, error: BaseException) -> None:
        hint = next(words for kind, words in _HINTS.items() if isinstance(error, kind))
        kind = "" if isinstance(error, ToolcastError) else f"{type(error).__name__}: "
        self.fail(f"{kind}{error}".removesuffix(": "), hint)
        if self._on_error is not None:
            self._on_error(error)

    def _step(self, event: str) -> None:
        self._states.step(event)
        self.trace.append(self.state)


def pluralize(count: int, noun: str) -> str:
    """Return the number with its noun, in the plural unless it is one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
