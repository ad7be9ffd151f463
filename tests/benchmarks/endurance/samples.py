"""What is sampled: of each process, of Redis, of the database and of the data folder. One number a series.

Names are ``WHAT/OF WHOM``; those of a process end with its id, so that its life can be followed.
"""

import os
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import redis

from tests.faults.whole_stack import WholeStack
from tests.system.stack import exchange

Sample = tuple[str, float]
DATABASES = (0, 1, 2)
DIFFERS = re.compile(r"(?:[0-9a-f]{8,}|[0-9]+)(?:[-.:][0-9a-f]+)*")


def all_series(whole: WholeStack) -> Iterator[Sample]:
    """What does not answer at the moment is left out."""
    yield from of_processes(whole)
    with suppress(OSError, redis.RedisError):
        yield from of_redis(whole.stack.data / "redis" / "redis.sock")
    with suppress(OSError, sqlite3.Error):
        yield from of_database(whole.stack.data / "db.sqlite3")
    yield from of_files(whole.stack.data)
    yield from of_pages(whole)


def of_processes(whole: WholeStack) -> Iterator[Sample]:
    for role, pids in whole.pids().items():
        yield f"processes/{role}", len(pids)
        for pid in pids:
            with suppress(OSError):
                yield from of_process(pid, f"{role}/{pid}")
    yield "load average of the machine", os.getloadavg()[0]
    yield "own resident MiB/this script", _fields(Path("/proc/self/status"))["VmRSS"] / 1024


def of_process(pid: int, name: str) -> Iterator[Sample]:
    folder = Path(f"/proc/{pid}")
    memory, status = _fields(folder / "smaps_rollup"), _fields(folder / "status")
    yield f"PSS MiB/{name}", memory["Pss"] / 1024
    yield f"RSS MiB/{name}", memory["Rss"] / 1024
    yield f"descriptors/{name}", len(os.listdir(folder / "fd"))
    yield f"threads/{name}", status["Threads"]


def _fields(file: Path) -> dict[str, int]:
    found = (line.partition(":") for line in file.read_text().splitlines())
    return {name: int(value.split()[0]) for name, _, value in found if re.match(r"\s*\d+( kB)?$", value)}


def of_redis(socket: Path) -> Iterator[Sample]:
    """Memory, and of each database its keys and their elements by the key's name without what differs."""
    for database in DATABASES:
        url = f"unix://{socket}?db={database}"
        with redis.Redis.from_url(url, socket_timeout=5.0) as client:
            if database == DATABASES[0]:
                memory = client.info("memory")
                yield "redis/used_memory MiB", memory["used_memory"] / 2**20
                clients = client.info("clients")
                yield "redis/connected clients", clients["connected_clients"]
                # Everything that a client has not read yet, and each one's buffers.
                yield "redis/clients MiB", memory.get("mem_clients_normal", 0) / 2**20
            yield f"redis/keys of {database}", client.dbsize()
            keys: Counter[str] = Counter()
            elements: Counter[str] = Counter()
            for key in client.scan_iter(count=1000):
                name = DIFFERS.sub("N", key.decode(errors="replace"))
                keys[name] += 1
                elements[name] += _length(client, key)
            for name, number in keys.items():
                yield f"redis keys/{database} {name}", number
                yield f"redis elements/{database} {name}", elements[name]


def _length(client: "redis.Redis", key: bytes) -> int:
    lengths = {b"string": "strlen", b"list": "llen", b"set": "scard", b"zset": "zcard", b"hash": "hlen"}
    kind = client.type(key)
    return int(getattr(client, lengths.get(kind, "memory_usage"))(key) or 0)


def of_database(file: Path) -> Iterator[Sample]:
    yield "database/file MiB", file.stat().st_size / 2**20
    wal = Path(f"{file}-wal")
    yield "database/write-ahead log MiB", wal.stat().st_size / 2**20 if wal.exists() else 0.0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        for (table,) in tables.fetchall():
            yield f"rows/{table}", database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0]


def of_files(data: Path) -> Iterator[Sample]:
    for folder in "logs", "proxy", "redis":
        sizes = {}
        for path in (data / folder).rglob("*"):
            with suppress(OSError):
                if path.is_file():
                    sizes[path.name] = path.stat().st_size
        yield f"files/{folder}", len(sizes)
        for name, size in sizes.items():
            yield f"file MiB/{folder}/{name}", size / 2**20
    left = [path for path in data.iterdir() if path.is_file()]
    yield "files/data folder", len(left)


def of_pages(whole: WholeStack) -> Iterator[Sample]:
    """How many series each metrics page has, and how long the proxy's status is."""
    ports = {"proxy": whole.stack.admin_port}
    names = ("web", "celery worker", "beat", "conductor")
    ports |= {name: whole.stack.metrics_port + offset for offset, name in enumerate(names)}
    for name, port in ports.items():
        with suppress(OSError, ValueError):
            yield f"metrics series/{name}", exchange(port, "GET", "/metrics").body.count(b"\n")
    with suppress(OSError, ValueError):
        yield "proxy status bytes/proxy", len(exchange(ports["proxy"], "GET", "/status").body)
