"""Have a model rate a run of ContReAct on the PEI scale, by the log of the run.

python run_pei_assessment.py --run_log logs/first-run.jsonl --evaluator qwen3:8b

It is `toolcast experiment pei` under its older name; --help lists the options. Without Ollama, `--evaluator local` is
the embedded model, which shows that everything works; it is too small for a meaningful result.
"""

from __future__ import annotations

import sys

from toolcast.apps import main

if __name__ == "__main__":
    sys.exit(main(["experiment", "pei", *sys.argv[1:]]))
