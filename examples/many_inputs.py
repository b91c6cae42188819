"""Extract a person from each of many texts: a checkpoint, a run that is stopped and resumed, results as CSV.

No key and no server: `pip install 'toolcast[local]'` and `python examples/many_inputs.py [TEXTS]`. The texts are made
here, so that the extracted objects can be compared with the right ones. `--data FILE` only writes them, for

    python examples/many_inputs.py 200 --data people.csv
    toolcast map 'name, age int, city' --input people.csv --output people.jsonl
"""

import argparse
import csv
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from pydantic import BaseModel

from toolcast import LlamaCpp, Settings, ToolOrchestratingLLM
from toolcast.batch import Job

NAMES = (
    "Alice",
    "Bob",
    "Carla",
    "David",
    "Emma",
    "Frank",
    "Greta",
    "Hugo",
    "Ingrid",
    "Jonas",
    "Karin",
    "Liam",
    "Maria",
)
CITIES = ("Oslo", "Rome", "Lima", "Paris", "Berlin", "Madrid", "Lisbon", "Vienna", "Prague", "Dublin")
SENTENCES = (
    "{name} is {age} and lives in {city}.",
    "{name}, aged {age}, lives in {city}.",
    "{name}, {age}, is from {city}.",
    "In {city} we met {name}, who is {age}.",
)


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


def make_rows(count: int) -> list[dict[str, str]]:
    """Return texts, each with the name, age and city that it mentions."""
    random = Random(1)
    rows = []
    for _ in range(count):
        person = {"name": random.choice(NAMES), "age": str(random.randint(18, 80)), "city": random.choice(CITIES)}
        rows.append({"text": random.choice(SENTENCES).format(**person)} | person)
    return rows


def main(rows: list[dict[str, str]], folder: Path) -> None:
    # The model is small: it does best with the text alone.
    read_person = ToolOrchestratingLLM(
        Person, "{text}", LlamaCpp(), settings=Settings(temperature=0, extra={"cache_prompt": False})
    )
    job = Job(read_person, rows, max_concurrency=2, checkpoint=folder / "people.checkpoint")

    # Stop in the middle, as Ctrl-C would: what has ended is in the checkpoint.
    with job.run() as outcomes:
        for outcome in islice(outcomes, len(rows) // 2):
            print(outcome.output if outcome.ok else outcome.error)
    print("-- stopped, and resumed:")

    # The same job again asks for the rest only, and writes all results.
    saved = job.to_csv(folder / "people.csv")
    print(f"{saved.done} of {len(rows)} done, {saved.failed} failed, {saved.usage.total_tokens:,} tokens")
    with saved.path.open(encoding="utf-8", newline="") as file:
        right = sum(
            (row["name"], row["age"], row["city"]) == (row["output.name"], row["output.age"], row["output.city"])
            for row in csv.DictReader(file)
        )
    print(f"{right} are right")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", type=int, nargs="?", default=8, help="the number of texts; default: 8")
    parser.add_argument("--data", type=Path, metavar="FILE", help="write the texts to this CSV file, and leave")
    arguments = parser.parse_args()
    made = make_rows(arguments.texts)
    if arguments.data:
        with arguments.data.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, made[0])
            writer.writeheader()
            writer.writerows(made)
    else:
        with TemporaryDirectory() as home:
            main(made, Path(home))
