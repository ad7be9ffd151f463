"""Large JSON bodies are read without their long strings (images, documents), which nothing here asks for.

A decoder looks at every byte: 8 MiB hold the loop for 5 ms. The next quotation mark is found several times as
fast.
"""

LEAST_BODY = 131_072
"""Smaller bodies are not worth it."""
LONG = 16_384
MOST_QUOTES = 256
"""After so many, what follows is left as it is: each takes as long as decoding a hundred bytes."""
INSTEAD = b"(a long string)"
MOST_BACKSLASHES = 64
"""In a row, before a quotation mark."""
_QUOTE, _BACKSLASH = b'"', b"\\"


def without_long_strings(body: bytes) -> bytes:
    """The same object with other text in its long strings, names of members included. What is no JSON stays
    none, unless that is because of what such a string holds."""
    if len(body) < LEAST_BODY:
        return body
    kept, begin, at = [], 0, 0
    for _ in range(MOST_QUOTES):
        opening = body.find(_QUOTE, at)
        closing = _end_of_string(body, opening + 1) if opening >= 0 else -1
        if closing < 0:
            break
        if closing - opening > LONG:
            kept += [body[begin : opening + 1], INSTEAD]
            begin = closing
        at = closing + 1
    return b"".join([*kept, body[begin:]]) if kept else body


def _end_of_string(body: bytes, at: int) -> int:
    """Where the quotation mark is that ends it; −1: nowhere, or further than is looked."""
    for _ in range(MOST_QUOTES):
        at = body.find(_QUOTE, at)
        if at < 0:
            return -1
        before = body[max(0, at - MOST_BACKSLASHES) : at]
        backslashes = len(before) - len(before.rstrip(_BACKSLASH))
        if backslashes == MOST_BACKSLASHES:
            return -1
        if backslashes % 2 == 0:
            return at
        at += 1
    return -1
