"""`toolcast completion`: print the completion script of a shell, which shtab makes from the parsers of all commands.

The script itself knows commands, options and their choices, so that a key press starts no Python for them. Only names
that change (models, aliases, sessions) are asked of `toolcast completion --values KIND`, which starts in 0.2 s.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from ..errors import ToolcastError
from ..llms.local.pulled import pulled_models
from ..providers.model_features import all_capabilities
from .command_parser import CommandParser
from .config_file import config_path, data_dir, read_config, sessions_file

_SHELLS: Final = {
    "bash": 'eval "$(toolcast completion bash)"\' in ~/.bashrc',
    "zsh": 'eval "$(toolcast completion zsh)"\' in ~/.zshrc, after compinit',
    "fish": "toolcast completion fish | source' in ~/.config/fish/config.fish",
}
"""The shells, and the line that turns on completion in each."""
_SESSIONS: Final = 100
_DATED: Final = re.compile(r"-?\*$|-20\*$")

# A name of a model has a colon, at which bash divides words; here they are joined again, and `--model=NAME` parted.
_BASH: Final = r"""
_toolcast_joined() {
  local -a words=()
  local word="" at=0 index=0 glue=0
  for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
    word="${COMP_WORDS[index]}"
    if [[ "$word" == "=" && "${words[at-1]-}" == --* ]]; then
      [[ $index -eq $COMP_CWORD ]] && { words[at]=""; ((at++)); }
      continue
    elif [[ "$word" == ":"* && $at -gt 0 ]]; then
      words[at-1]+="$word"; glue=1
    elif [[ $glue = 1 ]]; then
      words[at-1]+="$word"; glue=0
    else
      words[at]="$word"; ((at++))
    fi
    [[ $index -eq $COMP_CWORD ]] && break
  done
  local -a COMP_WORDS=("${words[@]}")
  local COMP_CWORD=$((at - 1)) current="${words[at-1]}"
  _shtab_toolcast
  if [[ "$current" == *:* && "$COMP_WORDBREAKS" == *:* ]]; then
    local before="${current%"${current##*:}"}"
    for index in "${!COMPREPLY[@]}"; do COMPREPLY[index]="${COMPREPLY[index]#"$before"}"; done
  fi
  [[ ${#COMPREPLY[@]} -eq 1 && "${COMPREPLY[0]}" == *: ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -o bashdefault -F _toolcast_joined toolcast
"""
_FUNCTIONS: Final = {
    "bash": """
_toolcast_values_{kind}() {{
  local IFS=$'\\n'
  compgen -W "$(toolcast completion --values {kind} 2>/dev/null)" -- "$1"
}}""",
    "zsh": """
_toolcast_values_{kind}() {{
  local -a found=(${{(f)"$(toolcast completion --values {kind} 2>/dev/null)"}})
  compadd -S '' -- ${{(M)found:#*:}}
  compadd -- ${{found:#*:}}
}}""",
    "fish": "",
}
"""The functions that complete names which change; fish needs none."""
# Without a function zsh shows a message for such an argument, and then completes no option in its place.
_FREE_TEXT: Final = {"zsh": "_toolcast_free_text() { return 1 }"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `toolcast completion`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    lines = "\n".join(f"  {shell:5} '{line}" for shell, line in _SHELLS.items())
    parser.epilog = f"To turn it on, put this line into the file of your shell:\n{lines}"
    parser.add_argument("shell", nargs="?", choices=tuple(_SHELLS), metavar="SHELL", help="bash, zsh or fish")
    parser.add_argument("--values", choices=tuple(_VALUES), help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Print the script of the shell, or names that a script has asked for, and return the exit code."""
    if arguments.values is not None:
        print(*_VALUES[arguments.values](), sep="\n")
        return 0
    if arguments.shell is None:
        raise ToolcastError(f"name your shell: toolcast completion {'|'.join(_SHELLS)}")
    print(completion_script(arguments.shell))
    return 0


def completion_script(shell: str) -> str:
    """Return the completion script of a shell.

    Raises:
        ImportError: shtab is not installed.
    """
    try:
        import shtab
    except ModuleNotFoundError as error:
        message = "toolcast completion needs shtab: pip install 'toolcast[cli]'"
        raise ImportError(message, name=error.name) from error
    from .cli import command_parser

    parser = command_parser()
    files = dict.fromkeys(("FILE", "SOURCE", "LOG", "RUN"), shtab.FILE)
    files |= dict.fromkeys(("DIR", "FOLDER"), shtab.DIRECTORY)
    for action in _actions(parser):
        kind = _KINDS.get(action.dest)
        if kind is not None and not action.choices:
            cast("Any", action).complete = {
                "bash": f"_toolcast_values_{kind}",
                "zsh": f"_toolcast_values_{kind}",
                "fish": f"(toolcast completion --values {kind} 2>/dev/null)",
            }
        elif isinstance(action.metavar, str) and action.metavar in files:
            cast("Any", action).complete = files[action.metavar]
        elif not action.option_strings and not action.choices:
            cast("Any", action).complete = {"zsh": "_toolcast_free_text"}
    functions = "\n".join(_FUNCTIONS[shell].format(kind=kind) for kind in _VALUES) + "\n"
    script: str = shtab.complete(parser, shell, preamble=functions + _FREE_TEXT.get(shell, ""))
    return script + _BASH if shell == "bash" else script


def _actions(parser: CommandParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of all commands; each module of a command is imported."""
    parser.load_module()
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):  # pyright: ignore[reportPrivateUsage]  # it has no other name
            commands = cast("Mapping[str, CommandParser]", cast("Any", action).choices)
            for command in commands.values():
                yield from _actions(command)


def _models() -> Iterator[str]:
    """Yield aliases, pulled models, models of the table with a complete name, and `provider:` of each provider."""
    yield from read_config(config_path()).aliases
    yield from ("local", *(model.name for model in pulled_models()))
    providers: dict[str, None] = {}
    for provider, patterns, _ in all_capabilities():
        providers[provider] = None
        for pattern in patterns.split(", "):
            name = _DATED.sub("", pattern)
            if name and not re.search(r"[*?\[]", name):
                yield f"{provider}:{name}"
    yield from (f"{provider}:" for provider in providers)


def _sessions() -> Iterator[str]:
    """Yield the ids of the newest sessions."""
    from ..stores.sqlite_store import SQLiteStore

    file = sessions_file(data_dir())
    if file.exists():
        with SQLiteStore(file) as store:
            yield from store.ids()[: -_SESSIONS - 1 : -1]


_VALUES: Final[Mapping[str, Callable[[], Iterator[str]]]] = {"models": _models, "sessions": _sessions}
_KINDS: Final = {
    "model": "models",
    "evaluators": "models",
    "value": "models",  # of `toolcast config set`
    "session": "sessions",
}
"""The names of arguments whose values are completed, and what they are."""
