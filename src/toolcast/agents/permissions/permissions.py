"""The decision on a tool call: `Permissions` allow it, deny it, or require an approval.

    1. arguments that cannot be inspected, a command that cannot be parsed with certainty    -> denied
    2. a deny rule: for a command line, one that matches any of its commands                 -> denied
    3. a protected path (protected_paths.py)                                                 -> denied
    4. the limit of the mode: `deny` runs nothing, `plan` only tools that read               -> denied
    5. mode `bypass`; a tool that declares `approval="never"`; but where a tool declares
       `approval="always"`, only 6 allows a call                                             -> allowed
    6. allow rules, also those of this session; a command line needs one for each command,
       and words that a rule does not spell need a form (shell/patterns.py)                  -> allowed
    7. `plan`, `auto`: tools that only read; `accept_edits`: also non-destructive file tools -> allowed
    8. anything else                                      -> an approval is required; denied without an approver

The first that applies decides. The decision is pure, but for resolving paths, and fails closed: whatever is unclear
counts against the call. The traits of a tool are those that its developer declares; a tool with a command among its
arguments is a shell tool, whatever its name. The values inspected are those that the tool receives
(argument_values.py).
"""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args

from ...lazy.lazy_dataclasses import changes_repr, dataclass
from ...tools.tool_options import NeedsApproval
from ...values.approvals import ApprovalDecision, PermissionRequest
from .argument_values import UnseenValue, to_plain
from .folder_checks import folders_of, reason_to_ask, words_named
from .protected_paths import LONGEST, PROTECTED, path_texts, protected_name, resolved_path, word_texts
from .rules import AtLeast, AtMost, Condition, Exactly, OneOf, Others, PathPattern, Rule, Under
from .shell.forms import deny_table, program
from .shell.lexer import UnparsedCommand
from .shell.parser import SimpleCommand, commands
from .shell.patterns import Uncovered, forbids, form_pattern, literal_pattern, uncovered

__all__ = [
    "UNGUARDED",
    "Approve",
    "ApproveAll",
    "AtLeast",
    "AtMost",
    "Condition",
    "Decision",
    "Mode",
    "OneOf",
    "Permissions",
    "Rule",
    "ToolTraits",
    "Under",
]

Mode: TypeAlias = Literal["default", "accept_edits", "bypass", "deny", "plan", "auto"]
Approval: TypeAlias = "ApprovalDecision | bool | None"
Approve: TypeAlias = Callable[[PermissionRequest], "Approval | Awaitable[Approval]"]
"""A function that decides whether a call may run: sync or async."""
Approvals: TypeAlias = "Iterable[ApprovalDecision] | bool | None"
ApproveAll: TypeAlias = Callable[[Sequence[PermissionRequest]], "Approvals | Awaitable[Approvals]"]
"""A function that decides about all calls of a response that wait: sync or async."""

_COMMAND: Final = "command"
_COMMANDS: Final = frozenset(("command", "cmd", "commandline", "cmdline", "shellcommand", "bashcommand", "shellcmd"))
"""Names of arguments that are commands, whatever the tool is called."""
_SCRIPTS: Final = _COMMANDS | {"script", "code", "input"}
"""Names of arguments that are commands of a tool with the name of a shell."""
_EXTRA_WORDS: Final = frozenset(("args", "argv", "arguments"))
"""Names of arguments that are further words of a command."""
_REMARKS: Final = frozenset(("description", "explanation", "reason", "summary", "title", "purpose", "justification"))
"""Names of other arguments that say nothing of what runs, as numbers and booleans do."""
_MODES: Final = get_args(Mode)

# To an interactive one `#` is a word, and what follows is no comment.
_may_be_interactive_zsh = re.compile("zsh|terminal", re.IGNORECASE).search
_edited = re.compile(r"(?<![A-Za-z])[rRwW]!?\s*([^\s;}]+)").findall  # by a command of sed: `r.env`
_joint = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9_*?]+")


class ToolTraits(Protocol):
    """The traits of a tool, declared by its developer."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def read_only(self) -> bool:
        """True if it changes nothing."""
        ...

    @property
    def destructive(self) -> bool:
        """True if it may make changes that cannot be undone."""
        ...

    @property
    def path_parameters(self) -> frozenset[str]:
        """Names of arguments that are paths, beside those whose name shows it."""
        ...

    @property
    def approval(self) -> NeedsApproval | None:
        """The approval that it needs: `always` or `never`; None: as the permissions have it."""
        ...


class Decision(NamedTuple):
    """A verdict on a call, with its reason as text for the model and for the user."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str


