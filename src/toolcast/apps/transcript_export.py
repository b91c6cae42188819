"""Conversations as documents: Markdown for people, JSON for programs and `/load`, HTML as a page without scripts.

Everything in a conversation is untrusted. In HTML it is escaped, Markdown is rendered without raw HTML and without
images of other origins, and a policy in the page forbids scripts and requests. Tool calls and thinking are folded.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from ..errors import ToolcastError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import (
    AudioPart,
    CachePoint,
    ImagePart,
    Message,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    describe_media,
)
from ..text.json_text import json_text
from ..values.citations import describe_citation
from .file_mentions import file_part

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

ExportFormat: TypeAlias = Literal["markdown", "json", "html"]

CONVERSATION_KIND: Final = "toolcast conversation"
"""The value of `kind` in a conversation as JSON, by which `/load` recognizes it."""

EXPORT_SUFFIXES: Final[Mapping[str, ExportFormat]] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".json": "json",
    ".html": "html",
    ".htm": "html",
}
"""The format by the suffix of a file."""

_NAMES: Final = {"user": "You", "assistant": "Assistant", "system": "Instructions", "tool": "Tool"}
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LONGEST_SUMMARY: Final = 100
_EDITED: Final = re.compile(r"\(The user changed the arguments to (\{.*?)\.\)\n", re.DOTALL)
"""The beginning of the result of a call whose arguments the user has edited (agents/engine/tool_phase.py)."""


@dataclass(frozen=True, slots=True)
class ExportedBlock:
    """A part of a document: a `text` in Markdown, or a folded block with a `summary` and plain `sections`."""

    text: str = ""
    summary: str = ""
    sections: tuple[tuple[str, str], ...] = ()
    image: ImagePart | None = None


def export_format(path: str | PurePath) -> ExportFormat:
    """Return the format for a file by its suffix.

    Raises:
        ToolcastError: The suffix is none of `EXPORT_SUFFIXES`.
    """
    suffix = PurePath(path).suffix.lower()
    if suffix not in EXPORT_SUFFIXES:
        raise ToolcastError(f"{str(path)!r}: expected a file name that ends in .md, .json or .html")
    return EXPORT_SUFFIXES[suffix]


def export_conversation(
    history: Sequence[Message], format: ExportFormat, *, title: str = "", model: str = "", session: str = ""
) -> str:
    """Return a conversation as a document.

    Args:
        history: The messages.
        format: `markdown`, `json` or `html`.
        title: The heading.
        model: The name of the model, which is shown below the heading.
        session: The id of the session, which is shown there too.

    Raises:
        ToolcastError: HTML needs a package that is not installed.
    """
    return _WRITERS[format](history, title or "Conversation", model, session)


def _to_json(history: Sequence[Message], title: str, model: str, session: str) -> str:
    about = {"kind": CONVERSATION_KIND, "title": title, "model": model, "session": session}
    messages = [message.to_dict() for message in history]
    return json.dumps({**about, "messages": messages}, indent=2, ensure_ascii=False) + "\n"


def _to_markdown(history: Sequence[Message], title: str, model: str, session: str) -> str:
    lines = [f"# {' '.join(title.split())}", "", f"*{_subtitle(history, model, session)}*"]
    for name, blocks in _sections(history):
        lines += ["", f"## {name}"]
        for block in blocks:
            lines += ["", *_markdown_lines(block)]
    return "\n".join(lines) + "\n"


def _markdown_lines(block: ExportedBlock) -> Iterator[str]:
    if not block.summary:
        yield block.text
        return
    yield f"<details><summary>{escape(block.summary)}</summary>"
    for heading, text in block.sections:
        fence = "`" * max(3, _longest_fence(text) + 1)
        yield from ("", f"{heading}:", "", fence, text.rstrip("\n"), fence)
    yield from ("", "</details>")


def _longest_fence(text: str) -> int:
    """Return the length of the longest run of backticks."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest


def _to_html(history: Sequence[Message], title: str, model: str, session: str) -> str:
    markdown = _markdown_renderer()
    parts = [_HEAD.format(title=escape(title), style=_STYLE)]
    parts.append(f"<h1>{escape(title)}</h1>\n<p class=about>{escape(_subtitle(history, model, session))}</p>\n")
    for name, blocks in _sections(history):
        parts.append(f'<section class="{escape(name.lower())}">\n<h2>{escape(name)}</h2>\n')
        parts += [_html_block(block, markdown) for block in blocks]
        parts.append("</section>\n")
    return "".join([*parts, "</main>\n</body>\n</html>\n"])


def _html_block(block: ExportedBlock, markdown: MarkdownIt) -> str:
    if image := _data_url(block.image):
        return f'<p><img src="{image}" alt="{escape(block.text)}"></p>\n'
    if not block.summary:
        return f'<div dir="auto">{markdown.render(block.text)}</div>\n'
    sections = [f"<h3>{escape(heading)}</h3>\n<pre>{escape(text)}</pre>\n" for heading, text in block.sections]
    return f"<details>\n<summary>{escape(block.summary)}</summary>\n{''.join(sections)}</details>\n"


def _data_url(image: ImagePart | None) -> str:
    """Return the URL of an image of a type that a page shows without risk; SVG is not one."""
    if image is None or image.data is None or image.media_type not in _IMAGES:
        return ""
    return f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def _markdown_renderer() -> MarkdownIt:
    """Return a renderer that passes on no HTML and loads nothing."""
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise ToolcastError(
            "HTML needs the package markdown-it-py: pip install 'toolcast[cli]', or export to a .md file"
        ) from error
    return MarkdownIt("js-default", {"html": False, "linkify": False}).disable("image")


