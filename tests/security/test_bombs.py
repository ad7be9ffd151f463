"""Bombs: few bytes that would cost much time or memory. Each is refused, quickly, and nothing grows."""

import gzip
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlplane.services import tokens
from tests.controlplane.conftest import Api, api, operator
from tests.proxy_process import ROOT

__all__ = ["api", "operator"]

MIB = 1024 * 1024
MOST_CPU_S = 4.0
"""Of one request or command; most take a thousandth. On a busy machine CPU time says more than the clock."""
MOST_MEMORY = 300 * MIB
"""Resident, of a process that reads a file."""
DEEP = 100_000

BODIES: dict[str, bytes] = {
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "half a deep list": b"[" * DEEP,
    "a deep field": b'{"name": "x", "protocol": "openai", "probe": ' + b"[" * 900 + b"]" * 900 + b"}",
    "a huge whole number": b'{"name": "x", "protocol": "openai", "x": ' + b"9" * MIB + b"}",
    "a long whole number": b'{"name": "x", "protocol": "openai", "slow_start_s": ' + b"9" * 5000 + b"}",
    "a huge exponent": b'{"name": "x", "protocol": "openai", "slow_start_s": 1e999999999}',
    "many digits": b'{"name": "x", "protocol": "openai", "slow_start_s": 0.' + b"1" * MIB + b"}",
    "many fields": json.dumps({f"f{number}": 1 for number in range(100_000)}).encode(),
    "many replicas": json.dumps(
        {"name": "x", "protocol": "openai", "replicas": [{"name": "a"}] * 100_000}
    ).encode(),
    "many aliases": json.dumps({"name": "x", "protocol": "openai", "aliases": ["a"] * 500_000}).encode(),
    "a long name": json.dumps({"name": "x" * 3 * MIB, "protocol": "openai"}).encode(),
    "escapes": b'{"name": "' + b"\\u0000" * 500_000 + b'", "protocol": "openai"}',
    "backslashes for a pattern": json.dumps(
        {"name": "x", "protocol": "openai", "served_model": " " * MIB}
    ).encode(),
}


@pytest.mark.any_database
@pytest.mark.usefixtures("fresh_stores")
@pytest.mark.parametrize("kind", BODIES)
def test_a_body_of_the_api(api: Api, kind: str) -> None:
    began = time.process_time()
    answer = api.post("/fleets", BODIES[kind])
    assert answer.status_code == 400, answer.content[:300]
    assert len(answer.content) < 64 * 1024
    assert time.process_time() - began < MOST_CPU_S


REPLICA = {"url": "http://127.0.0.1:9"}
NAMES = [f"a{number}" for number in range(100_000)]
LISTS: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown devices": ("/fleets/llm/replicas?trial=no", {**REPLICA, "accelerators": NAMES}),
    "one device again and again": (
        "/fleets/llm/replicas?trial=no",
        {**REPLICA, "accelerators": ["a"] * 100_000},
    ),
    "unknown fleets of a key": ("/client-keys", {"fleets": NAMES}),
    "one match again and again": (
        "/fleets",
        {"protocol": "openai", "match": [{"host": "a.example"}] * 50_000},
    ),
}


@pytest.mark.any_database
@pytest.mark.usefixtures("fresh_stores", "llm")
@pytest.mark.parametrize("kind", LISTS)
def test_a_list_of_what_is_not_there(api: Api, kind: str) -> None:
    """One such request kept a process busy for minutes, and its response had ten times its size."""
    path, body = LISTS[kind]
    began = time.process_time()
    answer = api.post(path, json.dumps({"name": "x", **body}))
    assert answer.status_code == 400
    assert len(answer.content) < 64 * 1024
    assert time.process_time() - began < MOST_CPU_S


@pytest.mark.any_database
@pytest.mark.usefixtures("fresh_stores")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
def test_compressed_bodies_are_not_unpacked(operator: User, coding: str) -> None:
    """Whatever they would become: 3 KiB of gzip are 3 MiB of spaces and then a fleet."""
    content = b" " * 3 * MIB + b'{"name": "unpacked", "protocol": "openai"}'
    packed = gzip.compress(content) if coding == "gzip" else zlib.compress(content)
    headers = {"authorization": f"Token {tokens.create(operator, 'x', 'x')[1]}", "content-encoding": coding}
    answer = Client().generic("POST", "/api/v1/fleets", packed, "application/json", headers=headers)
    assert answer.status_code in (400, 415)