class _Call(NamedTuple):
    """A call to decide on. `commands` are those of a shell tool, in the arguments `texts`; None for other tools.

    `folders` are those in which they may run, absolute: `root`, what an argument such as `cwd` leads to, `cd` into it.
    """

    facts: ToolTraits
    arguments: Mapping[str, Any]
    place: PathPattern
    texts: Sequence[str]
    commands: Sequence[SimpleCommand] | None
    folders: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Permissions:
    """The rules by which tool calls run, are denied, or need an approval.

    Args:
        mode: `default` requires approvals; `auto` runs tools that only read; `accept_edits` also runs non-destructive
            file tools; `plan` runs tools that only read and denies the rest; `bypass` runs everything, `deny` nothing.
        rules: Rules that allow and deny. A deny rule takes precedence over every mode and every allow rule.
        approve: A function of the `PermissionRequest`, sync or async, that returns an `ApprovalDecision`, True or
            False. `"later"`: the turn ends, and the decisions are passed to the next one. None: calls that need an
            approval are denied.
        approve_all: A function that is called once for all calls of a response that need an approval, in place of
            `approve`: sync or async, of a list of `PermissionRequest`s. It returns a list of `ApprovalDecision`s, or
            True or False for all of them. A call without a decision is denied.
        file_tools: Globs for the names of tools that work on files.
        shell_tools: Globs for the names of tools that run commands. Tools with text in an argument such as `command`
            or `cmd` are shell tools as well.
        not_shells: Globs for the names of tools that are no shell tools, whatever their arguments.
        exempt: Globs for the names of tools whose paths are not checked.
        protected: Names of files and folders that no path may contain or lead to.
        root: The folder at which relative paths begin; the working directory by default.

    Raises:
        ValueError: If an argument is of the wrong kind, with an example of the right one.
    """

    mode: Mode = "default"
    rules: Sequence[Rule] = ()
    approve: Approve | Literal["later"] | None = None
    _: KW_ONLY
    approve_all: ApproveAll | None = None
    file_tools: Sequence[str] = ("fs.*", "fs_*")
    shell_tools: Sequence[str] = ("bash", "shell", "sh", "zsh", "terminal", "*_bash", "*_shell", "*_sh", "*_zsh")
    not_shells: Sequence[str] = ()
    exempt: Sequence[str] = ("agent", "spawn_elves")
    protected: Sequence[str] = PROTECTED
    root: str | None = None

    __repr__ = changes_repr

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ValueError(f"unknown mode {self.mode!r}; the modes are: {', '.join(_MODES)}")
        rules: object = self.rules
        if not isinstance(rules, (list, tuple)) or not all(
            isinstance(rule, Rule) for rule in cast("Sequence[object]", rules)
        ):
            raise ValueError(f"rules are a list of Rule, not {rules!r:.200}: rules=[Rule('read_*', 'allow')]")
        if not (self.approve in ("later", None) or callable(self.approve)):
            raise ValueError(f"approve is a function of the request, 'later' or None, not {self.approve!r}")
        if not (self.approve_all is None or callable(self.approve_all)):
            raise ValueError(f"approve_all is a function of the requests, or None, not {self.approve_all!r}")
        if self.approve is not None and self.approve_all is not None:
            raise ValueError("a call has one approver: pass approve=, or approve_all= for all calls at once")
        for name in ("rules", "file_tools", "shell_tools", "not_shells", "exempt", "protected"):
            values = cast("Sequence[Any]", getattr(self, name))
            if isinstance(values, str):
                raise ValueError(f"{name} is a list of texts: {name}=[{values!r}]")
            object.__setattr__(self, name, tuple(values))

    def decide(self, facts: ToolTraits, arguments: object, remembered: Sequence[Rule] = ()) -> Decision:
        """Return the decision on a call with these arguments; `remembered` are the rules of this session."""
        try:
            call = self._read(facts, to_plain(arguments))
        except (UnparsedCommand, UnseenValue) as error:
            # Not "ask": the user would approve a text whose effect the library could not determine.
            return Decision("deny", str(error))
        rules = [rule for rule in (*self.rules, *remembered) if rule.concerns(facts.name)]
        # All reasons against the call come before all reasons for it, so no allow rule can lift a prohibition.
        if against := _forbidden(call, rules) or self._protected(call) or self._mode_limit(facts):
            return Decision("deny", against)
        allowed, shortfall = _allowed(call, rules, self.protected)
        declared = facts.approval if allowed is None else None
        if declared != "always" and (favour := self._bypassed() or allowed or self._unasked(facts)):
            return Decision("allow", favour)
        if declared == "never":
            return Decision("allow", f"{facts.name} declares that it needs no approval")
        # An agent without an approver must not wait for an answer that never comes.
        if self.approve is None and self.approve_all is None:
            reason = f"{facts.name} needs an approval, and there is no approver to ask"
            return Decision("deny", f"{reason}: {shortfall}" if shortfall else reason)
        declares = f"{facts.name} declares that each call needs an approval" if declared else ""
        return Decision("ask", shortfall or declares or no_rule_text(facts.name))

    def rule_for_session(self, facts: ToolTraits, arguments: object) -> Rule:
        """Return the rule that allows calls like this.

        For a shell tool it is the form of the command where toolcast knows one, such as `git log`, with the other
        arguments as they are, and else exactly these arguments; for other tools any arguments.
        """
        # Escaped: a tool named `a*` must not allow every tool that begins with `a`.
        name, given = glob.escape(facts.name), to_plain(arguments)
        names = _names_of_commands(facts.name, self.shell_tools, self.not_shells)
        if names is _SCRIPTS or any(_is_named(each, names) for each in given):
            # One command says nothing about the next, so only this very call is allowed again, or its known form.
            if pattern := self._form(facts, given):
                return Rule(name, "allow", {pattern[0]: pattern[1], "": Others.of(pattern[0], given)})
            return Rule(name, "allow", {"": Exactly.of(given)})
        return Rule(name, "allow")

    def without_prompt(self) -> Permissions:
        """Return these permissions without an approver, for an agent that works alone."""
        return replace(self, approve=None, approve_all=None)

    def _form(self, facts: ToolTraits, given: object) -> tuple[str, str] | None:
        """Return the argument that is a single command, and the pattern of its form, if it has one."""
        try:
            call = self._read(facts, given)
        except UnparsedCommand:
            return None
        command = call.commands[0] if call.commands and len(call.commands) == len(call.texts) == 1 else None
        if command is None or not isinstance(call.arguments[call.texts[0]], str):
            return None
        extra = any(_is_named(name, _EXTRA_WORDS) for name in call.arguments)
        return None if extra or not (pattern := form_pattern(command)) else (call.texts[0], pattern)

    def _read(self, facts: ToolTraits, arguments: object) -> _Call:
        if not isinstance(arguments, dict):
            raise UnparsedCommand(f"the arguments of {facts.name} are no object")
        given = cast("dict[str, Any]", arguments)
        place = PathPattern(facts.path_parameters, self.root)
        names = _names_of_commands(facts.name, self.shell_tools, self.not_shells)
        texts = {name: _command_in(given, name, facts.name) for name in given if _is_named(name, names)}
        texts = {name: text for name, text in texts.items() if text is not None}
        if not texts:
            # A shell tool whose command is not found would be judged by its name alone: refuse it instead.
            if names is _SCRIPTS:
                raise UnparsedCommand(_no_text(facts.name))
            return _Call(facts, given, place, (), None)
        extra = _extra_words(given)
        try:
            whole = bool(extra) or bool(_may_be_interactive_zsh(facts.name))
            found = [command for text in texts.values() for command in commands(f"{text}{extra}", whole)]
            named = dict.fromkeys(("", *(_text_of(value) for name, value in given.items() if place.is_path(name))))
            starts = dict.fromkeys(resolved_path(each[:LONGEST], self.root) for each in named)
            folders = dict.fromkeys(each for start in starts for each in folders_of(found, start))
        except ValueError as error:
            raise UnparsedCommand(f"the command cannot be read with certainty: {error}") from None
        return _Call(facts, given, place, (*texts,), found, (*folders,))

    def _protected(self, call: _Call) -> str | None:
        if _is_one_of(call.facts.name, self.exempt):
            return None
        written = list(path_texts(call.arguments, call.facts.path_parameters))
        # The check resolves links and expands braces, whose cost grows with the length: a long text would stall it.
        if any(len(text) > LONGEST for text in written):
            return f"a path is longer than {LONGEST} characters, too long to be checked"
        if not written and not call.commands:
            return None
        paths = ((text, True, False) for text in written)
        root = resolved_path(self.root or "")
        own = dict.fromkeys(paths)
        for folder in call.folders or (root,):
            exists = folder in call.folders[:1] or os.path.isdir(folder)  # noqa: PTH112  # a text is wanted
            texts = dict.fromkeys((*own, *_paths_in(call.commands or (), folder))) if exists else own
            for text, braces, expanded in ((folder, False, False), *texts) if texts else ():
                if protected_name(text, self.protected, folder, braces=braces, expanded=expanded):
                    return f"the path {text[:100]!r} is protected"
        return None

    def _mode_limit(self, facts: ToolTraits) -> str | None:
        if self.mode == "deny":
            return "the mode deny lets no tool run"
        if self.mode == "plan" and not _only_reads(facts):
            return f"the mode plan lets only tools run that change nothing, and {facts.name} may"
        return None

    def _bypassed(self) -> str | None:
        return "the mode bypass lets every tool run" if self.mode == "bypass" else None

    def _unasked(self, facts: ToolTraits) -> str | None:
        edits = self.mode == "accept_edits" and _is_one_of(facts.name, self.file_tools) and not facts.destructive
        reads = self.mode in ("plan", "auto", "accept_edits") and _only_reads(facts)
        return f"the mode {self.mode} lets {facts.name} run" if reads or edits else None