def _subtitle(history: Sequence[Message], model: str, session: str) -> str:
    count = f"{len(history):,} message{'' if len(history) == 1 else 's'}"
    written = f"{datetime.now().astimezone():%Y-%m-%d %H:%M}"
    return ", ".join(filter(None, (model, count, f"session {session}" if session else "", f"exported {written}")))


def _sections(history: Iterable[Message]) -> Iterator[tuple[str, list[ExportedBlock]]]:
    """Yield the heading and the blocks of each message. The messages of one turn of the model are one section."""
    history = list(history)
    results = {part.call_id: part for message in history for part in message.parts if isinstance(part, ToolResultPart)}
    calls = {part.id for message in history for part in message.parts if isinstance(part, ToolCallPart)}
    open_name, blocks = "", list[ExportedBlock]()
    for message in history:
        found = [block for part in message.parts for block in _blocks(part, results, calls)]
        name = _NAMES[message.role]
        if found and name != open_name:
            if blocks:
                yield open_name, blocks
            open_name, blocks = name, []
        blocks += found
    if blocks:
        yield open_name, blocks


def _blocks(part: object, results: Mapping[str, ToolResultPart], calls: set[str]) -> Iterator[ExportedBlock]:
    """Yield the blocks of a part of a message."""
    match part:
        case TextPart():
            yield from _text_blocks(part)
        case ThinkingPart():
            yield from _folded("Thinking", part.text)
        case ImagePart():
            yield ExportedBlock(describe_media(part), image=part)
        case AudioPart():
            yield ExportedBlock(describe_media(part))
        case ToolCallPart():
            yield from _call_blocks(part, results.get(part.id))
        case ToolResultPart() if part.call_id in calls:
            pass  # shown with the call
        case ToolResultPart():
            yield ExportedBlock(summary=f"Result of {part.name}", sections=(("Result", part.content),))
        case ServerToolPart():
            sections = (("Input", json_text(part.input)), ("Result", part.error or json_text(part.output)))
            yield ExportedBlock(summary=f"{part.name} of the provider", sections=sections)
        case CachePoint():
            pass
        case _:
            yield ExportedBlock(f"[{getattr(part, 'name', None) or getattr(part, 'type', 'part')}]")


def _text_blocks(part: TextPart) -> Iterator[ExportedBlock]:
    if file := file_part(part.text):
        yield from _folded(*file)
    elif part.text.strip():
        yield ExportedBlock(part.text)
    yield from _folded("Sources", "\n".join(dict.fromkeys([describe_citation(each) for each in part.citations])))


def _folded(summary: str, text: str) -> Iterator[ExportedBlock]:
    if text.strip():
        yield ExportedBlock(summary=summary, sections=((summary, text),))


def _call_blocks(call: ToolCallPart, result: ToolResultPart | None) -> Iterator[ExportedBlock]:
    content, edited = _split_edit("" if result is None else result.content)
    line = f"{call.name} {' '.join((edited or call.arguments).split())}"
    summary = line if len(line) <= _LONGEST_SUMMARY else f"{line[: _LONGEST_SUMMARY - 1]}…"
    sections = [("Arguments of the model" if edited else "Arguments", _indented(call.arguments))]
    if edited:
        sections.append(("Arguments after the user's edit", _indented(edited)))
    if result is not None:
        sections.append(("Error" if result.is_error else "Result", content))
        summary += " (failed)" if result.is_error else ""
    yield ExportedBlock(summary=summary, sections=tuple(sections))
    for image in result.images if result is not None else ():
        yield ExportedBlock(describe_media(image), image=image)


def _split_edit(content: str) -> tuple[str, str]:
    """Return the result of a call, and the arguments with which the user replaced those of the model, if any."""
    found = _EDITED.match(content)
    return (content[found.end() :], found[1]) if found else (content, "")


def _indented(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), indent=2, ensure_ascii=False)
    except ValueError:
        return arguments


_WRITERS: Final[Mapping[ExportFormat, Callable[[Sequence[Message], str, str, str], str]]] = {
    "markdown": _to_markdown,
    "json": _to_json,
    "html": _to_html,
}

_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --text: #1c1e21; --dim: #5b6068; --box: #f2f4f7; --line: #d5d9df;
  --link: #0b57b7; }
@media (prefers-color-scheme: dark) {
  :root { --page: #17191c; --text: #e4e6e9; --dim: #a2a8b1; --box: #22262b; --line: #3a4048; --link: #8ab8ff; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 48rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; overflow-wrap: anywhere; }
.about { color: var(--dim); margin: .25rem 0 0; font-size: .875rem; }
section { margin-top: 1.75rem; }
section > h2 { font-size: .875rem; color: var(--dim); margin: 0 0 .25rem; }
section > div > :first-child { margin-top: 0; }
section > div > :last-child { margin-bottom: 0; }
section > div + div { margin-top: 1rem; }
section.you > div { background: var(--box); border-radius: .75rem; padding: .625rem .875rem; }
div { overflow-wrap: break-word; }
a { color: var(--link); }
code, pre { font: .875em/1.5 ui-monospace, monospace; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; overflow-x: auto; }
pre code { font-size: inherit; }
details > pre { white-space: pre-wrap; overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: .5rem; padding: .375rem .75rem; margin: .625rem 0; }
details > h3 { font-size: .8125rem; color: var(--dim); margin: .5rem 0 0; }
details > pre { margin: .25rem 0 .5rem; }
summary { cursor: pointer; color: var(--dim); font-size: .875rem; overflow-wrap: anywhere; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .25rem .625rem; overflow-wrap: normal; }
blockquote { margin: 0; padding-left: .875rem; border-left: 3px solid var(--line); color: var(--dim); }
img { max-width: 100%; }
"""
