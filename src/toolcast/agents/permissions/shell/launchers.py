"""The programs that run other programs, and the words by which they do so: `sudo rm`, `find -exec`, `git -c`.

`launches` returns what the words of one simple command may make its program run. Three tables and a few functions hold
what is known of each program:

* wrappers (`WRAPPERS`, `_SUBCOMMANDS`): the other program is among the words, behind options and operands. Which
  options take a value is not known, so each word that may be the program is one `Launch`.
* options: their value is a command line (`_LINES`: `rsync -e`), or code or a file with code (`_CODE`: `python -c`).
* programs whose words have a grammar of their own: `git`, `find`, `sed`, `awk`, `make`, `ssh`, shells and builtins.

The tables err to one side: what may be such an option counts as one. `-Wignore` may hold the `-m` of `python`, a word
that only shows at run time may be any option, and long options count when they are abbreviated.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, NoReturn, TypeAlias, TypeVar

from .lexer import UnparsedCommand, Word

_T = TypeVar("_T")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _each(names: str, value: _T) -> dict[str, _T]:
    return dict.fromkeys(names.split(), value)


USERS_SHELLS: Final = _names("su runuser script sg")
"""Shells whose operands are not script files."""

FOREIGN_SHELLS: Final = _names("fish csh tcsh nu elvish xonsh pwsh powershell")
"""Shells whose options are not those of a POSIX shell."""

SHELLS: Final = (
    USERS_SHELLS
    | FOREIGN_SHELLS
    | _names("sh bash dash zsh ksh mksh ash rbash rksh rzsh yash posh pdksh oksh lksh ksh93")
)
"""Programs that run the text behind their option `-c`."""

EVALUATORS: Final = _names("eval trap watch")
"""Programs that run their own words as a text."""

_OPERANDS: Final[Mapping[str, int]] = {
    **_each(
        "env command builtin exec sudo doas nohup setsid nice pkexec run0 ionice time stdbuf unshare strace "
        "ltrace caffeinate setpriv jobs noglob linux32 linux64 i386 x86_64 uname26 prlimit numactl nsenter "
        "nocorrect systemd-run systemd-inhibit dbus-run-session start-stop-daemon daemonize firejail bwrap "
        "fakeroot fakechroot proot capsh cgexec torsocks tsocks proxychains proxychains4 xvfb-run valgrind gdb "
        "perf entr unbuffer rlwrap tmux screen arch chpst choom xargs parallel find fd fdfind busybox toybox npx "
        "bunx pnpx uvx ssh-agent hyperfine watchexec nodemon concurrently chronic softlimit pssh pdsh sshpass "
        "dotenv dotenvx catchsegv xtrace rr heaptrack cpulimit ccache distcc sccache scan-build bear intercept-build "
        "ld.so reflex multitime dumb-init tini catatonit nocache eatmydata trickle cpuset waypipe",
        0,
    ),
    **_each(
        "timeout gtimeout chroot taskset flock setarch chrt ssh su-exec gosu logsave runcon setuidgid envdir "
        "envuidgid setlock repeat autossh mosh faketime gdbserver",
        1,
    ),
}
"""Wrappers, and how many operands are in front of the program that they run."""

WRAPPERS: Final = EVALUATORS | USERS_SHELLS | frozenset(_OPERANDS)
"""Programs that run another one, which is among their words."""

REMOTE: Final = _names("ssh autossh mosh pssh pdsh")
"""Wrappers that join their last words to a text for a shell."""

_TEXT_WRAPPERS: Final = _names("parallel hyperfine watchexec nodemon concurrently entr tmux screen reflex flock")
"""Wrappers of which a single word may be a whole command line."""

_SPLIT: Final = _names("hyperfine concurrently")
"""Wrappers of which each operand is a command line."""

_DOUBTFUL: Final = _TEXT_WRAPPERS | REMOTE | _names("setarch runcon chroot logsave emulate")
"""Wrappers of which it is not certain what they run, or that do more than run it."""

_FED: Final = _names("xargs parallel")
"""Wrappers that add words from their input."""

_SUBCOMMANDS: Final[Mapping[str, Mapping[str, int]]] = {
    **_each(
        "uv pipx poetry pdm hatch rye pipenv pixi conda mamba micromamba devbox toolbox op doppler teller "
        "snap foreman honcho heroku",
        {"run": 0},
    ),
    **_each("npm pnpm yarn", {"exec": 0, "x": 0, "dlx": 0, "create": 0, "init": 0, "explore": 1, "set": 0, "node": 0}),
    "bun": {"x": 0, "create": 0},
    "deno": {"eval": 0, "x": 0},
    **_each("docker podman nerdctl docker-compose podman-compose", {"run": 1, "exec": 1, "create": 1}),
    **_each("kubectl oc k3s microk8s", {"exec": 1, "run": 1, "debug": 1}),
    **_each("lxc incus direnv chamber ip aws-vault", {"exec": 1}),
    **_each("apptainer singularity", {"exec": 1, "run": 1, "shell": 1}),
    **_each("rbenv pyenv nodenv asdf goenv jenv bundle opam dune", {"exec": 0}),
    **_each("mise rtx", {"exec": 0, "x": 0, "run": 0}),
    "go": {"tool": 0},
    "guix": {"shell": 0, "environment": 0},
    "gh": {"alias": 0, "extension": 0, "codespace": 0},
    **_each("rustup flatpak", {"run": 1}),
    "nix": {"run": 0, "shell": 0, "develop": 0},
    **_each("cabal dotnet", {"exec": 0}),
    "stack": {"exec": 0, "runghc": 0},
    "distrobox": {"enter": 1},
    "machinectl": {"shell": 1},
    "vagrant": {"ssh": 0},
    "gcloud": {"ssh": 1},
    "cmake": {"env": 0, "time": 0},
    "perf": {"record": 0, "stat": 0, "trace": 0},
}
"""The subcommands that run another program, and how many operands are in front of it. `uv tool run` ends in `run`."""

_LINES: Final[Mapping[str, str]] = {
    **_each(
        "tar gtar bsdtar",
        "I F --use-compress-program --to-command --checkpoint-action --rsh-command --rmt-command --info-script "
        "--new-volume-script",
    ),
    "rsync": "e --rsh --rsync-path",
    **_each("scp sftp", "S D"),
    "zip": "--unzip-command",
    "sort": "--compress-program",
    "split": "--filter",
    "man": "P H --pager --html",
    "rg": "--pre --hostname-bin",
    **_each("ag ack bat delta", "--pager"),
    "wget": "--use-askpass",
    **_each("nc ncat", "e c --exec --sh-exec"),
    "tcpdump": "z",
    **_each("sdiff diff3", "--diff-program"),
    "install": "--strip-program",
    "cpio": "--rsh-command",
    "mosh": "--ssh --server",
    "npx": "c --call",
    "npm": "c C --call --script-shell --editor",
    "pnpm": "c C --script-shell",
    "nix-shell": "--run --command",
    **_each("nix flock vagrant", "c --command"),
    "entr": "s",
    "nodemon": "x --exec",
    "hyperfine": "s p c S C --setup --prepare --cleanup --conclude --shell",
    "gcloud": "--command",
    "just": "c --command --shell --shell-arg --chooser",
    "go": "-exec -toolexec -vettool -ldflags -w",
    **_each("xterm konsole alacritty gnome-terminal xfce4-terminal", "e x --command --execute"),
    "fzf": "--preview --bind",
    **_each("docker podman nerdctl", "--entrypoint"),
    "pandoc": "F L --filter --lua-filter --pdf-engine",
    "gpg": "--photo-viewer --exec-path --agent-program --dirmngr-program --pinentry-program",
    "helm": "--post-renderer",
    "svn": "--diff-cmd --diff3-cmd --editor-cmd",
    "dpkg": "--pre-invoke --post-invoke",
    **_each("mapfile readarray", "C"),
    **_each("compgen complete", "C W F"),
    "fc": "e s",
    "emulate": "c",
    "iptables": "--modprobe",
}
"""Options whose value is a command line. One letter stands for a short option, alone or among others."""

_CODE: Final[Mapping[str, str]] = {
    **_each("python pypy ipython jython bpython", "c m i"),
    "perl": "e E M m I d x",
    "raku": "e M I",
    "ruby": "e r I S x",
    **_each(
        "node nodejs bun tsx ts-node qjs",
        "e p r i --eval --print --require --import --loader --experimental-loader --preload --inspect",
    ),
    "php": "r B R E F d z --run",
    **_each("lua luajit texlua", "e l i"),
    "expect": "c",
    **_each("osascript gnuplot groovy scala", "e"),
    **_each("R r rscript", "e f --file"),
    "julia": "e E L -eval --eval --load --print",
    **_each("octave redis-cli mongosh", "--eval"),
    "elixir": "e r S --eval --rpc-eval",
    "erl": "-eval -s -run",
    "guile": "c e l",
    "racket": "e r l",
    "sbcl": "--eval --load",
    "ghc": "e F -pgmF -pgmP",
    "clojure": "e M X",
    "swipl": "g t s",
    "exiftool": "-if -config -p -execute",
    "psql": "c f v --command --file",
    **_each("mysql mariadb", "e --execute"),
    "lldb": "o s O S k --one-line --source",
    "gdb": "x --eval-command --command -ex -iex -ix --init-eval-command --init-command",
    **_each(
        "vim vi nvim view ex gvim vimdiff rvim rview vim.basic vim.tiny",
        "c S u U s W E e q t -cmd --cmd --remote-expr --remote-send",
    ),
    "emacs": "l f x -eval --eval --load --funcall --script --execute --batch",
    "emacsclient": "e --eval",
    "nano": "s --speller",
    "less": "k --lesskey-file --lesskey-src --lesskey-content",
    "man": "C --config-file",
    **_each("make gmake bmake", "f I E --eval --file --makefile --include-dir"),
    "cmake": "P C",
    **_each("gcc cc g++ c++", "B -wrapper -fplugin -specs --specs -Wl"),
    **_each("clang clang++", "B -fplugin -load -Xclang --config -Wl"),
    "java": "-XX -agentlib -agentpath -javaagent",
    "cargo": "C Z --config",
    "rustc": "C Z --codegen",
    "gradle": "I --init-script",
    "mvn": "D",
    "rake": "e p E r f --execute --rakefile --require",
    "sftp": "b",
    "ssh-keygen": "D w",
    "ssh-add": "s S",
    "zip": "T",
    "patch": "e --ed",
    "wget": "e --execute --config",
    **_each("apt apt-get", "o c --option --config-file"),
    "pip": "--python --config-settings --global-option",
    "hg": "--config --ssh",
    "svn": "--config-option --config-dir",
    "nmap": "--script --interactive",
    "tshark": "X",
    "ansible": "a m i --args --module-name --inventory",
    **_each("tex latex pdflatex xelatex lualatex pdftex", "--shell-escape -shell-escape -enable-write18"),
    "npm": "--node-options --prefix",
    "docker": "f --file --config H --host",
    "podman": "--runtime --hooks-dir --conmon",
    "kubectl": "--kubeconfig",
    "openssl": "-engine -provider",
    **_each("rpm rpmbuild", "E D --eval --define"),
    **_each("mutt neomutt", "e F"),
    "jj": "--config --config-file",
    "enable": "f",
    "bind": "x",
    "hash": "p",
}
"""Options whose value is code, or names a file or a module that is run or loaded."""

_ALWAYS: Final = _names(
    "socat m4 dc ed red ex gdb lldb sqlite3 duckdb psql mysql mariadb ftp lftp smbclient at batch crontab "
    "zmodload autoload"
)
"""Programs that run commands out of what they read, whatever their options are."""

_INTERPRETERS: Final = _names(
    "python pypy ipython perl raku ruby irb node nodejs php lua luajit tclsh expect osascript rscript julia "
    "octave gnuplot guile deno bun groovy swipl sbcl elixir tsx ts-node qjs"
)
"""Programs that run their input where no file is named."""

_EVALUATING: Final = _names(
    "test [ let declare typeset local export readonly read unset printf mapfile readarray getopts wait integer "
    "float compgen complete return exit shift break continue print vared"
)
"""Builtins that evaluate the subscript in a word such as `a[$(rm x)]`."""

_DECLARING: Final = _names("declare typeset local export readonly integer float")

_UNSAFE_WORDS: Final[Mapping[str, frozenset[str]]] = {
    **_each("test [", _names("-v -R -eq -ne -lt -le -gt -ge")),
    **_each("printf print", _names("-v")),
    "wait": _names("-p"),
}
"""The words by which such a builtin evaluates others; those that are not named here always do."""

_MOST: Final = 100  # words that may run other programs; programs that are run through one another

_UNKNOWN: Final = Word("$()", False)
"""A word of which nothing is known."""

_assignment = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=").match
_option_of_env = re.compile(r"-[A-Za-z0]*S|--s").match
_version = re.compile(r"[-.]?[0-9][0-9.]*[a-z]?$")
_loader = re.compile(r"ld(?:-linux|-musl|64|\.so|-).*\.so(?:\.[0-9]+)*|ld\.so").fullmatch
_only_asks = re.compile(r"--?version|-V|--help").fullmatch
_flag = re.compile(r"-[uBOsvqw]+|--[a-z-]+=.*").fullmatch
_upwards = re.compile(r"\.\./(?:.*/)?(?:dev|proc)/").match
option_c: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*|--command").fullmatch
_shell_option = re.compile(r"-[abefhklmnpuvxBCEHPT]+|--(?:posix|norc|noprofile|login|verbose|noediting)").fullmatch
_shell_for = re.compile(r"-[A-Za-z]*[si][A-Za-z]*|--shell|--login").fullmatch
_subscript = re.compile(r"[A-Za-z_]\w*\[[^\]]*(?:\$\(|`|\$\{)").search
_command_variable = re.compile(
    r"(?:PS[0-4]|PROMPT_COMMAND|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|SHELL|LESSOPEN|LESSCLOSE|FCEDIT|HGEDITOR|SVN_SSH"
    r"|SVN_EDITOR|SUDO_ASKPASS|SUDO_EDITOR|SSH_ASKPASS|RSYNC_RSH|CVS_RSH|RUSTC_WRAPPER|CC|CXX|LD"
    r"|GIT_[A-Z_]*(?:COMMAND|PAGER|EDITOR|ASKPASS|DIFF|SSH))\+?="
).match
_loading_variable = re.compile(
    r"(?:BASH_ENV|ENV|LD_PRELOAD|LD_AUDIT|DYLD_INSERT_LIBRARIES|GIT_CONFIG[A-Z_0-9]*|GIT_EXEC_PATH|BASH_FUNC_.*?)\+?=(?!/dev/null\Z)"
).match
_search_variable = re.compile(
    r"PATH|LD_LIBRARY_PATH|PYTHON[A-Z]*|PERL5[A-Z]*|RUBY[A-Z]*|NODE_[A-Z]*|MAKEFLAGS"
).fullmatch
_harmless_config = re.compile(
    r"(?:color\.[^=]*|user\.name|user\.email|core\.quotepath|core\.autocrlf|advice\.[^=]*|log\.date)=", re.IGNORECASE
).match
_sed_script = re.compile(
    r"(?:\s|;|\{|\}|[0-9$,~+!]|/[^/\\\n\[]*/I?|[dDgGhHlnNpPqQxz=]"
    r"|s(?P<s>[/|,#:@])(?:\\.|\[\^?[^\]\[/|,#:@\\\n]+\]|(?!(?P=s))[^\\\n\[])*+(?P=s)"
    r"(?:\\.|(?!(?P=s))[^\\\n])*+(?P=s)[gpiI0-9]*(?=[\s;}]|\Z))*+"
).fullmatch
_awk_runs = re.compile(r"system|getline|[>@]|\||\bclose\b").search


class Launch(NamedTuple):
    """Something that a program runs.

    `at` is the index of the word that says what is run, or the number of words where it is not among them. `words` are
    a command, `text` a command line, `code` is in another language. `sure`: the words are exactly what is run.
    """

    at: int
    words: tuple[Word, ...] = ()
    text: Word | None = None
    code: str = ""
    sure: bool = False


_Words: TypeAlias = tuple[Word, ...]


def program(word: Word) -> str:
    """Return the name of the program that a command with this first word runs, without its folder."""
    return word.text.rpartition("/")[2]


def program_key(word: Word) -> str:
    """Return the name under which the tables have the program: in lower case, without version and `.exe`."""
    name = program(word).casefold().removesuffix(".exe")
    if name in _KNOWN:
        return name
    if _loader(name):
        return "ld.so"
    return _version.sub("", name)


@lru_cache(maxsize=64)
def launches(words: tuple[Word, ...]) -> tuple[Launch, ...]:
    """Return what the command may make its program run, itself aside.

    Raises `UnparsedCommand` where there is too much to be judged.
    """
    found = tuple(islice(_launches(words), _MOST + 1))
    if len(found) > _MOST:
        raise UnparsedCommand(f"more than {_MOST} of its words may run other programs")
    return found


def as_git(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return `git-push x` as `git push x`."""
    return (Word("git"), Word(program(words[0])[4:], words[0].literal), *words[1:])


