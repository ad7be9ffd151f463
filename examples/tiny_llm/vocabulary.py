"""A readable vocabulary of any size: special tokens, all bytes, letters, and words of made-up syllables."""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

CONSONANTS = "bcdfghklmnprstvwz"
VOWELS = "aeiou"
SPACE = "▁"
"""SentencePiece writes a leading space like this."""

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
"""Token types as GGUF numbers them."""


class Vocabulary(NamedTuple):
    tokens: list[bytes]
    scores: list[float]
    types: list[int]
    unspoken: int
    """How many tokens at the front (special ones and single bytes) a model should never say."""


def vocabulary(size: int) -> Vocabulary:
    """Exactly ``size`` different tokens; raises ValueError for fewer than 512 or more than can be made."""
    special = [b"<unk>", b"<s>", b"</s>"]
    raw = [b"<0x%02X>" % value for value in range(256)]
    unspoken = len(special) + len(raw)
    spoken = [word.encode() for word in itertools.islice(words(), size - unspoken)] if size >= 512 else []
    if unspoken + len(spoken) != size:
        raise ValueError(f"a vocabulary of {size} tokens cannot be made: between 512 and 100 million")
    scores = [0.0] * unspoken + [-float(rank) for rank in range(len(spoken))]
    types = [UNKNOWN, CONTROL, CONTROL] + [BYTE] * len(raw) + [NORMAL] * len(spoken)
    return Vocabulary(special + raw + spoken, scores, types, unspoken)


def words() -> Iterator[str]:
    """Letters and marks, then words of one syllable, two, three …: each once."""
    yield from (SPACE, *"abcdefghijklmnopqrstuvwxyz.,?!:;'")
    syllables = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
    for length in range(1, 5):
        for parts in itertools.product(syllables, repeat=length):
            word = "".join(parts)
            yield SPACE + word
            if length == 1:
                yield word
