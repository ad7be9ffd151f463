"""Startup checks: waits until everything is up, with a line for each step."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from redis import Redis, RedisError

from controlplane.supervision import redis_server
from controlplane.supervision.errors import UpError
from controlplane.supervision.http_checks import loaded, status_of
from controlplane.supervision.options import UpOptions

LIMIT_S = 120.0
EXAMPLES_LIMIT_S = 60.0
"""An operator may have drained an example fleet: then ``up`` says so and goes on."""
EVERY_S = 0.05


class ReadinessCheck(NamedTuple):
    words: str
    program: str
    """Program whose log helps if the check fails."""
    is_reached: Callable[[], bool]
    limit_s: float = LIMIT_S
    is_needed: bool = True


def wait_for(steps: list[ReadinessCheck], meanwhile: Callable[[], None], say: Callable[[str], None]) -> None:
    """Wait for each step in turn; ``meanwhile`` is called again and again.

    Raises :class:`UpError` naming a needed step and its log once its limit has passed.
    """
    for step in steps:
        if reached_in_time(step, meanwhile):
            say(step.words)
            continue
        failure = f"not yet after {step.limit_s:.0f} s: {step.words} (logs/{step.program}.log)"
        if step.is_needed:
            raise UpError(failure)
        say(failure)


def reached_in_time(step: ReadinessCheck, meanwhile: Callable[[], None]) -> bool:
    until = time.monotonic() + step.limit_s
    while not step.is_reached():
        meanwhile()
        if time.monotonic() > until:
            return False
        time.sleep(EVERY_S)
    return True


def redis(socket_path: str) -> ReadinessCheck:
    return ReadinessCheck("Redis answers", "redis", lambda: redis_answers(socket_path))


def steps(options: UpOptions) -> list[ReadinessCheck]:
    """What must be up before ``up`` says that it is up."""
    found: list[ReadinessCheck] = []
    dashboard, proxy = options.dashboard_url, options.proxy_url
    admin = f"http://127.0.0.1:{options.admin_port}"
    found.append(
        ReadinessCheck("dashboard and API respond", "web", lambda: status_of(dashboard + "/readyz") == 200)
    )
    found.append(
        ReadinessCheck("proxy has its routing table", "proxy", lambda: status_of(admin + "/readyz") == 200)
    )
    if options.examples:
        for fleet, answers in {"tiny-llm": chat_answers, "digits": digits_answers}.items():
            reached = partial(has_eligible_replica, admin, fleet)
            words = f"{fleet} has a ready replica"
            found.append(ReadinessCheck(words, "worker", reached, EXAMPLES_LIMIT_S, is_needed=False))
            words = f"{fleet} responds through the proxy"
            found.append(
                ReadinessCheck(words, "proxy", partial(answers, proxy), EXAMPLES_LIMIT_S, is_needed=False)
            )
    return found


def has_eligible_replica(admin: str, fleet: str) -> bool:
    """Read from the admin listener, so that waiting causes no refused requests."""
    status = loaded(admin + "/status")
    rows = status.get("fleets", {}).get(fleet, {}).get("replicas", [])
    return any(row["eligible_in_workers"] == len(status["workers"]) for row in rows)


def redis_answers(path: str) -> bool:
    return redis_server.reply_to_ping(Path(path), 1.0).startswith(b"+PONG")


def named_redis_problem(url: str) -> str | None:
    """A sentence where the Redis of ``SWITCHYARD_REDIS_URL`` does not answer; its password is left out.

    No reason to stop: the proxy serves from its copy of the table, and all reconnect.
    """
    parts = urlsplit(url)
    place = parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"
    try:
        with Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as named:
            named.ping()
    except RedisError as error:
        return (
            f"Redis at {place} does not answer ({error}): changes and live numbers wait for it; "
            "start it, or correct SWITCHYARD_REDIS_URL"
        )
    return None


def chat_answers(proxy: str) -> bool:
    body = {"model": "tiny-llm", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    return status_of(proxy + "/v1/chat/completions", body) == 200


def digits_answers(proxy: str) -> bool:
    tensor = {"name": "pixels", "shape": [1, 64], "datatype": "FP64", "data": [0.0] * 64}
    return status_of(proxy + "/v2/models/digits/infer", {"inputs": [tensor]}) == 200
