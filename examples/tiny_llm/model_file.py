"""Writes a GGUF file with random weights: a Llama network that llama.cpp loads as it loads any other.

The same shape and seed give the same bytes. The weights of the output layer are zero for special
tokens and bytes, so that what the model says is made of readable syllables.
"""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
from numpy.typing import NDArray

from examples.tiny_llm.replicas import Shape
from examples.tiny_llm.vocabulary import Vocabulary, vocabulary

HEADS, KV_HEADS = 4, 2
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}assistant:"
)
Tensor = NDArray[np.float16]


def write_model(path: Path, name: str, shape: Shape, seed: int = 20240601) -> None:
    """Write the whole file; raises OSError, for example when the disk is full."""
    words = vocabulary(shape.vocabulary)
    writer = gguf.GGUFWriter(str(path), "llama")
    add_description(writer, name, shape)
    add_tokenizer(writer, words)
    for tensor_name, tensor in tensors(shape, words.unspoken, np.random.default_rng(seed)).items():
        writer.add_tensor(tensor_name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_description(writer: Any, name: str, shape: Shape) -> None:
    writer.add_name(name)
    writer.add_context_length(shape.context)
    writer.add_embedding_length(shape.width)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.width * 3)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(shape.width // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def add_tokenizer(writer: Any, words: Vocabulary) -> None:
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words.tokens)
    writer.add_token_scores(words.scores)
    writer.add_token_types(words.types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(True)
    writer.add_chat_template(CHAT_TEMPLATE)


def tensors(shape: Shape, unspoken: int, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """All weights by their GGUF names; matrices as ``(outputs, inputs)`` in float16, norms in float32."""
    width, hidden, kv = shape.width, shape.width * 3, shape.width // HEADS * KV_HEADS
    norm = np.ones(width, np.float32)
    output = random_matrix(rng, shape.vocabulary, width, gain=3.0)
    output[:unspoken] = 0
    weights: dict[str, NDArray[Any]] = {
        "token_embd.weight": random_matrix(rng, shape.vocabulary, width),
        "output_norm.weight": norm,
        "output.weight": output,
    }
    matrices = {
        "attn_q": (width, width),
        "attn_k": (kv, width),
        "attn_v": (kv, width),
        "attn_output": (width, width),
        "ffn_gate": (hidden, width),
        "ffn_up": (hidden, width),
        "ffn_down": (width, hidden),
    }
    for layer in range(shape.layers):
        weights[f"blk.{layer}.attn_norm.weight"] = norm
        weights[f"blk.{layer}.ffn_norm.weight"] = norm
        for name, (outputs, inputs) in matrices.items():
            weights[f"blk.{layer}.{name}.weight"] = random_matrix(rng, outputs, inputs)
    return weights


def random_matrix(rng: np.random.Generator, outputs: int, inputs: int, gain: float = 1.0) -> Tensor:
    """Normal weights scaled so that a layer keeps its input's magnitude."""
    values = rng.standard_normal((outputs, inputs), dtype=np.float32)
    return (values * np.float32(gain * inputs**-0.5)).astype(np.float16)