def _launches(words: tuple[Word, ...]) -> Iterator[Launch]:
    name = program_key(words[0]) if words else ""
    if name.startswith("git-"):
        yield from (launch._replace(at=max(launch.at - 1, 0)) for launch in _git(as_git(words)))
    if name in _GRAMMARS:
        yield from _GRAMMARS[name](words)
    yield from _options(words, _LINES.get(name, ""), lines=True)
    coded = tuple(_options(words, _CODE.get(name, ""), lines=False))
    yield from coded
    if name in _SUBCOMMANDS:
        yield from _subcommands(words, _SUBCOMMANDS[name])
    if name in _OPERANDS and name not in _OWN_WORDS:
        yield from _wrapped(words, name)
    if name in _EVALUATING:
        yield from _evaluated(words, name)
    if (name in _ALWAYS and not _asks_for_version(words)) or (
        name in _INTERPRETERS and not coded and _reads_input(words)
    ):
        yield Launch(len(words), code=" ".join(word.text for word in words[1:]))
    if name in SHELLS:
        yield from _shell(words, name)


@lru_cache(maxsize=64)
def all_launches(words: tuple[Word, ...]) -> tuple[Launch, ...]:
    """Return `launches`, and those of the commands that are launched, with `at` as an index into `words`.

    Raises `UnparsedCommand` where there is too much to be judged.
    """
    found: list[Launch] = []
    seen: set[tuple[int, int]] = set()
    waiting = [(0, words)]
    while waiting:
        begin, command = waiting.pop()
        for launch in launches(command):
            at = begin + launch.at
            found.append(launch._replace(at=at))
            if launch.words and (at, len(launch.words)) not in seen:
                seen.add((at, len(launch.words)))
                waiting.append((at, launch.words))
        if len(seen) > _MOST:
            raise UnparsedCommand(f"it runs more than {_MOST} programs through one another")
    return tuple(found)


