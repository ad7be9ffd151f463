"""Memory of one worker with many replicas and many idle clients, while a million requests pass.

    python -m tests.benchmarks.memory [--requests 1000000] [--fleets 100] [--replicas 10] [--clients 2000]

One nginx stands for all replicas: it listens on an address of 127.0.0.0/8 for each of them. The clients ask
once each, of one fleet after the other, and then keep their connections open without a word. Then wrk sends
chat completions to all fleets in turn until the requests are done. Told are the resident sets of the worker
and of its parent, what they share with others included, before and after each tenth of the requests. Nothing
here passes or fails by figures.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.processes import family, resident_bytes, running, two_cpus
from tests.benchmarks.proxy_cpu import NGINX, PATH
from tests.benchmarks.recorded import PLAIN
from tests.benchmarks.wrk import drive
from tests.ports import free_ports

SCRIPT = """local number = 0
function request()
  number = number + 1
  local body = '{"model":"m' .. number %% %d .. '","messages":[{"role":"user","content":"Hello"}]}'
  return wrk.format('POST', nil, {["Content-Type"] = "application/json"}, body)
end
"""
HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n"


def addresses(count: int) -> list[str]:
    return [f"127.1.{number // 250}.{number % 250 + 1}" for number in range(count)]


def write_inputs(folder: Path, port: int, options: argparse.Namespace) -> tuple[Path, Path, Path]:
    """nginx's settings, the fleet file and wrk's script."""
    hosts = addresses(options.fleets * options.replicas)
    listens = " ".join(f"listen {host}:{port};" for host in ["127.0.0.1", *hosts])
    server = f"server {{ {listens} location / {{ return 200 '{PLAIN.decode()}'; }} }}"
    settings = folder / "replicas.conf"
    settings.write_text(NGINX.format(folder=folder, name="replicas", rest=server))
    fleets = []
    for number in range(options.fleets):
        mine = hosts[number * options.replicas : (number + 1) * options.replicas]
        replicas = [{"name": f"r{at}", "url": f"http://{host}:{port}"} for at, host in enumerate(mine)]
        fleets.append({"name": f"m{number}", "protocol": "openai", "replicas": replicas})
    file = folder / "fleets.yaml"
    # JSON is YAML.
    file.write_text(json.dumps({"version": 1, "fleets": fleets}))
    script = folder / "post.lua"
    script.write_text(SCRIPT % options.fleets)
    return settings, file, script


def idle_clients(port: int, options: argparse.Namespace) -> list[socket.socket]:
    """Connections that have been served once and wait."""
    clients = []
    for number in range(options.clients):
        body = json.dumps({"model": f"m{number % options.fleets}", "messages": []})
        client = socket.create_connection(("127.0.0.1", port), 30)
        client.sendall((HEAD.format(path=PATH, size=len(body)) + body).encode())
        said = client.recv(65_536)
        if not said.startswith(b"HTTP/1.1 200"):
            sys.exit(f"a client was answered {said[:200]!r}")
        clients.append(client)
    return clients


def tell(what: str, parent: int) -> None:
    worker, *_ = family(parent)[1:]
    mib = [resident_bytes(pid) / 2**20 for pid in (worker, parent)]
    print(f"{what:>24} {mib[0]:16.1f} {mib[1]:16.1f}", flush=True)


def measure(options: argparse.Namespace, folder: Path) -> None:
    replica_port, port = free_ports(2)
    settings, file, script = write_inputs(folder, replica_port, options)
    proxy_cpu, other_cpu = two_cpus()
    ours = [sys.executable, "-m", "routing", "--fleets", str(file), "--workers", "1", "--admin", "none"]
    ours += ["--listen", f"127.0.0.1:{port}"]
    with (
        running(["nginx", "-c", str(settings)], replica_port, other_cpu),
        running(ours, port, proxy_cpu, limit_s=60) as proxy,
    ):
        print(f"{'':>24} {'worker, MiB':>16} {'parent, MiB':>16}")
        clients = idle_clients(port, options)
        tell(f"{len(clients)} idle clients", proxy.pid)
        done = 0
        for tenth in range(1, 11):
            while done < options.requests * tenth / 10:
                done += drive(f"http://127.0.0.1:{port}{PATH}", script, 1, 64, other_cpu)
            tell(f"{done:,} requests", proxy.pid)
        for client in clients:
            client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--fleets", type=int, default=100)
    parser.add_argument("--replicas", type=int, default=10, help="of each fleet")
    parser.add_argument("--clients", type=int, default=2000)
    options = parser.parse_args()
    if shutil.which("nginx") is None or shutil.which("wrk") is None:
        print("Skipped: this benchmark needs nginx and wrk (apt-get install nginx-light wrk).")
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        measure(options, Path(folder))


if __name__ == "__main__":
    main()
