"""Moving: what stays at a replica that is being freed (a drain with ``move``), and why, in words."""

STAYS = {
    "attempts": "with all attempts used",
    "call": "of calls that are not continued",
    "choices": "with several choices",
    "client": "of clients that speak HTTP/1.0",
    "ended": "at their end",
    "error_event": "with an error of the replica",
    "guided": "with a prescribed form",
    "input": "with images, sound or numbers of tokens in the prompt",
    "log_probabilities": "with log probabilities",
    "malformed": "in a form that is not known",
    "memory": "not kept, for want of memory",
    "moves": "moved as often as a stream may be",
    "no_place": "without a free slot elsewhere",
    "no_replica": "without another replica of the same version that has passed the trial",
    "no_time": "without time left",
    "not_repeatable": "not begun, and not to be sent twice",
    "off": "not continued by the fleet's policy",
    "partial_event": "within an event",
    "pinned": "bound to this replica",
    "plain": "not streamed",
    "reasoning": "with reasoning output",
    "refused": "at a server that does not continue chats",
    "split_character": "within a character",
    "too_long": "too long to be kept",
    "tools": "with calls of tools",
    "tunnel": "tunnels (WebSocket)",
    "unread_body": "with a body of which there is no copy",
}
"""Reason → in words, after a number of requests."""


def stays_in_words(staying: dict[str, int]) -> str:
    """``3 not streamed, 1 with calls of tools``: the most frequent first; empty: nothing stays."""
    ordered = sorted(staying.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{number} {STAYS.get(reason, reason)}" for reason, number in ordered)
