"""Conversations through a real proxy: prompts of several turns, each of which begins as the one before."""

import json

from routing.balancing.affinity import Affinity
from routing.protocols import session
from tests.proxy_process import Proxy

CONVERSATIONS = 24
ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"and so on"}}]}'


def take_turn(running: Proxy, turn: int, first: int = 0) -> list[str]:
    """The next prompt of each conversation from the ``first`` on, each on a connection of its own; the
    replicas that answered."""
    answered = []
    for number in range(first, first + CONVERSATIONS):
        connection = running.client()
        connection.request(
            "POST", "/v1/chat/completions", _body(number, turn), {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        assert answer.read() == ANSWER
        answered.append(answer.headers["X-Switchyard-Replica"])
        connection.close()
    return answered


def blocks_of(turn: int, block_bytes: int, first: int = 0) -> int:
    """Of all these prompts together, each of which is hashed by itself."""
    affinity = Affinity(block_bytes=block_bytes)
    return sum(
        len(affinity.hashes(session.prompt(_body(number, turn))))
        for number in range(first, first + CONVERSATIONS)
    )


def _body(number: int, turn: int) -> bytes:
    said = f"{number:03} " + "so it went on " * 20 * turn
    return json.dumps({"model": "echo", "messages": [{"role": "user", "content": said}]}).encode()