PART = b'--x\r\nContent-Disposition: form-data; name="a"%b\r\n\r\n1\r\n'
URLENCODED, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"
FORMS: dict[str, tuple[str, bytes]] = {
    "many fields": (URLENCODED, b"&".join(b"f%d=1" % number for number in range(200_000))),
    "a long field": (URLENCODED, b"username=" + b"%41" * MIB),
    "many parts": (MULTIPART, PART % b"" * 5000),
    "many files": (MULTIPART, PART % b'; filename="b"' * 5000),
    "a long boundary": (MULTIPART + "x" * 5000, b"--x\r\n\r\n"),
    "a long part head": (MULTIPART, b"--x\r\nA: " + b"b" * MIB + b"\r\n\r\n"),
}


@pytest.mark.any_database
@pytest.mark.usefixtures("fresh_stores")
@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_a_page(form: str) -> None:
    kind, body = FORMS[form]
    began = time.process_time()
    answer = Client(raise_request_exception=False).generic("POST", "/login", body, kind)
    assert answer.status_code in (200, 400)
    assert time.process_time() - began < MOST_CPU_S


@pytest.mark.any_database
@pytest.mark.usefixtures("fresh_stores")
@pytest.mark.parametrize(
    "query", ["search=" + "a" * 100_000, "&".join(f"x{n}=1" for n in range(5000)), "page=" + "9" * 5000]
)
def test_a_query_of_the_api(api: Api, query: str) -> None:  # fmt: skip
    began = time.process_time()
    assert api.get(f"/fleets?{query}").status_code in (200, 400, 404)
    assert time.process_time() - began < MOST_CPU_S


def laughs(depth: int = 12) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, depth)]
    return "\n".join(lines) + "\n"


FILES: dict[str, Callable[[], str]] = {
    "anchors in anchors": laughs,
    "an anchor of itself": lambda: "fleets: &a\n  - *a\n",
    "merged anchors": lambda: "a: &a {x: 1}\nfleets:\n  - <<: *a\n    name: x\n",
    "deep lists": lambda: "fleets: " + "[" * 20_000 + "]" * 20_000,
    "deep blocks": lambda: "".join("  " * level + "a:\n" for level in range(2000)),
    "a huge number": lambda: f"version: {'9' * MIB}\n",
    "a number of base sixty": lambda: "version: " + "1:" * 100_000 + "1\n",
    "a huge exponent": lambda: "version: 1e999999999\n",
    "a Python object": lambda: '!!python/object/apply:os.system ["touch owned"]\n',
    "many fleets": lambda: "fleets:\n" + "  - {name: x, protocol: openai}\n" * 20_000,
    "many documents": lambda: "---\nfleets: []\n" * 50_000,
    "a long line": lambda: "fleets: [" + "a, " * 200_000 + "]\n",
    "tags": lambda: "fleets: " + "!a " * 50_000 + "x\n",
}
_READ = """
import resource, sys
from routing.contract.fleet_file import parser
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    parser.load(sys.argv[1])
    said = "read"
except parser.FleetFileError as error:
    said = str(error)
used = resource.getrusage(resource.RUSAGE_SELF)
[peak] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(used.ru_utime + used.ru_stime, int(peak) * 1024)
print(said)
"""


@pytest.mark.parametrize("kind", FILES)
def test_a_fleet_file(tmp_path: Path, kind: str) -> None:
    """By the reader of proxies, of ``apply`` and of ``import``'s output."""
    file = tmp_path / "fleets.yaml"
    file.write_text(FILES[kind]())
    command = [sys.executable, "-c", _READ, str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-1500:]
    first, _, said = done.stdout.partition("\n")
    cpu_s, memory = (float(word) for word in first.split())
    assert said.startswith(f"{file}: line "), said[:500]
    assert len(said) < 64 * 1024
    assert cpu_s < 3 * MOST_CPU_S, said[:300]
    assert memory < MOST_MEMORY
    assert not (ROOT / "owned").exists()