# Shells.


def inner_scripts(words: Sequence[Word], fail: Callable[[str], NoReturn]) -> Iterator[str]:
    """Yield the texts that a command runs as commands: the script of `sh -c TEXT`, `eval TEXT` and the like.

    `fail` is called with the problem where a text is not known before the command runs.
    """
    names = [program(word).casefold() for word in words]
    places = range(len(words)) if names[:1] and names[0] in WRAPPERS else range(min(1, len(words)))
    if "env" in names[: len(places)] and any(_option_of_env(w.text) for w in words[names.index("env") + 1 :]):
        fail("a text that env splits into words")
    evaluator = next((place for place in places if names[place] in EVALUATORS), None)
    if evaluator is not None:
        yield " ".join(_literal_texts(words[evaluator + 1 :], fail))
        return
    shells = (place for place, name in enumerate(names) if name in SHELLS or not (place or words[0].literal))
    shell = next(shells, len(words))
    option = next((place for place in range(shell, len(words)) if option_c(words[place].text)), len(words))
    for text in _literal_texts(words[option + 1 : option + 2], fail):
        if text.startswith(("-", "+")):
            fail("options after -c")
        yield text


def _literal_texts(words: Iterable[Word], fail: Callable[[str], NoReturn]) -> Iterator[str]:
    for word in words:
        if not word.literal:
            fail("a text for another shell that is only known at run time (single quotes make it literal)")
        yield word.text


