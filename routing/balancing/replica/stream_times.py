"""Stream times: time to first token and time between tokens (TTFT, TPOT) of one replica's streamed answers.

Written by :mod:`routing.balancing.attempt.attempt`; read by the report alone.
"""

from routing.balancing.replica.untracked import Untracked, own


class StreamTimes(Untracked):
    """Sketches of seconds (:mod:`routing.contract.sketch`), since the worker started."""

    first_token: dict[int, int] = own(dict)
    """From the request to the first content, of each stream."""
    between_tokens: dict[int, int] = own(dict)
    """Between two tokens, on average over a whole answer: one for each."""
