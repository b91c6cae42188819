"""The read-eval-print loop: read an input, answer it, repeat until the end of input.

    init ──> idle ──> processing_input ──> streaming_response <──> routing ──> thinking, tool_execution, content_output
              ^               │                    │
              └───────────────┴────────────────────┴──> error ──> idle

Turns run in a thread of the session; the REPL runs in the thread that owns the screen and receives Ctrl-C. A turn
that fails prints one line and the prompt returns. The states are the table `REPL` (values/states.py); an observer is
called for each, and `state` and `trace` expose them. Tests replace the terminal by a scripted `Screen`.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from textwrap import shorten
from typing import Final

from ...agents.engine.compaction import is_summary
from ...agents.sessions.session import Session
from ...agents.subagents.elf_run import ElfEvent
from ...async_support.broadcast import Subscription
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
from ...events import AgentEvent, ToolProgress
from ...llms.function_calling_llm import FunctionCallingLLM
from ...llms.local.llama_cpp import LlamaCpp
from ...llms.named_llms import llm
from ...messages import Message, user
from ...toolbox.questions import Question
from ...tools.tool_results import refuses_tools
from ...values.approvals import ApprovalDecision
from ...values.hooks import hooks
from ...values.states import REPL, Observer, Trace
from ..file_mentions import message_with_files, typed_text
from ..model_list import ProviderModels, list_models
from ..output import command_line_text, pluralize
from .activity import TurnActivity
from .approval_prompt import CallDescriber, ask_permissions, ask_question
from .clipboard import Clipboard
from .event_router import EventRouter
from .file_changes import ChangeRecorder
from .open_session import OpenConversation
from .screen import Screen
from .slash_commands import COMMANDS, typed_command

PROMPT: Final = "> "
INTERRUPTED: Final = 130
"""The exit code after Ctrl-C, as in shells: 128 + SIGINT."""

_REFRESH_SECONDS: Final = 0.1
"""The time without an event after which the screen shows the activity again."""

_DOUBLE_PRESS_SECONDS: Final = 1.0
"""The time after a stopped answer in which another Ctrl-C does not leave: many people press it twice."""

_STOPPED: Final = "the user denied it, and stopped the turn"

_WARNING_PERCENT: Final = 80
_COMPACTION_PERCENT: Final = 95
"""The used part of the context from which a message is preceded by a compaction."""

_EXITS: Final = ("", "exit", "quit")

_SHOWN_QUESTION: Final = 200
_SHOWN_ANSWER: Final = 2000
"""Characters of the last question and answer that are shown when a session is resumed."""

_HINTS: Final[Mapping[type[BaseException], str]] = {
    ConnectFailed: "check that the server runs at the address in --host or OLLAMA_HOST; /retry sends the message again",
    AuthFailed: "toolcast config set-key PROVIDER stores another API key; --token KEY uses one once",
    NotFound: "/model NAME switches to another model",
    ContextTooLong: "/compact makes room, /undo removes the last turn, /clear starts a new conversation",
    QuotaExceeded: "/model NAME switches to another model",
    LLMError: "/retry sends the message again",
    TurnStopped: "type 'go on' to continue, or /undo",
    BaseException: "/retry sends the message again; --debug logs the traceback",
}
"""The next step after an error, from the first row that matches its class."""
_QUESTION_TOOL: Final = "ask_user"
"""The name of the built-in tool of which only the question and the answer are shown (toolbox/questions.py)."""
_NAMES_COMMAND: Final = re.compile(r"(?:^|\s)/[a-z]")


class Repl:
    """The loop over one conversation on one screen.

    Args:
        conversation: The open conversation.
        screen: The screen to show output on and read input from.
        model: Returns the LLM for the name given to `/model`.
        models: Returns the models of the providers, for `/model` without a name.
        clipboard: The clipboard for `/copy`.
        observer: Called with an id and the state at every state change.
        on_error: Called with every error of a turn, for a log.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        conversation: OpenConversation,
        screen: Screen,
        *,
        model: Callable[[str], FunctionCallingLLM] = llm,
        models: Callable[[], Sequence[ProviderModels]] = list_models,
        clipboard: Clipboard | None = None,
        observer: Observer | None = None,
        on_error: Callable[[BaseException], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.conversation: OpenConversation = conversation
        self.screen: Screen = screen
        self.model: Callable[[str], FunctionCallingLLM] = model
        self.models: Callable[[], Sequence[ProviderModels]] = models
        self.clipboard: Clipboard = clipboard or Clipboard(os.environ)
        self.trace: list[str] = []
        self._states = Trace(REPL, observer)
        self._changes = ChangeRecorder(self._describer().preview)
        self._router = EventRouter(
            screen, self._step, self._on_tool_progress, lambda id: self._changes.take(id), self._asks_user
        )
        self._on_error = on_error
        self._clock = clock
        self._stopped_at: float | None = None  # when Ctrl-C stopped the last answer
        self._activity = TurnActivity()
        self._has_compacted = False  # in this turn
        self._has_failed = False
        self._is_over = False
        self._context_level = 0  # of the last warning
        self._is_single = False  # True if one answer is all, after which no command can be typed

    @property
    def state(self) -> str:
        """The current state, as the table `REPL` (toolcast.values.states) names it."""
        return self._states.state

    @property
    def session(self) -> Session:
        """The open session."""
        return self.conversation.session

    def run(self, prompt: str | None = None, piped: str = "") -> int:
        """Answer `prompt`, or read and answer until the end of input, and return the exit code.

        Args:
            prompt: The only input; files that it mentions are read.
            piped: A text that follows it, and mentions nothing.

        Returns:
            0, 1 if something failed without a person to go on, or 130 after Ctrl-C.
        """
        try:
            code = self._loop(prompt, piped)
        finally:
            self._step("left")
            self.conversation.close()
        conversation = self.conversation
        if self.screen.is_interactive and (conversation.engine.history or conversation.unanswered):
            self.screen.note(f"Continue with: toolcast chat --session {self.session.id}")
        return code

    def leave(self) -> None:
        """End the loop after the current input."""
        self._is_over = True

    def ask(self, message: Message) -> None:
        """Run a turn that answers `message`."""
        self._make_room()
        if journal := self.conversation.setup.journal:
            journal.begin_turn(message)
        self._step("asked")
        self._turn(message)

    def ask_typed(self, text: str, piped: str = "") -> None:
        """Run a turn that answers a typed text with the files that it mentions, and `piped` after it.

        Raises:
            ToolcastError: A file cannot be sent. Nothing was sent then.
        """
        setup, served = self.conversation.setup, self.conversation.served
        found = message_with_files(text, setup.root, lambda: served.ask(setup.llm))
        for note in found.notes:
            self.screen.note(note)
        files = found.message.parts[1:]
        self.ask(user(f"{typed_text(found.message)}\n\n{piped}", *files) if piped else found.message)

    def open_session(self, id: str) -> None:
        """Continue with another saved session."""
        self.conversation.resume(id)
        self.show_resumed_session()
        self._finish_interrupted_turn()

    def show_resumed_session(self) -> None:
        """Show the number of messages in the session, and its last exchange."""
        history = self.conversation.engine.history
        if not history:
            begins = "Resuming" if self.conversation.unanswered else "New"
            self.screen.note(f"{begins} session: {self.session.id}.")
            self._show_unanswered()
            return
        questions = sum(message.role == "user" and not is_summary(message) for message in history)
        counts = f"{pluralize(len(history), 'message')}, {pluralize(questions, 'question')}"
        mode = self.conversation.setup.mode.name
        last = self.conversation.last_exchange
        question = " ".join(typed_text(message) for message in last if message.role == "user")
        self.screen.note(f"Resuming session {self.session.id}: {counts}, mode {mode}.")
        if not question.startswith(self.conversation.title):
            self.screen.note(f"Title: {self.conversation.title}")
        self.screen.note(f"{PROMPT}{shorten(question, _SHOWN_QUESTION, placeholder=' ...')}")
        answer = "\n\n".join(message.text for message in last if message.role == "assistant" and message.text)
        shown = answer if len(answer) <= _SHOWN_ANSWER else f"... {answer[-_SHOWN_ANSWER:]}"
        self.screen.content(shown)
        self.screen.end_answer()
        self._show_unanswered()

    def _show_unanswered(self) -> None:
        if (message := self.conversation.unanswered) is not None:
            question = shorten(typed_text(message), _SHOWN_QUESTION, placeholder=" ...")
            self.screen.note(f"Not answered, because of an error: {question}\n/retry sends it again.")

    def fail(self, message: str, hint: str = "") -> None:
        """Show an error as one line."""
        self._has_failed = True
        self.screen.end_answer()
        self.screen.error(" ".join(command_line_text(message).split()), hint if self.screen.is_interactive else "")

    @property
    def _goes_on(self) -> bool:
        """True if the user can type a next input."""
        return self.screen.is_interactive and not self._is_single

    # One input.

    def _loop(self, prompt: str | None, piped: str) -> int:
        try:
            self._step("opened")
            if prompt is not None:
                self._is_single = True
                self._process(prompt, piped, is_typed=True)
                return int(self._has_failed or self._router.has_skipped)
            self._finish_interrupted_turn()
            while not self._is_over:
                self._process_next()
        except KeyboardInterrupt:
            return INTERRUPTED
        return int((self._has_failed or self._router.has_skipped) and not self.screen.is_interactive)

    def _process_next(self) -> None:
        """Read and process one input. The end of input ends the loop."""
        try:
            if (text := self._read()) is None:
                self.leave()
            else:
                self._stopped_at = None
                self._process(text.strip(), is_typed=self.screen.is_interactive)
        except KeyboardInterrupt:
            stopped_at, self._stopped_at = self._stopped_at, None
            is_double = stopped_at is not None and self._clock() - stopped_at < _DOUBLE_PRESS_SECONDS
            if not is_double or self.state != "idle" or not self.screen.is_interactive:
                raise
            self.screen.note("Press Ctrl-C again to leave.")

    def _read(self) -> str | None:
        status = self.conversation.status
        if self.screen.is_interactive:
            self._warn_of_context(status.context_percent or 0)
        self.screen.show_status(status)
        return self.screen.read(PROMPT)

    def _warn_of_context(self, percent: float) -> None:
        """Warn once when little is left of the model's context, and once when nothing is."""
        level = max((level for level in (0, _WARNING_PERCENT, 100) if percent >= level), default=0)
        if level > self._context_level:
            used = f"{percent:.0f} % full" if level < 100 else "full, and the model may not read the beginning any more"
            remedy = "/compact replaces the oldest messages by a summary, /clear begins anew."
            self.screen.note(f"The model's context is {used}. {remedy}")
        self._context_level = level

    def _make_room(self) -> None:
        """Compact the conversation if its context is nearly full."""
        if (self.conversation.status.context_percent or 0) < _COMPACTION_PERCENT:
            return
        self.screen.note("The model's context is nearly full: summarizing the oldest messages ...")
        if not self.conversation.compact():
            self.screen.note("The conversation is too short to be summarized.")

    def _process(self, text: str, piped: str = "", *, is_typed: bool) -> None:
        """Process one input. Only one that a person has typed mentions files."""
        if text.lower() in _EXITS:
            self.leave()
            return
        self.trace = [self.state]
        self._step("entered")
        try:
            self._dispatch(text, piped, is_typed=is_typed)
        except BrokenPipeError:  # the reader of stdout has gone
            raise
        except Exception as error:  # a command may run code of a model: any error is shown, and the prompt returns
            self.fail(_described(error))
        except KeyboardInterrupt:
            # A turn does not end, or there is no terminal, or no next input.
            if self.state != "processing_input" or self._is_single:
                raise
            self.screen.hold_typed()
            self.screen.note("(interrupted)")
        if self.state == "processing_input":
            self._step("done")

    def _dispatch(self, text: str, piped: str, *, is_typed: bool) -> None:
        if piped:
            self.ask_typed(text, piped)
        elif typed := typed_command(text):
            self._command(*typed)
        elif text.startswith("!") and "\n" not in text and self.screen.is_interactive:
            self._run_shell(text.removeprefix("!").strip())
        elif is_typed:
            self.ask_typed(text, piped)
        else:
            self.ask(user(text))

    def _command(self, name: str, argument: str) -> None:
        command = COMMANDS.get(name)
        if command is None:
            near = get_close_matches(name, COMMANDS, 1, 0.0)[0]
            self.fail(f"unknown command {name}", f"did you mean {near}? /help lists all commands")
        elif argument and not command.argument:
            self.fail(f"{name} takes no argument, got {argument!r:.60}", f"enter {name} alone; nothing was done")
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
        if self.conversation.is_interrupted and self.screen.is_interactive:
            self.screen.note("The session's last turn was interrupted; continuing it.")
            self._step("went_on")
            self._turn(None)

    def _turn(self, message: Message | None) -> None:
        """Run a whole turn, including its approval requests. The prompt returns however the turn ends."""
        self._activity = TurnActivity(_waiting_label(self.conversation.setup.llm))
        self._has_compacted, title = False, self.conversation.title
        self.screen.show_activity(self._activity)
        try:
            if message is not None:
                self.conversation.forget_unanswered()
            if message is None:  # of this turn no event has named the calls
                self._router.expect_calls(self.conversation.last_calls)
            if message is not None or not self.session.pending:
                self._run_session(message)
            while requests := self.session.pending:
                self._step("approval_needed")
                with self._activity.paused():
                    answers = ask_permissions(self.screen, requests, self._describer())
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
            self.screen.show_activity(None)
            self.screen.end_answer()
            if message is not None:
                self.conversation.remember_unanswered(message)
            self._show_compaction()
            if self._has_compacted:
                self.conversation.rename(title)  # which may be the beginning of a message that is gone
            with suppress(ToolcastError):  # the turn has shown that the store fails
                self.conversation.touch()

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
        answers = list(answers)
        self._changes = ChangeRecorder(self._describer().preview, answers)
        with hooks(self._changes):
            self.session.send(message, answers=answers)
        events = self.session.events()
        for event in self._refreshing(events):
            self._show_compaction()
            self._activity.observe(event)
            self._router.route(event)
            if events.is_caught_up:
                self.screen.flush_updates()
        self.session.result()

    def _show_compaction(self) -> None:
        """Show that the turn has compacted the history, because the service reported that the context is too long."""
        if self.conversation.take_compaction():
            self._has_compacted = True
            history = self.conversation.engine.history
            change = "are a summary now" if any(map(is_summary, history)) else "were left out"
            self.screen.note(f"The context was too long for the model: the oldest messages {change}.")

    def _describer(self) -> CallDescriber:
        setup, engine = self.conversation.setup, self.conversation.engine
        # A tool of the user or of a server may have the name of a built-in one, and do something else.
        built_in = {tool.name for tool in engine.tools if any(tool is each for each in setup.builtin)}
        return CallDescriber(engine, setup.root, built_in)

    def _asks_user(self, name: str) -> bool:
        return name == _QUESTION_TOOL and name in self._describer().built_in

    def _refreshing(self, events: Subscription[AgentEvent]) -> Iterator[AgentEvent]:
        """Yield the events, and refresh the screen while none arrive."""
        while True:
            while not events.wait(_REFRESH_SECONDS):
                self.screen.refresh()
            for event in events:
                yield event
                break
            else:
                return

    def _on_tool_progress(self, message: ToolProgress) -> None:
        """Show the progress of a running tool, or pass its question to the user."""
        if isinstance(message.data, Question):
            with self._activity.paused():
                ask_question(self.screen, message.data)
            return
        if isinstance(message.data, ElfEvent):  # shown with the activity
            return
        text = message.data if isinstance(message.data, str) else f"{message.data}\n"
        self.screen.call_progress(message.call_id, message.name, text)

    def _cancel(self) -> None:
        """End the turn after Ctrl-C. Without a next input that the user could type, end the whole loop."""
        self._stop()
        self.conversation.end_turn(_STOPPED)
        self._stopped_at = self._clock()
        self.screen.hold_typed()
        if self.state != "idle":  # Ctrl-C arrived after the turn's end
            self._step("cancelled")
        self.screen.end_answer()
        self.screen.note("(cancelled)")
        if not self._goes_on:
            raise KeyboardInterrupt

    def _stop(self) -> None:
        """Cancel the current turn, if there is one, and wait until it has ended."""
        self.session.cancel()
        for _ in self.session.events():
            pass

    def _report(self, error: BaseException) -> None:
        hint = next(words for kind, words in _HINTS.items() if isinstance(error, kind))
        if self.conversation.setup.llm.metadata.provider != "ollama":
            hint = hint.replace(" or OLLAMA_HOST", "")
        if self._is_single:
            hint = "; ".join(part for part in hint.split("; ") if not _NAMES_COMMAND.search(part))
        self.fail(_described(error), hint)
        if self._on_error is not None:
            self._on_error(error)

    def _step(self, event: str) -> None:
        self._states.step(event)
        self.trace.append(self.state)


def _described(error: BaseException) -> str:
    kind = "" if isinstance(error, ToolcastError) else f"{type(error).__name__}: "
    return f"{kind}{error}".removesuffix(": ")


def _waiting_label(llm: FunctionCallingLLM) -> str:
    """Return the label of a turn before its first event."""
    name = llm.metadata.model_name
    return f"Loading {name}" if isinstance(llm, LlamaCpp) and not llm.is_loaded else f"Waiting for {name}"
