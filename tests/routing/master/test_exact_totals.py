"""Exact totals of a whole proxy: a worker that is killed loses none of the requests that were answered."""

import http.client
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import LIMIT_S, Proxy, Replica, fleet_file, until

REQUESTS = 50
"""Of each client; half of the clients are at each worker, more or less."""
CLIENTS = 6
ANSWER = b'{"usage":{"prompt_tokens":7,"total_tokens":10,"completion_tokens":3}}'
SAMPLE = re.compile(r"^switchyard_(\w+){([^}]*)} (\S+)$", re.M)


class Asker:
    """One client: the answers that it has got whole, and the requests whose connection broke."""

    def __init__(self, port: int) -> None:
        self.answered = self.broken = 0
        self._port = port
        self.thread = threading.Thread(target=self._ask, daemon=True)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)
        for _ in range(REQUESTS):
            try:
                connection.request("POST", "/v1/completions", b"{}")
                self.answered += connection.getresponse().read() == ANSWER
            except (OSError, http.client.HTTPException):
                self.broken += 1
                connection.close()


def counted(running: Proxy) -> dict[str, float]:
    found = SAMPLE.findall(running.admin("/metrics")[1])
    return {f"{name} {labels}": float(value) for name, labels, value in found}


def test_what_was_answered_is_counted_though_its_worker_was_killed(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    for replica in replicas:
        replica.body = ANSWER
    file = fleet_file(tmp_path / "fleets.yaml", replicas, protocol="openai")
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    askers = [Asker(running.port) for _ in range(CLIENTS)]
    for asker in askers:
        asker.thread.start()
    until(lambda: sum(asker.answered for asker in askers) > CLIENTS * REQUESTS / 3, "they are answered")
    before = running.workers()
    os.kill(before[0], signal.SIGKILL)
    for asker in askers:
        asker.thread.join(LIMIT_S)
    until(lambda: len(now := running.workers()) == 2 and before[0] not in now, "another serves")

    answered, broken = (sum(getattr(one, name) for one in askers) for name in ("answered", "broken"))
    assert answered + broken == CLIENTS * REQUESTS
    sums = counted(running)
    served = sums['ended_requests_total fleet="echo",result="served"']
    # What was counted when its client had not yet read the answer, which then broke off.
    assert answered <= served <= answered + broken
    assert sums['input_tokens_total fleet="echo"'] == 7 * served
    assert sums['output_tokens_total fleet="echo"'] == 3 * served
    assert sums['objective_good_total fleet="echo",objective="success"'] == served
    assert sums['errors_total fleet="echo"'] == 0
