"""llama.cpp's own HTTP server around a model that spells: ``PORT FOLDER [LAYERS [SLOTS]]``.

Each of its tokens is one character, so that a text has one tokenisation only, and what it says next follows
from its last character alone, by far: after each comes the same other one, until all have come. Whoever says
on what it has begun must say the same, and a character that comes twice or is missing is seen. SIGTERM ends
the process at once.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import xllamacpp

from examples.tiny_llm import model_file
from examples.tiny_llm.replicas import Replica, Shape
from examples.tiny_llm.server import SERVED_MODEL, parameters
from examples.tiny_llm.vocabulary import BYTE, CONTROL, NORMAL, SPACE, UNKNOWN, Vocabulary

LETTERS = SPACE + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,?!:;'0123456789"
SLOTS, SLOT_TOKENS = 8, 1024
SEED = 7
PEAK = 40.0
"""Logit of the next character; the others' are some ones."""


def vocabulary() -> Vocabulary:
    special = [b"<unk>", b"<s>", b"</s>"]
    raw = [b"<0x%02X>" % value for value in range(256)]
    spoken = [letter.encode() for letter in LETTERS]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * len(raw) + [NORMAL] * len(spoken)
    return Vocabulary(special + raw + spoken, [0.0] * len(types), types, len(special) + len(raw))


def tensors(shape: Shape, unspoken: int) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    weights = model_file.tensors(shape, unspoken, rng)
    for name in weights:
        if name.endswith(("attn_output.weight", "ffn_down.weight")):
            weights[name] = (weights[name] * np.float16(0.02)).astype(np.float16)
    embedding = weights["token_embd.weight"].astype(np.float32)
    embedding /= np.linalg.norm(embedding, axis=1, keepdims=True)
    output = np.zeros_like(embedding)
    order = unspoken + rng.permutation(len(LETTERS))
    # Of a vector of length 1 the norm makes one of length √width.
    output[order] = embedding[np.roll(order, 1)] * (PEAK / np.sqrt(shape.width))
    weights["token_embd.weight"] = embedding.astype(np.float16)
    weights["output.weight"] = output.astype(np.float16)
    return weights


def ensure_model(folder: Path, shape: Shape) -> Path:
    path = folder / f"letters-{shape.width}-{shape.layers}.gguf"
    if path.exists():
        return path
    words = vocabulary()
    unfinished = folder / f"{path.name}.{os.getpid()}"
    writer = gguf.GGUFWriter(str(unfinished), "llama")
    model_file.add_description(writer, SERVED_MODEL, shape)
    model_file.add_tokenizer(writer, words)
    for name, tensor in tensors(shape, words.unspoken).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.replace(path)
    return path


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    numbers = [int(number) for number in sys.argv[3:]]
    layers, slots = (numbers + [2, SLOTS][len(numbers) :])[:2]
    shape = Shape(width=256, layers=layers, vocabulary=len(vocabulary().tokens))
    model = ensure_model(folder, shape)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    server = xllamacpp.Server(parameters(Replica(shape, 1, slots, SLOT_TOKENS * slots), model, port))
    print(f"ready at {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