UNGUARDED: Final = Permissions("bypass", approve="later")
"""The permissions of an engine without any: only tools that declare so need an approval, for which the turn ends.

A chat replaces them, as its user can approve calls.
"""


def no_rule_text(tool: str) -> str:
    """Return the reason for asking about a call that no rule is about."""
    return f"no rule allows {tool} to run without an approval"


def _forbidden(call: _Call, rules: Sequence[Rule]) -> str | None:
    """Return the reason of a deny rule that matches, or may match."""
    for rule in rules:
        pattern, holds = _evaluated(call, rule)
        # A condition that cannot be evaluated (None) counts against the call: only a certain False lets it pass.
        if rule.action != "deny" or holds is False:
            continue
        if pattern is None or any(forbids(pattern, command) for command in call.commands or ()):
            unclear = ", as the arguments do not show that it does not apply" if holds is None else ""
            return f"denied by the rule ({rule}){unclear}"
    return None


def _allowed(call: _Call, rules: Sequence[Rule], protected: Sequence[str]) -> tuple[str | None, str]:
    """Return the reason of the allow rules that match, if they do, and else why those for commands do not.

    A command line needs a rule for each of its commands.
    """
    patterns: list[str] = []
    shortfall = ""
    for rule in rules:
        pattern, holds = _evaluated(call, rule)
        # Here None is no match: an allow rule must be certain.
        if rule.action != "allow" or not holds:
            continue
        if pattern is None:
            return f"allowed by the rule ({rule})", ""
        if pattern != "*" and (name := _unruled(call, rule)):
            shortfall = f"the rule {pattern!r:.200} has no condition for {name}={call.arguments[name]!r:.100}"
        else:
            patterns.append(pattern)
    # One uncovered command of "allowed && other" would run unasked; an empty line is covered by nothing.
    if not patterns or not call.commands:
        return None, shortfall
    for command in call.commands:
        if not command.given and (found := uncovered(patterns, command)):
            is_usual = not found.pattern and len(call.commands) == 1 and bool(command.words)
            return None, "" if is_usual else _uncovered_text(found, command)
    lines = [text for name in call.texts if isinstance(text := call.arguments[name], str)]
    if reason := reason_to_ask(lines, call.commands, patterns, call.folders, protected):
        return None, reason
    return f"allowed by the rules for {', '.join(patterns)}", ""


