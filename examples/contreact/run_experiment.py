"""Run an experiment: python run_experiment.py --config config.yaml

The same as `toolcast experiment run`; `--help` lists the options, docs/how-to/experiments.md explains them.
"""

import sys

from toolcast.apps import main

if __name__ == "__main__":
    raise SystemExit(main(["experiment", "run", *sys.argv[1:]]))
