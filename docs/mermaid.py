"""Load mermaid from the site itself on pages with a diagram; the theme would take it from a CDN.

A hook of mkdocs. `nox -s site` installs the file that MERMAID_JS names.
"""

from __future__ import annotations

import os

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

URL = "assets/mermaid.min.js"


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the file to the site."""
    files.append(File.generated(config, URL, abs_src_path=os.environ["MERMAID_JS"]))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Add the script to a page with a diagram. The theme does not load mermaid where it is defined."""
    if 'class="mermaid"' not in html:
        return html
    return f'{html}\n<script src="{get_relative_url(URL, page.url)}"></script>'
