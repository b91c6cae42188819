"""safe_paths.py: what is protected, however it is written, and what is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.agents.permissions.protected_paths import PROTECTED, is_path_name, path_texts, protected_name, word_texts


@pytest.mark.parametrize(
    "text",
    [
        *(".env", ".env.local", "id_rsa", "x/id_ed25519", "a/credentials", "/home/a/.ssh/config", ".gnupg/", ".aws"),
        *("a/../.env", "./.ENV", ".env/", ".env.", ".env ", ".env. .", "a\\.env", ".env::$DATA", "GIT~1/config"),
        *("%2eenv", "%2Eenv", "%252eenv", "%25252eenv", ".env\0.txt", "a\n.env", "．env", ".e\u200cnv", ".en\u034fv"),
        *("file:///a/.ssh/id", "FILE://localhost/a/.git/x", "file:.env", "~/.ssh/x", "$HOME/.gnupg", "${HOME}/.env"),
        *(".e*", ".en[v]", ".[e]nv", ".?nv", ".*", "**/.git*", "*.env", "c*", "id_*", ".[^x]nv", ".[e]nv.local"),
        *("{.env,x}", "{../a,.env}", "{a,.e{nv,x}}", ".{a..e}nv", "{a,b}/.env", "$X/.env", "${X}nv", ".e$()nv"),
        *("id_dsa", "id_ecdsa", "key.pem", "a/server.KEY", "x.p12", "x.pfx", "credentials.json", ".git-credentials"),
        *(".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".kube/config", ".docker/config.json", "server.p*"),
        *("~/.gitconfig", ".hg/hgrc", ".hgrc", "a/.curlrc", "~/.jq"),
        *(".[[:alpha:]]nv", ".[^[:digit:]]nv", ".[x[:alpha:]_]nv", ".[[=e=]]nv", ".[[.e.]]nv", "[[:alpha:]" * 99),
        "$().env",
        "a/" * 10_000,
        *("x[.]pem", "x?pem", "*pem", "*[.]pem", "x[!a]pem", "x[^a]pem", "x[[:punct:]]pem", "server[.]k[e]y"),
        *(".env[.]local", ".env?local", "a/.env[[:punct:]]x"),
        *(f"/proc/{each}" for each in ("self/environ", "1/mem", "$PPID/cmdline", "*/environ", "self/task/1/environ")),
        *(
            f"/proc/self/{each}"
            for each in ("e*", "env?ron", "{maps,x}", "fd/3", "fd", "map_files", "cwd/x", "root/etc")
        ),
        *(
            "//proc/self/environ",
            "/proc/./self/cwd/x",
            "/x/../proc/1/root/x",
            "file:///proc/self/environ",
            "../" * 40 + "proc/1/mem",
        ),
        *("/proc/thread-self/environ", "/proc/self/root/proc/1/environ", "/proc/self/cwd/.env", "/dev/fd/../environ"),
        "{a,b}" * 9,  # too much to look at
        "[a" * 99 + "*",
    ],
)
def test_protected(text: str) -> None:
    assert protected_name(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", ".", "..", "/", "env", ".environment", "os.environ", "x.env", ".gitignore", ".github/x"),
        *(".env.example", ".env.sample", ".ENV.TEMPLATE", "id_rsa.pub", "my_credentials", "credentials.py", "ssh/x"),
        *("key.pem.txt", "pem", "keys", "*.p[xy]", "credentials.yaml.txt", "[[:alpha:]]", "monkey"),
        *("*", "**/*.py", "src/*", "*.txt", "$X", "$X/a", "[a-z]*.py", "{a,b}", "https://a.b/c.git", "é"),
        *(f"/proc/{each}" for each in ("cpuinfo", "cmdline", "self/status", "1/cgroup", "$PPID/stat", "sys/net")),
        *("/dev/stdin", "/dev/stderr", "/dev/fd/63", "environ", "x/proc/self/environ", "proc/1/fd/2", "/proc-1/a/mem"),
        *("ignore .env", "a" * 5000, "\ud800", "~missing/x", "%zz", "a/\ud800", "[[:alpha:]]" * 64),
    ],
)  # fmt: skip
def test_not_protected(text: str) -> None:
    assert protected_name(text) is None


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "keys").symlink_to(".ssh")
    (tmp_path / "again").symlink_to("keys")
    (tmp_path / "plain").mkdir()
    (tmp_path / "round").symlink_to("round")
    root = str(tmp_path)
    assert protected_name("keys", root=root) == ".ssh"
    assert protected_name("again/id", root=root) == ".ssh"
    assert protected_name("plain/../keys/id", root=root) == ".ssh"
    assert protected_name("keys/*", root=root) == ".ssh"
    assert protected_name(f"file://{root}/keys/id") == ".ssh"
    assert protected_name(f"{root}/keys") == ".ssh"
    (tmp_path / "process").symlink_to("/proc/self")
    (tmp_path / "stream").symlink_to("/dev/fd/63")
    assert protected_name("environ", root="/proc/1") == "environ"
    assert protected_name("stream", root=root) is None
    if Path("/proc/self/environ").exists():
        assert protected_name("process/environ", root=root) == "environ"
        assert protected_name("/pro?/self/*iron", root=root, expanded=True) == "environ"
    assert protected_name("keys", root=str(tmp_path / "plain")) is None
    assert protected_name("plain/x", root=root) is None
    assert protected_name("round/x", root=root) is None


def test_variables_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_FILE", "/home/a/.ssh/x")
    assert protected_name("$KEY_FILE") == ".ssh"
    monkeypatch.setenv("KEY_FILE", "/home/a/x")
    assert protected_name("$KEY_FILE") is None


def test_braces_may_mean_nothing() -> None:
    assert protected_name("{a,.env}") == ".env"
    assert protected_name('{"a":{"b":1,"c":2}}', braces=False) is None
    assert protected_name("{a,/.env", braces=False) == ".env"


def test_the_names_are_a_choice() -> None:
    assert protected_name("x/secrets.toml", (*PROTECTED, "Secrets.toml")) == "secrets.toml"
    assert protected_name(".env", ["secrets.toml"]) is None


def test_arguments_named_like_paths() -> None:
    paths = {
        "path": "1",
        "file": "2",
        "filePath": "3",
        "output_dir": "4",
        "from": "5",
        "PATH": "6",
        "root-dir": "7",
        "paths": ["8", {"x": "9"}],
        "options": {"cwd": "10"},
        "edits": [{"file": "11", "content": "no"}],
        "target": Path("12"),
        "dest": b"13",
        "url": "file:14",
        "FilePath": "15",
        "baseFile": "16",
    }
    others = {"content": "no", "pathology": "no", "text": "no", "file_count": "no", "_": "no", "from_line": "no"}
    assert set(path_texts({**paths, **others})) == {*map(str, range(1, 17)), "x", "file", "file:14"}


def test_arguments_sent_to_be_paths() -> None:
    assert sorted(path_texts({"x": "1", "y": "2", "path": "3"}, ["x", "z"])) == ["1", "3"]
    assert list(path_texts({"x": [["1"], {"a": "2"}], "y": "3"}, ["x"])) == ["2", "a", "1"]


@pytest.mark.parametrize(
    "name",
    [
        *("file_name", "dir_name", "folder_name", "folderNames", "pathName", "path1", "file2", "file_2", "filename2"),
        *("workdir", "wd", "working_dir", "Path", "FILE_NAME", "sourcePath1"),
    ],
)
def test_names_of_paths(name: str) -> None:
    assert is_path_name(name)


@pytest.mark.parametrize("name", ["name", "user_name", "names", "1", "", "profile", "line1", "fromage"])
def test_names_of_others(name: str) -> None:
    assert not is_path_name(name)


def test_paths_are_known_by_their_type_and_contents_by_their_length() -> None:
    assert list(path_texts({"name": [Path("1")], "x": {Path("2"): "no"}})) == ["2", "1"]
    assert list(path_texts({"files": {"1": "x" * 5000}})) == ["1"]
    assert list(path_texts({"files": ["x" * 5000]})) == ["x" * 5000]


@pytest.mark.parametrize("value", [None, 3, 1.5, True, [], {}, [3, None]])
def test_what_is_no_text_is_no_path(value: Any) -> None:
    assert list(path_texts({"path": value})) == []


@pytest.mark.parametrize("text", ['[".env"]', "['a', '.env']", "a,.env", "a; .env", '{"a": ".env"}', '".env"', " .env"])
def test_lists_written_as_text(text: str) -> None:
    assert any(protected_name(path) for path in path_texts({"path": text}))


def test_paths_within_words() -> None:
    assert list(word_texts("a")) == ["a"]
    assert ".env" in word_texts("--file=.env")
    assert ".env" in word_texts("./-f.env")
    assert ".env" in word_texts("a/-f.env")
    assert ".env" in word_texts("if=.env")
    assert ".env" in word_texts("-f.env")
    assert ".env" in word_texts("-Fx=@.env")
    assert ".env" in word_texts("--.env")
    assert ".env" in word_texts("HEAD:.env")


@given(st.text("abu.#0", max_size=99), st.sampled_from("oTt"), st.sampled_from([".env", "~/.ssh/x", "id_rsa"]))
def test_paths_behind_short_options_in_one_word(options: str, option: str, path: str) -> None:
    assert path in word_texts(f"-{options}{option}{path}")
    assert "/" in path or path in word_texts(f"a/-{options}{option}{path}")


@pytest.mark.parametrize(
    "word", ["-Dx=prod.env", "-d@prod.env", "--prod.env", "-Wl,prod.env", "-no-credentials", "-a b.env"]
)
def test_words_without_a_path_behind_an_option(word: str) -> None:
    assert not any(protected_name(text) for text in word_texts(word))


@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    assert protected_name(text) is None or protected_name(f"a/{text}") is not None


@given(st.text(), st.sampled_from([".env", ".ssh", "id_rsa"]))
def test_nothing_in_front_hides_a_name(text: str, name: str) -> None:
    assert protected_name(f"{text}/{name}", braces=False)
    assert protected_name(os.path.join("a", name, "b"))  # noqa: PTH118  # a text is wanted
