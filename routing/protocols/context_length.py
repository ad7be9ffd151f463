"""Context length: whether a model server refuses a request because it is longer than its model reads.

OpenAI has a code for it. Others say it in words of their own, here as they were in versions of 2024 to 2026:

- vLLM: ``This model's maximum context length is …``, ``… is longer than the maximum model length of …``;
- SGLang: ``… is longer than the model's context length``;
- llama.cpp: the type ``exceed_context_size_error``;
- TGI: ```inputs` tokens + `max_new_tokens` must be <= …``, ``… must have less than … tokens``;
- Anthropic's API: ``prompt is too long``.

A server that changes its words is not understood, and the client gets what it says.
"""

import re

STATUSES = (400, 413, 422)
"""Of such a response. TGI has the last one."""

_SAYS_SO = re.compile(
    rb'"code":\s*+"context_length_exceeded"|"type":\s*+"exceed_context_size_error"'
    rb"|maximum context length|longer than the (?:maximum model|model's context) length"
    rb"|exceeds the available context size"
    rb"|tokens \+ `?max_new_tokens`? must be <=|must have less than [0-9]++ tokens"
    rb"|prompt is too long"
)


def is_exceeded(status: int, body: bytes) -> bool:
    """Whether the response says so. ``body``: a whole one, which is not encoded."""
    return status in STATUSES and _SAYS_SO.search(body) is not None