# Wrappers.


def _wrapped(words: _Words, name: str) -> Iterator[Launch]:
    """Yield what a wrapper runs: each word that may be the program, with all that follows it."""
    operands = _OPERANDS[name]
    if name == "jobs" and not any(word.text.startswith("-") and "x" in word.text for word in words[1:]):
        return
    places, sure = _places(words, 1, operands)
    for place in places[-1:] if sure else places:
        if name in REMOTE:
            yield Launch(place, text=_line(words[place:]) if len(places) > operands or sure else None)
        else:
            inner = _filled(words, place) if name in _FED and place < len(words) else words[place:]
            yield Launch(place, inner, sure=sure and name not in _DOUBTFUL)
    if name in _TEXT_WRAPPERS:
        single = name in _SPLIT
        texts = (place for place, word in enumerate(words) if place and (single or " " in word.text))
        yield from (Launch(place, text=words[place]) for place in texts)
    if name in SHELL_BEHIND and names_no_program([word.text for word in words[1:]], operands):
        yield Launch(len(words))
    if name == "ssh":
        yield from _ssh_options(words)


def _filled(words: _Words, place: int) -> _Words:
    """Return the command at `place` with the words that `xargs` takes from its input: in place of `{}`, and behind."""
    marks = ["{", *(word.text[2:] for word in words[:place] if word.text.startswith("-I") and len(word.text) > 2)]
    marks += [words[at + 1].text for at, word in enumerate(words[:place]) if word.text == "-I"]
    inner = [_UNKNOWN if any(mark in word.text for mark in marks) else word for word in words[place:]]
    return (*inner, _UNKNOWN)


