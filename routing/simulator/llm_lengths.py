"""Prompt and output lengths of LLM requests, drawn so that they resemble public traces.

Theory. In a trace of conversations, how long an answer is goes with how long the prompt is, in no simple way:
prompts of about 1,000 tokens have long answers, shorter and longer ones have short answers. So a band of
prompts is drawn first, then both lengths within it, each from a distribution that is given by some of its
quantiles, with straight lines between them. That keeps both distributions, their means and how they go
together, and needs no trace. In a trace of code completions the two are independent: prompts are long, of any
length up to the model's limit, and answers are a line or two, whatever the prompt.

Source: fitted to the traces of one hour that Azure published in 2023 (AzurePublicDataset, CC-BY-4.0; Patel et
al., "Splitwise", ISCA 2024): 19,366 requests of conversations and 8,819 code completions. Quantiles of the
latter are those whose straight lines lie nearest (least squares), so that means are kept.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import NamedTuple

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 0.95, 0.98, 0.995, 1.0)


class Band(NamedTuple):
    """Requests with similar prompts; lengths in tokens at each of :data:`LEVELS`."""

    share: float
    prompt: tuple[int, ...]
    output: tuple[int, ...]


AZURE_CONVERSATION = (
    Band(
        0.1353,
        (2, 11, 21, 45, 169, 181, 197, 203, 209, 226, 239, 247, 267, 299),
        (11, 12, 14, 51, 94, 130, 152, 163, 183, 217, 217, 244, 331, 1000),
    ),
    Band(
        0.2644,
        (300, 321, 371, 375, 387, 395, 399, 402, 409, 427, 444, 505, 670, 697),
        (7, 18, 51, 62, 81, 89, 93, 97, 107, 129, 145, 164, 200, 739),
    ),
    Band(
        0.0670,
        (700, 724, 757, 818, 890, 929, 957, 971, 984, 994, 997, 998, 999, 999),
        (10, 39, 49, 71, 97, 169, 391, 396, 414, 443, 488, 565, 613, 921),
    ),
    Band(
        0.2877,
        (1000, 1004, 1009, 1018, 1040, 1061, 1076, 1091, 1117, 1154, 1171, 1186, 1196, 1199),
        (28, 69, 120, 375, 394, 398, 406, 414, 428, 490, 558, 621, 921, 1000),
    ),
    Band(
        0.0748,
        (1200, 1203, 1209, 1221, 1265, 1313, 1314, 1315, 1323, 1391, 1443, 1475, 1493, 1497),
        (26, 44, 52, 68, 124, 156, 178, 201, 376, 415, 440, 522, 652, 954),
    ),
    Band(
        0.1708,
        (1500, 1549, 1648, 1812, 2246, 2674, 3751, 4077, 4085, 4103, 4155, 5166, 6352, 14050),
        (15, 28, 33, 38, 49, 61, 71, 82, 103, 137, 157, 191, 336, 757),
    ),
)


_CODE_OUTPUT = (6, 6, 6, 7, 9, 11, 13, 16, 21, 51, 86, 157, 295, 1037)

AZURE_CODE = (
    Band(
        0.5097,
        (3, 17, 44, 75, 178, 390, 595, 805, 1024, 1278, 1401, 1466, 1487, 1499),
        _CODE_OUTPUT,
    ),
    Band(
        0.3437,
        (1500, 1538, 1591, 1657, 1892, 2158, 2340, 2519, 2852, 3403, 3674, 3824, 3965, 3995),
        _CODE_OUTPUT,
    ),
    Band(
        0.1466,
        (4009, 4057, 4116, 4286, 4759, 5722, 6140, 6700, 7434, 7436, 7436, 7436, 7437, 7437),
        _CODE_OUTPUT,
    ),
)


class Lengths:
    """Draws (prompt tokens, output tokens)."""

    def __init__(self, bands: Sequence[Band] = AZURE_CONVERSATION) -> None:
        self._bands = bands
        self._until = list(accumulate(band.share for band in bands))

    def draw(self, rng: Random) -> tuple[int, int]:
        at = bisect_right(self._until, rng.random() * self._until[-1])
        band = self._bands[min(at, len(self._bands) - 1)]
        return at_level(band.prompt, rng.random()), at_level(band.output, rng.random())


def at_level(lengths: Sequence[int], level: float) -> int:
    """The length at a level from 0 to 1; at least 1."""
    at = min(bisect_right(LEVELS, level), len(LEVELS) - 1)
    low, high = LEVELS[at - 1], LEVELS[at]
    part = (level - low) / (high - low)
    return max(1, round(lengths[at - 1] + part * (lengths[at] - lengths[at - 1])))
