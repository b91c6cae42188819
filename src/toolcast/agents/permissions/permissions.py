"""Who may run what: `Permissions` decide whether a tool call runs, is denied, or is asked about.

    1. arguments that cannot be looked at, a command that cannot be read with certainty      -> denied
    2. a deny rule: for a command line, one that hits any of its commands                    -> denied
    3. a path that is protected (safe_paths.py)                                              -> denied
    4. the ceilings: mode `deny` runs nothing, mode `plan` only what reads                   -> denied
    5. mode `bypass`                                                                         -> allowed
    6. an allow rule, also one of this session: for a command line, those that cover it all  -> allowed
    7. `plan`, `auto`: what only reads; `accept_edits`: also file tools that destroy nothing -> allowed
    8. anything else                                               -> asked; denied where nobody is there to ask

The first that applies decides. Deciding is pure, but for looking up where a path leads. Whatever is unclear is read
against the call: it fails closed. A tool is taken for what its developer says it is, and for a shell where one of
its arguments is a command, as names say little. What is looked at is what the tool gets (seen_values.py).
"""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args

from ...approvals import ApprovalDecision, PermissionRequest
from .argument_values import UnseenValue, seen
from .protected_paths import LONGEST, PROTECTED, path_texts, protected_name, resolved_path, word_texts
from .rules import AtLeast, AtMost, Condition, Exactly, OneOf, PathPattern, Rule, Under
from .shell.lexer import UnparsedCommand
from .shell.parser import SimpleCommand, commands
from .shell.patterns import covered, forbids

__all__ = [
    "UNGUARDED",
    "Approve",
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
    "settled",
]

Mode: TypeAlias = Literal["default", "accept_edits", "bypass", "deny", "plan", "auto"]
Said: TypeAlias = "ApprovalDecision | bool | None"
Approve: TypeAlias = Callable[[PermissionRequest], "Said | Awaitable[Said]"]
"""Says whether a call may run: sync or async."""

_COMMAND: Final = "command"
_COMMANDS: Final = frozenset(("command", "cmd", "commandline", "cmdline", "shellcommand", "bashcommand", "shellcmd"))
"""Names of arguments that are commands, whatever the tool is called."""
_SCRIPTS: Final = _COMMANDS | {"script", "code", "input"}
"""Names of arguments that are commands of a tool that is called like a shell."""
_WORDS_BEHIND: Final = ("args", "argv", "arguments")
_MODES: Final = get_args(Mode)

_joint = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9_*?]+")


class ToolTraits(Protocol):
    """What is known of a tool, from its developer."""

    @property
    def name(self) -> str:
        """The name the model calls it by."""
        ...

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        ...

    @property
    def destructive(self) -> bool:
        """Whether it may change what cannot be brought back."""
        ...

    @property
    def path_parameters(self) -> frozenset[str]:
        """Names of arguments that are paths, beside those that are named like one."""
        ...


class Decision(NamedTuple):
    """Whether a call may run, and why, in words for the model and for a person."""

    verdict: Literal["allow", "deny", "ask"]
    reason: str


class _Call(NamedTuple):
    """A call to decide on. `commands` are those of a shell tool, in the arguments `texts`; None for any other."""

    facts: ToolTraits
    arguments: Mapping[str, Any]
    place: PathPattern
    texts: Sequence[str]
    commands: Sequence[SimpleCommand] | None