SHELL_BEHIND: Final = _names(
    "sudo doas unshare nsenter linux32 linux64 fakeroot systemd-run screen tmux ssh chroot setarch mosh autossh "
    "parallel pkexec run0 ssh-agent"
)
"""Wrappers that run a shell, or what they read, where no program is named."""


def names_no_program(words: Sequence[str], operands: int) -> bool:
    """Return whether words behind `sudo` and the like hold no program to run, but options and so many operands."""
    before = ""
    for word in words:
        if _shell_for(word):
            return True
        if not word.startswith("-") and not before.startswith("-"):
            break
        before = word
    return sum(not word.startswith("-") for word in words) <= operands


def operands_of(name: str) -> int:
    """Return how many operands are in front of the program that a wrapper runs."""
    return _OPERANDS.get(name, 0)


def _line(words: _Words) -> Word:
    return Word(" ".join(word.text for word in words), all(word.literal for word in words))


def _places(words: _Words, start: int, operands: int) -> tuple[list[int], bool]:
    """Return the indexes of the operands and of the words that may be the program, and whether the last surely is it.

    A word behind an option may be its value, so the word that follows may be the program as well. A word that only
    shows at run time may be any number of words: then the number of words is among the indexes.
    """
    places: list[int] = []
    doubts: list[int] = []
    sure, after_option, only_operands = True, False, False
    for place in range(start, len(words)):
        word = words[place]
        if not word.literal:
            doubts, sure = [len(words)], False
        if word.text == "--" and not only_operands:
            after_option, only_operands = False, True
        elif not only_operands and (word.text.startswith(("-", "+")) or _assignment(word.text)):
            after_option, sure = True, False
        elif not word.literal:
            places += [] if after_option else [place]
            after_option = not after_option
        elif operands and not after_option:
            operands -= 1
            places.append(place)
        else:
            places.append(place)
            if not after_option:
                return places + doubts, sure
            after_option = False
    return places + doubts, False


def _subcommands(words: _Words, known: Mapping[str, int]) -> Iterator[Launch]:
    """Yield what a subcommand such as `run` runs. Any word of that name may be the subcommand."""
    for place, word in enumerate(words[1:], 1):
        if not word.literal and (place == 1 or words[place - 1].text.startswith("-")):
            yield Launch(place)
        if not word.literal or word.text not in known:
            continue
        places, sure = _places(words, place + 1, known[word.text])
        sure = sure and place == 1 and len(places) == 1
        yield from (Launch(at, words[at:], sure=sure) for at in places or [place])


# Options.


def _options(words: _Words, table: str, *, lines: bool) -> Iterator[Launch]:
    """Yield a launch for each word that may be one of the options in `table`."""
    if not table:
        return
    names = table.split()
    letters = frozenset(name for name in names if len(name) == 1)
    long = [name for name in names if len(name) > 1]
    for place, word in enumerate(words[1:], 1):
        if not word.literal and _may_be_option(word):
            yield Launch(place)
            continue
        found, value = _option_value(word.text, letters, long)
        if not found:
            continue
        at = place if value or place + 1 >= len(words) else place + 1
        given = Word(value.removeprefix("exec="), word.literal) if value else words[at]
        yield Launch(at, text=given) if lines else Launch(at, code=given.text)


