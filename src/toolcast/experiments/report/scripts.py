"""Scripts of a report's page: Vega, Vega-Lite and Vega's interpreter, and the page's own, with the policy for them.

The libraries are the files of their packages, in `vendor`. The interpreter evaluates Vega's expressions without `eval`,
so that the policy allows nothing but these scripts, by their hashes, and the style sheet.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

_VENDOR: Final = Path(__file__).with_name("vendor")
_IMPORT: Final = "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';"
_EXPORT: Final = "export { expression as expressionInterpreter };"


@lru_cache(1)
def chart_libraries() -> str:
    """Return the libraries as one script, after their licenses.

    Vega and Vega-Lite define their global names. The interpreter is a module, which a script in a page cannot be
    imported from: its import and its export are replaced.
    """
    interpreter = _file("vega-interpreter.js")
    for module, script in ((_IMPORT, _IMPORT.replace("import", "const").replace("from 'vega-util'", "= vega")),
                           (_EXPORT, "return expression;")):  # fmt: skip
        if module not in interpreter:
            raise ValueError(f"vega-interpreter.js has no line {module!r}: renew it with docs/vendor_page.py")
        interpreter = interpreter.replace(module, script)
    interpreter = f"globalThis.vegaInterpreter = (() => {{\n{interpreter}}})();\n"
    return f"/*\n{_file('licenses.txt')}*/\n{_file('vega.js')}{_file('vega-lite.js')}{interpreter}"


def page_script() -> str:
    """Return the script of the page: it draws the charts and shows the runs that are chosen."""
    return Path(__file__).with_name("templates").joinpath("report.js").read_text(encoding="utf-8")


def policy(style: str, scripts: Sequence[str]) -> str:
    """Return the content security policy of a page with this style sheet and these scripts, which requests nothing."""
    allowed = " ".join(map(_hash, scripts))
    script = f"script-src {allowed}; " if scripts else ""
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; {script}style-src {_hash(style)}; {rest}"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _file(name: str) -> str:
    """Return a file of the packages, without the lines on source maps, which are not there."""
    lines = (_VENDOR / name).read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("//# sourceMappingURL="))
