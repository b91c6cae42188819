"""command_patterns.py: which commands a pattern surely covers, and which it may mean."""

from __future__ import annotations

import pytest

from toolcast.agents.permissions.shell.parser import commands
from toolcast.agents.permissions.shell.patterns import covers, forbids


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("git", "git"),
        ("git", "git status -s"),
        ("git", 'g"i"t log src/*.py --author=a'),
        ("git status", "git status -s"),
        ("git *", "git status"),
        ("git 'log' \"-p\"", "git log -p"),
        ("git *", "git"),
        ("npm run *", "npm run build -- --all"),
        ("npm run test:*", "npm run test:unit"),
        ("./bin/check.sh *", "./bin/check.sh $X"),
        ("*", "/usr/bin/anything"),
        ("git", "git status 2>&1 >/dev/null 2>&-"),
        ("grep", "grep -v x - <<< text"),
        ("nice " * 8 + "git", "nice " * 8 + "git status"),
    ],
)
def test_covered(pattern: str, text: str) -> None:
    assert covers(pattern, commands(text)[-1])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("git", "gitk"),
        ("git 'log", "git log"),
        ("git", "gіt status"),  # noqa: RUF100  # the i is Cyrillic
        ("git", "GIT status"),
        ("git", "./git status"),
        ("git", "/bin/git"),
        ("git", "sudo git"),
        ("git", "env git"),
        ("git", "command git"),
        ("git", "X=1 git"),
        ("git", "git > file"),
        ("git", "git < file"),
        ("git", "git >& file"),
        ("git", "git 2>&$X"),
        ("git", "git >> /dev/nul"),
        ("git", "$X status"),
        ("git", "g?t"),
        ("git status", "git"),
        ("git status", "git $X"),
        ("git * push", "git $X push"),
        ("py*", "pytest x.py"),
        ("py*", "py/evil"),
        ("py*", "python3 x.py"),
        ("npm run *", "npm run build --all"),
        ("bin/*", "bin/check"),
        ("bin/*", "bin/git"),
        ("git", "git log $X"),
        ("git", "git log *.py"),
        ("git", "git log --a*=x"),
        ("bin/*", "bin/../evil"),
        ("bin/*/x", "bin/../x"),
        ("", "git"),
        (" ", "git"),
        ("*", "X=1"),
        ("*", "X=1 ls"),
        ("*", "ls > file"),
        ("*", "$X"),
        ("nice " * 11 + "git", "nice " * 11 + "git status"),
    ],
)
def test_not_covered(pattern: str, text: str) -> None:
    assert not covers(pattern, commands(text)[-1])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("rm", "rm x"),
        ("rm", "/bin/rm x"),
        ("/bin/rm", "rm"),
        ("rm", "RM x"),
        ("rm", "X=1 rm"),
        ("rm", "sudo -u root rm x"),
        ("rm -rf", "env X=1 rm -v -rf"),
        ("rm", "find . -exec rm {} +"),
        ("rm", "$X y"),
        ("rm", "r$X"),
        ("rm", "r? x"),
        ("rm", "{rm,x}"),
        ("rm -rf", "rm x -rf"),
        ("rm -rf", "rm $X"),
        ("git push", "git push"),
        ("git push *", "git push"),
        ("git push", "git -C . push"),
        ("git push", "git --no-pager push"),
        ("git push", 'git "$X"'),
        ("git p*", "git [p]ush"),
        ("*", "ls"),
        ("*", "X=1"),
        *(
            ("rm", f"{word} rm x")
            for word in ("taskset 1", "setarch", "prlimit", "pkexec", "SUDO", "linux64", "nsenter")
        ),
        *(
            ("rm", text)
            for text in ("sh <<< 'rm x'", "sh", "bash -s x", "bash -x", "sh -", "sudo sh", "sh < x", "su a")
        ),
        *(("rm", text) for text in ("sh /dev/stdin", "sh $X", "zsh --x y", ". /dev/stdin", "source <(a)", ". ")),
        *(("rm", text) for text in ("echo 'rm x' | sh", "cat <<E | sh\nrm x\nE", "a | xargs env", "a | parallel nice")),
        *(
            ("rm", text)
            for text in (
                "sudo -s",
                "sudo -iu a",
                "sudo -u a -s",
                "command . /dev/stdin",
                "doas",
                "ssh host",
                "chroot /x",
                "unshare -r",
            )
        ),
        *(("rm", text) for text in ("alias g='rm'", "hash -p /bin/rm g", "at now", "crontab x")),
    ],
)
def test_forbidden(pattern: str, text: str) -> None:
    assert forbids(pattern, commands(text)[-1])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("rm", "ls rm"),
        ("rm", "rmdir x"),
        ("rm", "sudo ls *.py"),
        ("rm", "X=rm"),
        ("rm -rf", "rm x"),
        ("rm -rf", "sudo rm x"),
        ("git push", "git commit -m push"),
        ("git push", "git add $X"),
        ("git push", "git"),
        ("", "rm"),
        *(("rm", text) for text in ("sh x.sh", "bash -ex x.sh a", "sh -c ls", "sudo bash x.sh", ". ./x", "source x")),
        *(
            ("rm", text)
            for text in (
                "a | xargs ls",
                "echo sh",
                "sudo ls",
                "sudo sed -i x",
                "find . -type f",
                "ssh host ls",
                "taskset 1 ls",
                "ls <<< x",
            )
        ),
    ],
)
def test_not_forbidden(pattern: str, text: str) -> None:
    assert not forbids(pattern, commands(text)[-1])


def test_what_is_covered_would_be_forbidden() -> None:
    for pattern in ("git", "git status", "*", "git st*"):
        (command,) = commands("git status -s")
        assert covers(pattern, command)
        assert forbids(pattern, command)