def _option_value(text: str, letters: frozenset[str], long: Iterable[str]) -> tuple[bool, str]:
    """Return whether the word may be one of the options, and the value within it."""
    if not text.startswith("-") or len(text) < 2:
        return False, ""
    name, _, value = text.partition("=")
    for option in long:
        if name == option or (text.startswith("--") and len(name) > 2 and option.startswith(name)):
            return True, value
        if len(option) > 2 and not option.startswith("--") and (text.startswith(option) or name == f"-{option}"):
            return True, value
    if not text.startswith("--"):
        place = next((place for place, char in enumerate(text[1:], 1) if char in letters), None)
        if place is not None:
            return True, text[place + 1 :]
    return False, ""


def _may_be_option(word: Word) -> bool:
    """Return whether a shell may make a word that begins with `-` of this one."""
    return not word.literal and ("$" in word.text or word.text[:1] in "*?[{~-")


def _reads_input(words: _Words) -> bool:
    """Return whether an interpreter with these words may run what it reads.

    A word behind an option may be its value, and no file.
    """
    after_option = False
    for word in words[1:]:
        if not word.literal or word.text == "-" or is_device(word.text):
            return True
        if not word.text.startswith("-"):
            return after_option
        after_option = not _flag(word.text)
    return not _asks_for_version(words)


def _asks_for_version(words: _Words) -> bool:
    return len(words) == 2 and bool(_only_asks(words[1].text)) and program_key(words[0]) != "tclsh"


def is_device(text: str) -> bool:
    """Return whether the path may lead to what a program reads: `/dev/stdin`, `../../proc/self/fd/0`."""
    path = posixpath.normpath(text)
    return path.startswith(("/dev/", "/proc/", "//dev/", "//proc/")) or bool(_upwards(path))


# Programs with a grammar of their own.


def _shell(words: _Words, name: str) -> Iterator[Launch]:
    """Yield a launch where a shell runs what is neither a file nor the text behind `-c`, which is read elsewhere."""
    if name in USERS_SHELLS:
        if not any(option_c(word.text) for word in words):
            yield Launch(len(words))
        return
    for place, word in enumerate(words[1:], 1):
        if word.literal and (word.text == "-c" if name in FOREIGN_SHELLS else option_c(word.text)):
            if place + 1 == len(words) or not words[place + 1].literal:
                yield Launch(len(words))
            return
        if word.literal and _shell_option(word.text) and name not in FOREIGN_SHELLS:
            continue
        if not word.literal or word.text.startswith(("-", "+")) or is_device(word.text):
            yield Launch(place)
        return
    yield Launch(len(words))


def _find(words: _Words) -> Iterator[Launch]:
    place = 1
    while place < len(words):
        word = words[place]
        if word.text in ("-exec", "-execdir", "-ok", "-okdir"):
            ends = (end for end in range(place + 1, len(words)) if words[end].text in (";", "+"))
            end = next(ends, len(words))
            inner = tuple(_UNKNOWN if "{}" in each.text else each for each in words[place + 1 : end])
            yield Launch(min(place + 1, len(words)), inner, sure=True)
            place = end
        elif word.text in ("-delete", "-fls", "-fprint", "-fprint0", "-fprintf") or _may_be_option(word):
            yield Launch(place)
        place += 1


def _tar(words: _Words) -> Iterator[Launch]:
    """Yield options without a dash: `tar cIf program archive`."""
    if len(words) > 1 and not words[1].text.startswith("-") and {*"IF"} & {*words[1].text}:
        yield Launch(1, text=_UNKNOWN)


def _fd(words: _Words) -> Iterator[Launch]:
    for place, word in enumerate(words[1:], 1):
        if _may_be_option(word):
            yield Launch(place)
        elif _option_value(word.text, frozenset("xX"), ("--exec", "--exec-batch"))[0]:
            inner = tuple(_UNKNOWN if "{" in each.text else each for each in words[place + 1 :])
            yield Launch(place + 1, (*inner, _UNKNOWN), sure=False)
            return


def _sed(words: _Words) -> Iterator[Launch]:
    scripts: list[int] = []
    operands: list[int] = []
    place = 1
    while place < len(words):
        text = words[place].text
        if _may_be_option(words[place]):
            yield Launch(place)
        elif re.fullmatch(r"-[nrsuzE]*e|--expression", text):
            place += 1
            scripts.append(place)
        elif (
            text.startswith("-")
            and text != "-"
            and not re.fullmatch(
                r"-[nrsuzE]+|-[nrsuzE]*i.*|--(?:quiet|silent|regexp-extended|in-place(?:=.*)?|posix|version|help)", text
            )
        ):
            yield Launch(place, code=text)
        elif not text.startswith("-"):
            operands.append(place)
        place += 1
    if operands and words[operands[0]].text == "":  # with other programs of that name, the suffix behind -i
        operands.pop(0)
    for at in scripts or operands[:1]:
        if at < len(words) and not (words[at].literal and len(words[at].text) < 1_000 and _sed_script(words[at].text)):
            yield Launch(at, code=words[at].text)


def _awk(words: _Words) -> Iterator[Launch]:
    place = 1
    while place < len(words) and words[place].text.startswith("-") and words[place].literal:
        text = words[place].text
        if text == "--":
            place += 1
            break
        if not text.startswith(("-F", "-v")):
            yield Launch(place, code=" ".join(word.text for word in words[place:]))
            return
        place += 2 if len(text) == 2 else 1
    if place < len(words):
        text = words[place].text
        if not words[place].literal or _awk_runs(text.replace("||", "")):
            yield Launch(place, code=text)