@dataclass(frozen=True, slots=True)
class Permissions:
    """Which tool calls may run, which may not, and which somebody is asked about.

    `mode`: `default` asks, `accept_edits` runs what reads and file tools that destroy nothing, `auto` what reads,
    `plan` that and nothing else, `bypass` everything, `deny` nothing. `rules` allow and deny; a deny rule beats every
    mode and every allow rule. `approve` is asked: a function of the request, sync or async, that gives an
    `ApprovalDecision`, or True or False; `"later"`: the turn ends and the answers come with the next; None: nobody, so
    that it is denied.

    The others are globs for names of tools. `file_tools` handle files. `shell_tools` run commands, and so does every
    tool with text in an argument such as `command` or `cmd`, but for `not_shells`. Names in `protected` may be in no
    path, but in those of tools that `exempt` names; relative paths begin at `root`.
    """

    mode: Mode = "default"
    rules: Sequence[Rule] = ()
    approve: Approve | Literal["later"] | None = None
    _: KW_ONLY
    file_tools: Sequence[str] = ("fs.*", "fs_*")
    shell_tools: Sequence[str] = ("bash", "shell", "sh", "zsh", "terminal", "*_bash", "*_shell", "*_sh", "*_zsh")
    not_shells: Sequence[str] = ()
    exempt: Sequence[str] = ("agent", "spawn_elves")
    protected: Sequence[str] = PROTECTED
    root: str | None = None

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
        for name in ("rules", "file_tools", "shell_tools", "not_shells", "exempt", "protected"):
            values = cast("Sequence[Any]", getattr(self, name))
            if isinstance(values, str):
                raise ValueError(f"{name} is a list of texts: {name}=[{values!r}]")
            object.__setattr__(self, name, tuple(values))

    def decide(self, facts: ToolTraits, arguments: object, remembered: Sequence[Rule] = ()) -> Decision:
        """Whether the tool may run with these arguments; `remembered` are the rules of this session."""
        try:
            call = self._read(facts, seen(arguments))
        except (UnparsedCommand, UnseenValue) as error:
            return Decision("deny", str(error))
        rules = [rule for rule in (*self.rules, *remembered) if rule.concerns(facts.name)]
        if against := _forbidden(call, rules) or self._protected(call) or self._ceiling(facts):
            return Decision("deny", against)
        if favour := self._bypassed() or _allowed(call, rules) or self._unasked(facts):
            return Decision("allow", favour)
        if self.approve is None:
            return Decision("deny", f"{facts.name} needs an approval, and there is no approver to ask")
        return Decision("ask", f"no rule allows {facts.name} to run without an approval")

    def rule_for_session(self, facts: ToolTraits, arguments: object) -> Rule:
        """The rule that allows calls like this one: with exactly these arguments of a shell, any of another tool."""
        name, given = glob.escape(facts.name), seen(arguments)
        names = _names_of_commands(facts.name, self.shell_tools, self.not_shells)
        if names is _SCRIPTS or any(_is_named(each, names) for each in given):
            return Rule(name, "allow", {"": Exactly.of(given)})
        return Rule(name, "allow")

    def without_prompt(self) -> Permissions:
        """The same permissions with nobody to ask, for an agent that works on its own."""
        return replace(self, approve=None)

    def _read(self, facts: ToolTraits, arguments: object) -> _Call:
        if not isinstance(arguments, dict):
            raise UnparsedCommand(f"the arguments of {facts.name} are no object")
        given = cast("dict[str, Any]", arguments)
        place = PathPattern(facts.path_parameters, self.root)
        names = _names_of_commands(facts.name, self.shell_tools, self.not_shells)
        texts = {name: _command_in(given, name) for name in given if _is_named(name, names)}
        texts = {name: text for name, text in texts.items() if text is not None}
        if not texts:
            if names is _SCRIPTS:
                raise UnparsedCommand(
                    f"{facts.name} is a shell tool, and has no text in its argument {_COMMAND!r}; "
                    "if it is none, not_shells names it"
                )
            return _Call(facts, given, place, (), None)
        try:
            found = [command for text in texts.values() for command in commands(text or "")]
        except UnparsedCommand as error:
            raise UnparsedCommand(f"the command cannot be read with certainty: {error}") from None
        return _Call(facts, given, place, (*texts,), found)

    def _protected(self, call: _Call) -> str | None:
        if _is_one_of(call.facts.name, self.exempt):
            return None
        written = list(path_texts(call.arguments, call.facts.path_parameters))
        if any(len(text) > LONGEST for text in written):
            return f"a path is longer than {LONGEST} signs, too long to be judged"
        paths = ((text, True) for text in written)
        texts = dict.fromkeys((*paths, *_paths_in(call.commands or ())))
        if not texts:
            return None
        root = resolved_path(self.root or "")
        for text, braces in ((root, False), *texts):
            if protected_name(text, self.protected, root, braces=braces):
                return f"the path {text[:100]!r} is protected"
        return None

    def _ceiling(self, facts: ToolTraits) -> str | None:
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


