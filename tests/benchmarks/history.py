"""How long history takes over HTTP: ``python -m tests.benchmarks.history [--rounds 20] [--replicas 50]``.

A real web process, SQLite and a real Redis, which have as much as they ever have: of a fleet 15 minutes by
seconds, 24 hours by ten seconds and by minutes, of each of its replicas 24 hours by minutes, and 90 days of
five minutes in the database. Each question is asked so many times on one connection. Printed are the
median and the longest; nothing passes or fails.
"""

import argparse
import http.client
import json
import os
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.benchmarks.fleet_size import installation
from tests.benchmarks.processes import circumstances
from tests.ports import free_port

FLEET = "llm"
DAYS = 90
RNG = random.Random(11)
QUESTIONS = {
    "24 h of a fleet, one metric": "/fleets/llm/history?since=24h&metric=p99_s",
    "24 h of a fleet, six metrics": "/fleets/llm/history?since=24h&metric=rps,p50_s,p99_s,errors_per_s,"
    "first_token_p99_s,output_tokens_per_s",
    "24 h of a fleet, all metrics": "/fleets/llm/history?since=24h",
    "24 h of a fleet by minutes, all": "/fleets/llm/history?since=24h&step=60",
    "24 h of a fleet by 5 min, all": "/fleets/llm/history?since=24h&step=300",
    "24 h of a replica by minutes, all": "/fleets/llm/replicas/r7/history?since=24h",
    "24 h of a replica by hours, all": "/fleets/llm/replicas/r7/history?since=24h&step=3600",
    "90 days, one metric": "/fleets/llm/history?since=90d&step=300&metric=p99_s",
    "90 days, six metrics": "/fleets/llm/history?since=90d&step=300&metric=rps,p50_s,p99_s,errors_per_s,"
    "first_token_p99_s,output_tokens_per_s",
    "90 days, all metrics": "/fleets/llm/history?since=90d&step=300",
    "90 days by hours, p99": "/fleets/llm/history?since=90d&step=3600&metric=rps,p99_s",
}


def fill(replicas: int) -> str:
    """Everything; returns an API token."""
    from django.contrib.auth.models import User
    from django.core.management import call_command

    from controlplane.datastores.redis import client
    from controlplane.models import Fleet, Replica
    from controlplane.services import fleet_history, tokens
    from controlplane.telemetry import history, kept_history
    from controlplane.telemetry.measures import FIELDS, Measures, of_fleet, of_replica, row
    from controlplane.telemetry.minute_history import ROWS, MinuteHistory
    from routing.contract.ended_requests import EndedRequests
    from routing.contract.sketch import bucket_of

    def minute() -> Measures:
        found = Measures(requests=600, errors=3, output_tokens=90_000, reasons={"timeout": 2, "busy": 1})
        found.ended = EndedRequests(served=597, errors={"timeout": 2, "busy": 1}, output_tokens=90_000)
        for kind, middle in (
            ("latency", 2.0),
            ("first_token", 0.2),
            ("between_tokens", 0.02),
            ("queue", 0.1),
        ):
            drawn = [bucket_of(middle * RNG.lognormvariate(0.0, 0.5)) for _ in range(60)]
            found.sketch(kind, {bucket: drawn.count(bucket) for bucket in drawn})
        return found

    call_command("migrate", verbosity=0)
    fleet = Fleet.objects.create(name=FLEET, protocol="openai")
    rows = [Replica(fleet=fleet, name=f"r{n}", url=f"http://127.0.0.1:{9000 + n}") for n in range(replicas)]
    Replica.objects.bulk_create(rows)
    now, some = time.time(), [minute() for _ in range(200)]
    redis, minutes = client(), MinuteHistory(client())
    subjects = [of_fleet(FLEET), *(of_replica(str(one.uid)) for one in rows)]
    for at in range(ROWS):
        pipeline, ended = redis.pipeline(transaction=False), now - 60 * (ROWS - 1 - at) - 5
        minutes.append(pipeline, {subject: row(RNG.choice(some), ended, 60) for subject in subjects})
        pipeline.execute()
    values = dict(zip(FIELDS, some[0].values(60), strict=True))
    values["in_flight"], values["waiting"] = round(values["in_flight"]), round(values["waiting"])
    pipeline = redis.pipeline(transaction=False)
    for at in range(history.COARSE_POINTS):
        coarse = history.Point(at=now - 10 * (history.COARSE_POINTS - at), **values)
        fine = history.Point(at=now - max(history.COARSE_POINTS - at, 0), **values)
        history.append(pipeline, FLEET, fine, coarse)
    pipeline.execute()
    slot = now // 300 * 300
    kept = [row(RNG.choice(some), slot - 300 * at, 300) for at in range(DAYS * 288)]
    fleet_history.keep(fleet.pk, [kept_history.written(one) for one in reversed(kept)])
    print(f"Redis: {redis.info('memory')['used_memory'] / 2**20:.0f} MiB, ", end="")
    sizes = [redis.memory_usage(key) or 0 for key in redis.keys("sy:history:60s:replica*")]
    print(f"{statistics.mean(sizes) / 1024:.0f} KiB a replica")
    return tokens.create(User.objects.create_user("anna", is_staff=True), "bench", "bench")[1]


def ask(connection: http.client.HTTPConnection, path: str, token: str) -> tuple[float, int, Any]:
    """Seconds, bytes and the answer."""
    began = time.perf_counter()
    connection.request("GET", f"/api/v1{path}", headers={"Authorization": f"Token {token}"})
    response = connection.getresponse()
    body = response.read()
    took = time.perf_counter() - began
    if response.status != 200:
        sys.exit(f"{path}: {response.status} {body[:300]!r}")
    return took, len(body), json.loads(body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=50)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        installation.prepare(folder)
        from controlplane.supervision import redis_server

        command = redis_server.command(redis_server.find(), folder / "redis.sock")
        stack.enter_context(installation.running(command, folder / "redis.log"))
        while not (folder / "redis.sock").exists():
            time.sleep(0.05)
        print(circumstances().partition(", workers")[0], f"; {options.replicas} replicas", sep="")
        token = fill(options.replicas)
        from controlplane.supervision.options import UpOptions
        from controlplane.supervision.programs import control_plane

        port = free_port()
        [web] = [one.command for one in control_plane(UpOptions(port=port)) if one.name == "web"]
        log = folder / "web.log"
        stack.enter_context(installation.running(web, log, **os.environ))
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(300):
            try:
                connection.connect()
                break
            except OSError:
                time.sleep(0.1)
        else:
            sys.exit(log.read_text()[-2000:])
        print(f"{'':36}{'values':>8}{'KiB':>8}{'median ms':>11}{'longest':>9}")
        for words, path in QUESTIONS.items():
            found = [ask(connection, path, token) for _ in range(options.rounds)]
            times = [1000 * took for took, _, _ in found]
            _, size, answer = found[-1]
            print(
                f"{words:36}{len(answer['at']):>8}{size / 1024:>8.0f}"
                f"{statistics.median(times):>11.1f}{max(times):>9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