def _make(words: _Words) -> Iterator[Launch]:
    for place, word in enumerate(words[1:], 1):
        text = word.text
        if _may_be_option(word) or ("=" in text and not text.startswith("-")):
            yield Launch(place, text=Word(text.partition("=")[2], word.literal) if "=" in text else None)
        elif text.endswith("-") or is_device(text):  # `-f -` reads its rules
            yield Launch(place, text=_UNKNOWN)


def _plus(words: _Words) -> Iterator[Launch]:
    """Yield the commands that `less`, `more` and `vim` run at the start: words that begin with `+`."""
    for place, word in enumerate(words[1:], 1):
        if word.text.startswith("+") or _may_be_option(word):
            yield Launch(place, code=word.text)


def _ssh_options(words: _Words) -> Iterator[Launch]:
    """Yield the options of `ssh` by which it runs programs here, or reads who knows what configuration.

    They may follow the host as well.
    """
    hosts = 0
    for place, word in enumerate(words[1:], 1):
        found, value = _option_value(word.text, frozenset("oFI"), ())
        if found:
            at = place if value or place + 1 >= len(words) else place + 1
            name, _, line = re.sub(r"\s*[=\s]\s*", "=", value or words[at].text, count=1).partition("=")
            if name.casefold() not in _HARMLESS_SSH:
                yield Launch(at, text=Word(line, words[at].literal))
        elif not word.text.startswith("-") and not words[place - 1].text.startswith("-"):
            hosts += 1
            if hosts > 1:
                return


_HARMLESS_SSH: Final = _names(
    "stricthostkeychecking batchmode connecttimeout port user serveraliveinterval loglevel serveralivecountmax "
    "connectionattempts compression identitiesonly requesttty"
)

_GIT_VALUES: Final = _names("-C --git-dir --work-tree --namespace --super-prefix --attr-source")
_GIT_FLAGS: Final = _names(
    "-p -P --paginate --no-pager --bare --no-replace-objects --literal-pathspecs -v -h --glob-pathspecs "
    "--noglob-pathspecs --icase-pathspecs --no-optional-locks --version --help --no-lazy-fetch --no-advice --html-path "
    "--man-path --info-path --exec-path"
)
_GIT_LINES: Final[Mapping[str, str]] = {
    "clone": "u --upload-pack",
    **_each("fetch pull ls-remote fetch-pack", "--upload-pack --exec"),
    **_each("push send-pack", "--receive-pack --exec"),
    "archive": "--exec",
    "grep": "O --open-files-in-pager",
    "rebase": "x --exec",
    "difftool": "x --extcmd",
    "instaweb": "d b --httpd --browser",
    "web--browse": "b c --browser",
    "send-email": "--smtp-server --sendmail-cmd --to-cmd --cc-cmd --header-cmd",
    "daemon": "--access-hook",
}
"""Options of the subcommands of git whose value is a command line."""
_GIT_CODE: Final[Mapping[str, str]] = {
    "clone": "--template",
    "init": "--template",
    "submodule": "--template",
    "difftool": "t --tool",
    "mergetool": "t --tool",
}
_GIT_RUNNERS: Final = _names(
    "filter-branch remote-ext remote-fd shell for-each-repo hook daemon http-backend svn p4 cvsimport"
)
_GIT_REMOTE: Final = _names("clone fetch pull push ls-remote remote submodule archive fetch-pack send-pack")


def _git(words: _Words) -> Iterator[Launch]:
    place = 1
    while place < len(words):
        word = words[place]
        name, equals, _ = word.text.partition("=")
        if not word.literal:
            yield Launch(place)
            return
        if word.text == "-c":
            yield from _git_config(words, place + 1)
            place += 1
        elif name in ("--config-env", "--exec-path") and (equals or name == "--config-env"):
            yield Launch(place if equals else place + 1, text=_UNKNOWN)
            place += not equals
        elif name in _GIT_VALUES:
            yield Launch(place if equals else place + 1)
            place += not equals
        elif not word.text.startswith("-"):
            yield from _git_subcommand(words, place)
            return
        elif word.text not in _GIT_FLAGS:
            yield Launch(place)
        place += 1


def _git_config(words: _Words, place: int, at: int | None = None) -> Iterator[Launch]:
    """Yield what `key=value` at that place configures, but for what is known to run nothing."""
    if place < len(words) and not (words[place].literal and _harmless_config(words[place].text)):
        key, _, value = words[place].text.partition("=")
        yield Launch(place if at is None else at, text=_configured(key, Word(value, words[place].literal)))


def _configured(key: str, value: Word) -> Word:
    """Return the command line that git runs for a configured value."""
    key = key.casefold()
    if not value.literal or key.startswith(("include.", "includeif.")) or key.endswith((".path", ".insteadof")):
        return _UNKNOWN
    if key.startswith("alias."):  # with the words behind the alias
        line = value.text[1:] if value.text.startswith("!") else f"git {value.text}"
        return Word(f'{line} "$@"')
    return Word(value.text.removeprefix("!"))