def _unruled(call: _Call, rule: Rule) -> str:
    """Return an argument such as `cwd` or `env`, which may change what runs, if the rule has no condition for it."""
    known = {*rule.where, *call.texts, *_REMARKS}
    for name, value in () if "" in known else call.arguments.items():
        if name in known or not value or isinstance(value, (int, float)) or _is_named(name, _EXTRA_WORDS):
            continue
        folder = _text_of(value) if call.place.is_path(name) else ""
        if not folder or resolved_path(folder, call.folders[0]) != call.folders[0]:
            return name
    return ""


def _uncovered_text(found: Uncovered, command: SimpleCommand) -> str:
    """Return which word no rule covers, why, and the rule that would cover the command literally."""
    if not command.words:
        return "no rule covers an assignment or a redirection without a program"
    shown = shlex.join(word.text for word in command.words)
    literal = literal_pattern(command)
    if not found.pattern:
        return f"no rule is about the command {shown!r:.200}"
    word = f"{found.word!r:.200}" if literal else f"{found.word!r:.200} in {shown!r:.200}"
    advice = f"; the rule {literal!r:.200} does" if literal else ""
    return f"the rule {found.pattern!r:.200} does not cover {word}: {found.why}{advice}"


def _evaluated(call: _Call, rule: Rule) -> tuple[str | None, bool | None]:
    """Return the rule's command pattern, if this call has a command for it, and whether its other conditions hold."""
    names = () if call.commands is None else (*call.texts, _COMMAND)
    name = next((name for name in names if isinstance(rule.where.get(name), str)), None)
    pattern = None if name is None else cast("str", rule.where[name])
    return pattern, rule.evaluate(call.arguments, without=name, place=call.place)


