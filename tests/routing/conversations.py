"""Conversations through a real proxy: prompts of several turns, each of which begins as the one before."""

import json

from tests.proxy_process import Proxy

CONVERSATIONS = 24
ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"and so on"}}]}'


def take_turn(running: Proxy, turn: int) -> list[str]:
    """Each conversation's next prompt, on a connection of its own; the replicas that answered."""
    answered = []
    for number in range(CONVERSATIONS):
        said = f"{number:03} " + "so it went on " * 20 * turn
        body = json.dumps({"model": "echo", "messages": [{"role": "user", "content": said}]})
        connection = running.client()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.read() == ANSWER
        answered.append(answer.headers["X-Switchyard-Replica"])
        connection.close()
    return answered