def _git_subcommand(words: _Words, place: int) -> Iterator[Launch]:
    name, rest = words[place].text, words[place:]
    if name in _GIT_RUNNERS:
        yield Launch(len(words), text=_UNKNOWN)
    for table, lines in ((_GIT_LINES, True), (_GIT_CODE, False)):
        found = _options(rest, table.get(name, ""), lines=lines)
        yield from (launch._replace(at=launch.at + place) for launch in found)
    if name in _GIT_REMOTE:  # `ext::sh -c ...` is an address
        yield from (Launch(at, text=_UNKNOWN) for at in range(place + 1, len(words)) if "::" in words[at].text)
    if name == "clone":
        for launch in _options(rest, "c --config", lines=False):
            at = launch.at + place
            yield from _git_config((Word(launch.code, words[at].literal),), 0, at)
    if name == "config":
        yield from _git_configures(words, place)
    if name in ("bisect", "submodule"):
        yield from _git_runs(words, place + 1, "run" if name == "bisect" else "foreach")


def _git_runs(words: _Words, start: int, subcommand: str) -> Iterator[Launch]:
    """Yield what `git bisect run` and `git submodule foreach` run."""
    for at in range(start, len(words)):
        if not words[at].literal:
            yield Launch(at)
        elif words[at].text == subcommand:
            begin = at + 1
            while begin < len(words) and words[begin].text in ("--recursive", "--quiet", "-q"):
                begin += 1
            yield Launch(begin, text=_line(words[begin:]))
            return


_GIT_READS: Final = re.compile(r"--get.*|--list|-l|list|get").fullmatch
_GIT_SCOPE: Final = re.compile(r"--global|--local|--system|--worktree").fullmatch


def _git_configures(words: _Words, place: int) -> Iterator[Launch]:
    """Yield what `git config` sets, which git runs later. Reading a value sets nothing."""
    rest = [at for at in range(place + 1, len(words)) if not _GIT_SCOPE(words[at].text)]
    if not rest or _GIT_READS(words[rest[0]].text):
        return
    if len(rest) == 1 and words[rest[0]].literal and not words[rest[0]].text.startswith("-"):
        return
    keys = [at for at in rest if not words[at].text.startswith("-") and words[at].text != "set"]
    if len(keys) >= 2 and words[keys[0]].literal:
        key, value = words[keys[0]].text, words[keys[1]]
        if value.literal and _harmless_config(f"{key}="):
            return
        yield Launch(keys[1], text=_configured(key, value))
    else:
        yield Launch(len(words))


def _evaluated(words: _Words, name: str) -> Iterator[Launch]:
    """Yield the words of a builtin in which it evaluates a subscript or sets a variable that names a program."""
    unsafe = _UNSAFE_WORDS.get(name)
    if name in ("printf", "print") and len(words) > 1 and words[1].literal and not words[1].text.startswith("-"):
        return
    unknown = any(_may_be_option(word) for word in words[1:])
    evaluates = unsafe is None or unknown or any(word.text in unsafe or word.text[:2] in unsafe for word in words)
    for place, word in enumerate(words[1:], 1):
        if (line := assigned_line(word)) is not None:
            yield Launch(place, text=line)
        elif (evaluates and _subscript(word.text)) or _loading_variable(f"{word.text}="):
            yield Launch(place, text=_UNKNOWN)
        elif (
            _may_be_option(word)
            or ("=" in word.text and name in _DECLARING)
            or _command_variable(f"{word.text}=")
            or _search_variable(word.text)
        ):
            yield Launch(place)


def assigned_line(word: Word) -> Word | None:
    """Return the command line that `NAME=value` configures: that of an editor, a pager, a prompt."""
    value = word.text.partition("=")[2]
    if _command_variable(word.text):
        return Word(value, word.literal)
    if _loading_variable(word.text) or (word.literal and _assignment(word.text) and _subscript(value)):
        return _UNKNOWN
    return None


def _aliases(words: _Words) -> Iterator[Launch]:
    for place, word in enumerate(words[1:], 1):
        yield Launch(place, text=Word(word.text.partition("=")[2], word.literal))


def _sourced(words: _Words) -> Iterator[Launch]:
    if len(words) < 2 or not words[1].literal or words[1].text.startswith("-") or is_device(words[1].text):
        yield Launch(min(1, len(words) - 1))


_Grammar: TypeAlias = Callable[[_Words], Iterator[Launch]]

_GRAMMARS: Final[Mapping[str, _Grammar]] = {
    "git": _git,
    "find": _find,
    **_each("tar gtar bsdtar", _tar),
    "fd": _fd,
    "fdfind": _fd,
    "sed": _sed,
    "gsed": _sed,
    "scp": _ssh_options,
    "sftp": _ssh_options,
    "alias": _aliases,
    ".": _sourced,
    "source": _sourced,
    **_each("awk gawk mawk nawk original-awk busybox-awk goawk", _awk),
    **_each("make gmake bmake", _make),
    **_each("less more vim vi nvim view ex gvim vimdiff", _plus),
}

_OWN_WORDS: Final = _names("find fd fdfind")
"""Wrappers whose grammar says what they run."""

_KNOWN: Final = WRAPPERS | SHELLS | _ALWAYS | _INTERPRETERS | {*_SUBCOMMANDS, *_LINES, *_CODE, *_GRAMMARS}