def _command_in(given: Mapping[str, Any], name: str, tool: str) -> str | None:
    """Return the command in the argument `name`; None if it is not a text. Raises `UnparsedCommand`."""
    value = given[name]
    text = shlex.join(cast("list[str]", value)) if _are_texts(value) else value
    if isinstance(text, list) and any(isinstance(each, str) for each in cast("list[object]", text)):
        raise UnparsedCommand(_no_text(tool))
    return text if isinstance(text, str) else None


def _no_text(tool: str) -> str:
    return f"{tool} is a shell tool, and has no text in its argument {_COMMAND!r}; if it is none, not_shells names it"


def _extra_words(given: Mapping[str, Any]) -> str:
    """Return the words of `args` and the like, as they follow a command. Raises `UnparsedCommand`."""
    found = [
        value for name, value in given.items() if _is_named(name, _EXTRA_WORDS) and value not in (None, "", [], {})
    ]
    if not found:
        return ""
    text = shlex.join(cast("list[str]", found[0])) if _are_texts(found[0]) else found[0]
    if not isinstance(text, str) or len(found) > 1:  # whose order is not known
        raise UnparsedCommand(
            f"further words of a command are a text or a list of texts, in one argument of {sorted(_EXTRA_WORDS)}; "
            "not_shells names a tool that has no commands"
        )
    return f" {text}"


def _text_of(path: object) -> str:
    """Return the text of a path; none of a value that is not one."""
    path = os.fspath(cast("os.PathLike[str]", path)) if isinstance(path, os.PathLike) else path
    return path if isinstance(path, str) else ""


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


@lru_cache(maxsize=1_000)
def _names_of_commands(tool: str, shells: tuple[str, ...], others: tuple[str, ...]) -> frozenset[str]:
    """Return the names of arguments that are commands of this tool."""
    if _is_one_of(tool, others):
        return frozenset()
    is_shell = _is_one_of(tool, shells) or _is_one_of(_joint.sub("_", tool).casefold(), shells)
    # `input` or `code` is a command only where the tool is a shell; `command` is one everywhere.
    return _SCRIPTS if is_shell else _COMMANDS


@lru_cache(maxsize=1_000)
def _is_named(argument: str, names: frozenset[str]) -> bool:
    return re.sub(r"[^a-z]", "", argument.casefold()) in names


def _paths_in(found: Sequence[SimpleCommand], root: str) -> Iterator[tuple[str, bool, bool]]:
    """Yield the texts in commands that may be paths, and whether a shell expands braces, and wildcards, in them."""
    for command in found:
        targets = (each.target for each in command.redirections if each.operator not in ("<<", "<<-"))
        edits = not {*map(program, command.words)}.isdisjoint(deny_table()["commanded"].split())
        for word in (*words_named(command.words, root), *command.assignments, *targets):
            # `select * from a` is not about files.
            expanded = not (word.literal or (command.guessed and word.text == "*"))
            texts = (*word_texts(word.text), *(_edited(word.text) if edits else ()))
            yield from ((text, not word.literal, expanded) for text in texts)


def _only_reads(facts: ToolTraits) -> bool:
    # A tool that is declared as both is treated as the more dangerous one.
    return facts.read_only and not facts.destructive


@lru_cache(maxsize=1_000)
def _is_one_of(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, each) for each in globs)
