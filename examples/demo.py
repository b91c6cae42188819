"""`toolcast demo` as a program: structured calls on a model that runs inside this process, with the code of each.

Run it with `nox -s demo`, or with `pip install 'toolcast[local]'` and `toolcast demo`.
"""

from __future__ import annotations

import sys

from toolcast.apps import main

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]]))
