"""Refusal to continue: why an answer that broke off cannot be continued by another replica."""


class NotContinuable(Exception):
    """``cause``: one of :data:`CAUSES`."""

    def __init__(self, cause: str) -> None:
        super().__init__(CAUSES[cause])
        self.cause = cause


CAUSES = {
    "attempts": "the request has had all its attempts",
    "choices": "it has several choices, or was to be the best of several",
    "client": "its client speaks HTTP/1.0",
    "ended": "it had ended",
    "error_event": "the replica itself has sent an error",
    "guided": "its form is prescribed (guided decoding)",
    "input": "its prompt holds images, sound, or tokens by number, or it repeats its prompt",
    "log_probabilities": "it has log probabilities",
    "malformed": "what came is not a stream of this API",
    "memory": "what was said could not be kept: the memory for bodies and answers was short",
    "no_place": "no other replica had a free slot in time",
    "no_replica": "no other replica is of the same version and has passed the trial",
    "no_time": "the request has had all its time",
    "partial_event": "its last event was sent to the client in part",
    "reasoning": "it has reasoning output",
    "refused": "the other replica refused it",
    "split_character": "it broke off within a character",
    "too_long": "it is longer than what is kept of one answer",
    "tools": "it calls tools",
    "unread_body": "the request went to its replica as it came, and no copy was kept",
}
"""Cause → in words: it is not continued, for …"""
