"""The library as it is where no wheel has been compiled. Imported before any module of toolcast."""

from __future__ import annotations

import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import find_spec
from typing import Any


def load_source_only() -> None:
    """Let Python load all modules of toolcast from their source."""
    spec = find_spec("toolcast")
    assert spec is not None and spec.submodule_search_locations is not None
    package = spec.submodule_search_locations[0]
    finder = FileFinder.path_hook((SourceFileLoader, SOURCE_SUFFIXES))

    def hook(path: str) -> Any:
        if not path.startswith(package):
            raise ImportError(path)
        return finder(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
