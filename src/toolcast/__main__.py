"""`python -m toolcast`: the `toolcast` command."""

import sys

from .apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
