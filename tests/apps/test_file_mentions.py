"""Files in a message: which are read, which are refused, and what is no mention at all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from toolcast import user
from toolcast.apps import file_mentions
from toolcast.apps.file_mentions import (
    MessageWithFiles,
    format_size,
    image_type,
    is_mentionable,
    message_with_files,
    typed_text,
)
from toolcast.errors import ToolcastError
from toolcast.llms import Capabilities, LLMMetadata
from toolcast.messages import ImagePart

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 100
MODEL = LLMMetadata("m-1", "ollama", Capabilities())
BLIND = replace(MODEL, capabilities=Capabilities(images=False))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "notes.txt").write_text("milk\neggs", encoding="utf-8")
    (root / "sub" / "two words.md").write_text("# Two\n", encoding="utf-8")
    (root / "pic.png").write_bytes(PNG)
    (root / ".env").write_text("KEY=secret", encoding="utf-8")
    (root / "data.bin").write_bytes(b"\0\x01")
    (root / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "outside.txt").write_text("outside", encoding="utf-8")
    (tmp_path / "My shot.PNG").write_bytes(PNG)
    return root


def read(text: str, folder: Path, metadata: LLMMetadata = MODEL) -> MessageWithFiles:
    return message_with_files(text, folder, lambda: metadata)


def test_a_file_is_put_in_behind_the_text_with_its_size(folder: Path) -> None:
    found = read("Look at @notes.txt, please.", folder)
    assert typed_text(found.message) == "Look at @notes.txt, please."
    assert found.message.text == ('Look at @notes.txt, please.\n\n<file path="notes.txt">\nmilk\neggs\n</file>')
    assert found.notes == ("@notes.txt: 9 bytes, about 2 tokens",)


@pytest.mark.parametrize("mention", ['@"sub/two words.md"', "@'sub/two words.md'", r"@sub/two\ words.md"])
def test_a_path_with_blanks_is_quoted_or_escaped(mention: str, folder: Path) -> None:
    assert "# Two\n</file>" in read(f"See {mention}!", folder).message.text


def test_a_file_is_read_once_and_several_in_their_order(folder: Path) -> None:
    found = read(f"@notes.txt @./notes.txt ({folder}/notes.txt) @sub/../notes.txt @sub", folder)
    assert found.message.text.count("milk") == 1
    assert len(found.notes) == 2
    assert found.message.text.endswith('<folder path="sub">\ntwo words.md\n</folder>')


def test_a_folder_is_a_list_without_protected_names_and_with_a_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = read("@.", folder).message.text
    assert "sub/\n" in text
    assert ".env" not in text
    monkeypatch.setattr(file_mentions, "_MOST_ENTRIES", 2)
    assert "... and 3 more" in read("@./", folder).message.text


@pytest.mark.parametrize(
    "text",
    [
        *("ada@notes.txt", r"\@notes.txt", "@someone", "@decorator(x)", "@@notes.txt", "a @ b", "@", "@\0"),
        *("@pytest.mark.parametrize", "@.", "no mention"),
    ],
)
def test_other_words_with_an_at_stay_as_they_are(text: str, folder: Path) -> None:
    found = read(text, folder / "sub" if text == "@." else folder)
    if text != "@.":
        assert found == MessageWithFiles(user(text.replace("\\@", "@")))


def test_a_mistyped_file_is_named_in_a_note(folder: Path) -> None:
    found = read("@note.txt and @sub/x", folder)
    assert found.message == user("@note.txt and @sub/x")
    assert found.notes == (
        "@note.txt names no file: it is sent as text.",
        "@sub/x names no file: it is sent as text.",
    )


@pytest.mark.parametrize(
    ("mention", "problem"),
    [
        ("@.env", r"protected \(.env\)"),
        ("@sub/../.env", "protected"),
        ("@link-to-env", "protected"),
        ("@../outside.txt", "outside of the working directory"),
        ("@link-out", "outside of the working directory"),
        ("@..", "outside of the working directory"),
        ("@data.bin", "binary"),
        ("@latin.txt", "no text in UTF-8"),
        ("@fifo", "neither a file nor a folder"),
        ("@/dev/null", "outside of the working directory"),
    ],
)
def test_what_is_refused(mention: str, problem: str, folder: Path) -> None:
    (folder / "link-to-env").symlink_to(folder / ".env")
    (folder / "link-out").symlink_to(folder.parent / "outside.txt")
    os.mkfifo(folder / "fifo")
    with pytest.raises(ToolcastError, match=problem) as raised:
        read(f"Read {mention}", folder)
    assert mention in str(raised.value)


def test_sizes_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_mentions, "TOTAL_LIMIT", 12)
    with pytest.raises(ToolcastError, match="12 bytes together"):
        read("@notes.txt @'sub/two words.md'", folder)
    monkeypatch.setattr(file_mentions, "TEXT_LIMIT", 8)
    with pytest.raises(ToolcastError, match=r"@notes.txt has 9 bytes, and the limit is 8 bytes"):
        read("@notes.txt", folder)
    monkeypatch.setattr(file_mentions, "IMAGE_LIMIT", 20)
    with pytest.raises(ToolcastError, match=r"@pic.png has 108 bytes"):
        read("@pic.png", folder)


def test_an_error_of_the_system_names_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fails)
    with pytest.raises(ToolcastError, match=r"cannot read @notes\.txt: Input/output error"):
        read("@notes.txt", folder)


def test_an_image_is_one_by_its_content(folder: Path) -> None:
    found = read("What is on @pic.png?", folder)
    assert found.message.parts[1:] == (ImagePart(data=PNG, media_type="image/png"),)
    assert found.notes == ("@pic.png: image/png, 108 bytes",)


@pytest.mark.parametrize("form", ["'{}'", '"{}"', "{escaped}", "file://{url}", "@'{}'", "~/My\\ shot.PNG"])
def test_a_dragged_image_may_be_outside_of_the_folder(form: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    path = str(folder.parent / "My shot.PNG")
    text = form.format(path, escaped=path.replace(" ", "\\ "), url=path.replace(" ", "%20"))
    assert isinstance(read(f"See {text}", folder).message.parts[-1], ImagePart)


def test_a_path_in_the_text_is_no_dragged_image_unless_it_is_one(folder: Path) -> None:
    text = f"see {folder.parent}/outside.txt and /absent/pic.png and pic.png"
    assert read(text, folder) == MessageWithFiles(user(text))
    fake = folder.parent / "fake.png"
    fake.write_text("secret", encoding="utf-8")
    with pytest.raises(ToolcastError, match="outside"):
        read(str(fake), folder)


def test_a_model_that_reads_no_images_is_an_error_before_sending(folder: Path) -> None:
    with pytest.raises(ToolcastError, match="m-1 does not read images: choose another model with /model"):
        read("@pic.png", folder, BLIND)
    assert read("@notes.txt", folder, BLIND).notes


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\0\0\0\0WEBP", "image/webp"),
        (b"RIFF\0\0\0\0WAVE", None),
        (b"<svg>", None),
        (b"", None),
    ],
)
def test_the_type_of_an_image(data: bytes, kind: str | None) -> None:
    assert image_type(data) == kind


def test_sizes_are_written_for_people() -> None:
    assert [format_size(size) for size in (0, 999, 1000, 1_234_567)] == ["0 bytes", "999 bytes", "1.0 kB", "1.2 MB"]


def test_protected_paths_are_not_completed() -> None:
    assert is_mentionable("src/x.py")
    assert not is_mentionable(".ssh/id_rsa")


def test_a_message_without_text_has_no_typed_text() -> None:
    assert typed_text(user(ImagePart(data=PNG, media_type="image/png"))) == ""
