"""GPU cost model of a batching server: duration of a step and size of the KV cache.

Theory. A decode step reads all weights once, whatever the batch, and the keys and values (KV) of every
sequence in it: it is bound by memory bandwidth. Reading a prompt is bound by arithmetic, two operations per
parameter and token. Both share a step; here their times are added, which is what a step takes at worst.

The default is Llama-3-8B in 16 bits on one A100 80 GB, from what is public about the two:

- 8.03e9 parameters of 2 bytes, 2,039 GB/s: 7.9 ms to read the weights; with what launching a step and
  sampling take, 10 ms.
- 312 TFLOP/s in 16 bits, of which half is reached: 16.06e9 operations take 0.1 ms for a token of a prompt. A
  decoded token takes as many, partly while memory is read: 0.05 ms a sequence.
- 32 layers of 8 KV heads of 128 numbers, keys and values, 2 bytes: 131,072 bytes a token, 0.064 µs to read.
- 90 % of 80 GB less 16 GB of weights: 56 GB, room for the KV of 427,000 tokens.

Speed 2 and 4 are roughly an H100 and a B200 beside it (3.35 and 8 TB/s, 989 and 2,250 TFLOP/s). A step has a
budget of 2,048 tokens for decoding and chunks of prompts, vLLM's default (``max_num_batched_tokens``).

Sources: NVIDIA's data sheets of A100, H100 and B200; the model card and configuration of Llama-3-8B; vLLM's
documentation of chunked prefill. Agrawal et al., "Sarathi-Serve", OSDI 2024, for how the parts of a step add
up.
"""

from typing import NamedTuple


class Gpu(NamedTuple):
    """At speed 1; a server of speed 2 needs half the times."""

    step_s: float = 0.010
    """Of any step, whatever is in it."""
    sequence_s: float = 0.05e-3
    """For each sequence that decodes."""
    kv_token_s: float = 0.064e-6
    """For each token whose KV a step reads."""
    prompt_token_s: float = 0.1e-3
    """For each token of a prompt that is read in."""
    batch: int = 64
    """Most sequences at once (``max_num_seqs``); the others wait in the server."""
    step_tokens: int | None = 2048
    """Budget of a step: decoded tokens, then chunks of prompts. ``None``: prompts are read in whole."""
    kv_tokens: int = 427_000
    """For how many tokens there is KV memory."""

    def seconds_of_step(self, decoding: int, prompt_tokens: int, kv_tokens: int) -> float:
        return (
            self.step_s
            + self.sequence_s * decoding
            + self.prompt_token_s * prompt_tokens
            + self.kv_token_s * kv_tokens
        )

    def requests_per_s(self, prompt_tokens: float, output_tokens: float) -> float:
        """What a server of speed 1 gets done when its batch is always full of requests of this mean size.

        In a step every sequence makes one token, and as many requests begin as end: ``n / output`` of them.
        A sequence holds its prompt and on average half its output. ``n`` is the batch, or what KV memory
        has room for.
        """
        held = prompt_tokens + output_tokens / 2
        together = min(float(self.batch), self.kv_tokens / held)
        begun = together / output_tokens
        step_s = (
            self.step_s
            + self.sequence_s * together
            + self.prompt_token_s * begun * prompt_tokens
            + self.kv_token_s * together * held
        )
        return begun / step_s