UNGUARDED: Final = Permissions("bypass")
"""The permissions of an engine that was given none: a chat replaces them, as a person is there to be asked."""


def settled(request: PermissionRequest, said: object) -> ApprovalDecision:
    """The answer that an approver's word is: True allows, an answer to this very request is itself, all else denies."""
    if isinstance(said, ApprovalDecision):
        fits = (said.call_id, said.fingerprint) == (request.call_id, request.fingerprint)
        return said if fits else request.deny("the answer was to another call, or to other arguments")
    if said is True:
        return request.allow()
    if said is False or said is None:
        return request.deny("it was not approved")
    return request.deny(f"the approver gave no answer, but {type(said).__name__}")


def _forbidden(call: _Call, rules: Sequence[Rule]) -> str | None:
    """The deny rule that hits, or may hit, in words."""
    for rule in rules:
        pattern, holds = _judged(call, rule)
        if rule.action != "deny" or holds is False:
            continue
        if pattern is None or any(forbids(pattern, command) for command in call.commands or ()):
            unclear = ", as the arguments do not show that it does not apply" if holds is None else ""
            return f"denied by the rule ({rule}){unclear}"
    return None


def _allowed(call: _Call, rules: Sequence[Rule]) -> str | None:
    """The allow rules that let the call run, in words. A command line needs one for each of its commands."""
    patterns: list[str] = []
    for rule in rules:
        pattern, holds = _judged(call, rule)
        if rule.action != "allow" or not holds:
            continue
        if pattern is None:
            return f"allowed by the rule ({rule})"
        patterns.append(pattern)
    if patterns and call.commands and all(each.given or covered(patterns, each) for each in call.commands):
        return f"allowed by the rules for {', '.join(patterns)}"
    return None


def _judged(call: _Call, rule: Rule) -> tuple[str | None, bool | None]:
    """The rule's pattern for commands, if it has one that means this call, and what its other conditions say."""
    names = () if call.commands is None else (*call.texts, _COMMAND)
    name = next((name for name in names if isinstance(rule.where.get(name), str)), None)
    pattern = None if name is None else cast("str", rule.where[name])
    return pattern, rule.judge(call.arguments, without=name, place=call.place)


def _command_in(given: Mapping[str, Any], name: str) -> str | None:
    """The command in the argument of that name, with the words that stand in one of their own; None: it is no text."""
    value = given[name]
    text = shlex.join(cast("list[str]", value)) if _are_texts(value) else value
    if not isinstance(text, str):
        return None
    return " ".join([text, *(shlex.join(given[each]) for each in _WORDS_BEHIND if _are_texts(given.get(each)))])


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in cast("list[object]", value))


@lru_cache(maxsize=1_000)
def _names_of_commands(tool: str, shells: tuple[str, ...], others: tuple[str, ...]) -> frozenset[str]:
    """What arguments are called that are commands of this tool."""
    if _is_one_of(tool, others):
        return frozenset()
    is_shell = _is_one_of(tool, shells) or _is_one_of(_joint.sub("_", tool).casefold(), shells)
    return _SCRIPTS if is_shell else _COMMANDS


@lru_cache(maxsize=1_000)
def _is_named(argument: str, names: frozenset[str]) -> bool:
    return re.sub(r"[^a-z]", "", argument.casefold()) in names


def _paths_in(found: Sequence[SimpleCommand]) -> Iterator[tuple[str, bool]]:
    """The texts in commands that may be paths, and whether braces mean something there."""
    for command in found:
        targets = (each.target for each in command.redirections if each.operator not in ("<<", "<<-"))
        for word in (*command.words, *command.assignments, *targets):
            yield from ((text, not word.known) for text in word_texts(word.text))


def _only_reads(facts: ToolTraits) -> bool:
    return facts.read_only and not facts.destructive


@lru_cache(maxsize=1_000)
def _is_one_of(name: str, globs: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, each) for each in globs)
