"""Requests for the two example fleets, of the lengths that a trace gives, scaled to small models."""

import csv
import gzip
import importlib.util
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

PROMPT_TOKENS_PER_TOKEN = 1 / 20
"""The trace's median prompt of 1,020 tokens becomes 51: the example models hold 1,000 to 2,000 a slot."""
OUTPUT_TOKENS_PER_TOKEN = 1 / 10
ROWS_PER_TOKEN = 1 / 64
LONGEST_PROMPT, LONGEST_OUTPUT, MOST_ROWS = 400, 80, 64

CHAT, COMPLETION, ROWS = "chat", "completion", "rows"
WORDS = (
    "bala",
    "kiru",
    "mone",
    "tapi",
    "sola",
    "ruda",
    "feno",
    "giza",
    "lumi",
    "wota",
    "paku",
    "dero",
    "vina",
)


class Prepared(NamedTuple):
    """One request as it goes out."""

    kind: str
    path: str
    body: bytes
    streams: bool = False


def chat_or_completion(rng: random.Random, context_tokens: int, generated_tokens: int) -> Prepared:
    """To ``tiny-llm``: four in five are chats, half of everything streams."""
    prompt_length = limited(context_tokens * PROMPT_TOKENS_PER_TOKEN, LONGEST_PROMPT)
    prompt = " ".join(rng.choices(WORDS, k=prompt_length))
    streams = rng.random() < 0.5
    body: dict[str, Any] = {
        "model": "chat" if rng.random() < 0.3 else "tiny-llm",
        "max_tokens": limited(generated_tokens * OUTPUT_TOKENS_PER_TOKEN, LONGEST_OUTPUT),
        "stream": streams,
    }
    if rng.random() < 0.8:
        body["messages"] = [{"role": "user", "content": prompt}]
        return Prepared(CHAT, "/v1/chat/completions", json.dumps(body).encode(), streams)
    body["prompt"] = prompt
    return Prepared(COMPLETION, "/v1/completions", json.dumps(body).encode(), streams)


def rows(rng: random.Random, pictures: list[list[float]], context_tokens: int) -> Prepared:
    """To ``digits``: real pictures of its data set, as many as the trace's prompt was long."""
    count = limited(context_tokens * ROWS_PER_TOKEN, MOST_ROWS)
    data = [value for picture in rng.choices(pictures, k=count) for value in picture]
    tensor = {"name": "pixels", "shape": [count, len(pictures[0])], "datatype": "FP64", "data": data}
    return Prepared(ROWS, "/v2/models/digits/infer", json.dumps({"inputs": [tensor]}).encode())


def limited(length: float, most: int) -> int:
    return max(1, min(most, round(length)))


def digit_pictures() -> list[list[float]]:
    """The 1,797 pictures that come with scikit-learn, read without loading scikit-learn itself."""
    found = importlib.util.find_spec("sklearn")
    if found is None or found.origin is None:
        raise FileNotFoundError("scikit-learn is not installed: its data set of digits is what is sent")
    file = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(file, "rt") as lines:
        return [[float(value) for value in row[:-1]] for row in csv.reader(lines)]
