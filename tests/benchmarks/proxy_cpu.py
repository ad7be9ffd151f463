"""CPU that one proxied request costs: ours and nginx's, in the same run.

    python -m tests.benchmarks.proxy_cpu [--rounds 7] [--seconds 4] [--connections 64] [--heads ids] [--key]
        [--limits all] [--workers 2] [--tls] [--answers vllm] [--ports 4]

Four instant replicas, which send what vLLM or llama.cpp sends (:mod:`tests.benchmarks.recorded`), stand
behind nginx as a proxy, with its best settings for whole answers, and behind ours with one worker and the
default strategy, run from a fleet file. wrk sends a chat completion with a body of 500 bytes over each in
turn, round by round, so that a machine whose speed drifts drifts for both. The figure is the proxy process's
own user and system time, divided by the requests that wrk counted. Proxies have one CPU to themselves and wrk
shares the other with the replicas, unless there is only one.

``--heads`` says how the requests' heads differ. ``same``: not at all, as wrk sends them; our proxy reads such
a head once for each connection. ``ids``: by their X-Request-Id, as those of real clients do by an id, a trace
or a length; a template recognises them. ``unlike``: by the name of a field; each is checked anew.

With ``--tls`` wrk speaks TLS to both proxies, which have the same certificate and cipher: TLS 1.3 on
connections that stay open.

With ``--key`` our proxy asks for a client key and every request carries it; nginx passes the field on. With
``--limits replicas`` each replica serves only so many at once, with ``--limits all`` the key has a limit of
each kind as well: none is reached, all are counted. With ``--workers 2`` ours has two processes on the one
CPU, which keep these limits together.

nginx and wrk come from the system's packages; nothing here passes or fails by time.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from routing.contract.client_keys import new_key
from tests.benchmarks.processes import circumstances, cpu_seconds, family, running, two_cpus
from tests.benchmarks.recorded import KINDS
from tests.benchmarks.recorded_replica import BODY
from tests.benchmarks.wrk import drive
from tests.ports import free_ports

PATH = "/v1/chat/completions"

NGINX = """daemon off; worker_processes 1; pid {folder}/{name}.pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; default_type application/json;
  client_body_temp_path {folder}/{name}-body; proxy_temp_path {folder}/{name}-proxy;
  fastcgi_temp_path {folder}/{name}-f; uwsgi_temp_path {folder}/{name}-u; scgi_temp_path {folder}/{name}-s;
  {rest} }}
"""
PROXY = """upstream replicas {{ {servers} keepalive 128; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port}{tls}; location / {{ proxy_pass http://replicas; proxy_http_version 1.1;
  proxy_set_header Connection ""; }} }}"""
TLS = """ ssl; ssl_certificate {folder}/pair.pem; ssl_certificate_key {folder}/pair.pem;
  ssl_protocols TLSv1.3"""


KEY_LIMITS = "requests_per_minute: 100000000, max_concurrency: 1000, tokens_per_minute: 1000000000"

HEADS = {"same": "", "ids": 'wrk.headers["X-Request-Id"] = "request-" .. number'}
HEADS["unlike"] = 'wrk.headers["X-" .. number - 1], wrk.headers["X-" .. number] = nil, "1"'
VARIED = """local number = 0
function request()
  number = number + 1
  %s
  return wrk.format()
end
"""


def write_inputs(
    folder: Path,
    ports: list[int],
    nginx_port: int,
    heads: str,
    key: str = "",
    tls: bool = False,
    limits: str = "none",
) -> tuple[Path, Path, Path]:
    """Settings of nginx, a fleet file, and a script for wrk."""
    proxy = folder / "proxy.conf"
    servers = " ".join(f"server 127.0.0.1:{port};" for port in ports)
    rest = PROXY.format(servers=servers, port=nginx_port, tls=TLS.format(folder=folder) if tls else "")
    proxy.write_text(NGINX.format(folder=folder, name="proxy", rest=rest))
    fleets = folder / "fleets.yaml"
    listed = "".join(f'      - {{name: r{port}, url: "http://127.0.0.1:{port}"}}\n' for port in ports)
    policy = "    policy: {max_concurrency: 1000}\n" if limits != "none" else ""
    fleets.write_text(
        f"version: 1\nfleets:\n  - name: m\n    protocol: openai\n{policy}    replicas:\n{listed}"
    )
    authorization = ""
    if key:
        (folder / "key").write_text(key)
        with fleets.open("a") as file:
            most = f", {KEY_LIMITS}" if limits == "all" else ""
            file.write(f"client_keys: [{{name: benchmark, key: 'file:key', fleets: [m]{most}}}]\n")
        authorization = f"wrk.headers['Authorization'] = 'Bearer {key}'\n"
    script = folder / "post.lua"
    script.write_text(
        f"wrk.method = 'POST'\nwrk.body = '{BODY.decode()}'\n"
        "wrk.headers['Content-Type'] = 'application/json'\n"
        + authorization
        + (VARIED % heads if heads else "")
    )
    return proxy, fleets, script


def replica_command(answers: str, ports: list[int]) -> list[str]:
    return [sys.executable, "-m", "tests.benchmarks.recorded_replica", answers, *map(str, ports)]


def make_certificate(pair: Path) -> None:
    """Self-signed, with its key in the same file."""
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    subprocess.run([*make, "-keyout", str(pair), "-out", f"{pair}.crt"], check=True, capture_output=True)
    with pair.open("a") as file:
        file.write(Path(f"{pair}.crt").read_text())


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[tuple[float, float]]]:
    """Proxy → (CPU µs a request, requests a second) of each round."""
    *ports, nginx_port, our_port = free_ports(options.ports + 2)
    key = new_key() if options.key or options.limits == "all" else ""
    tls = options.tls
    heads, limits = HEADS[options.heads], options.limits
    proxy, fleets, script = write_inputs(folder, ports, nginx_port, heads, key, tls, limits)
    proxy_cpu, other_cpu = (None, None) if options.no_pin else two_cpus()
    workers = str(options.workers)
    ours = [sys.executable, "-m", "routing", "--fleets", str(fleets), "--workers", workers]
    ours += ["--admin", "none"]
    if tls:
        make_certificate(folder / "pair.pem")
        ours += ["--tls-certificate", str(folder / "pair.pem")]
    urls = {port: f"{'https' if tls else 'http'}://127.0.0.1:{port}" for port in (nginx_port, our_port)}
    rounds: dict[str, list[tuple[float, float]]] = {"nginx": [], "switchyard": []}
    with (
        running(replica_command(options.answers, ports), ports[0], other_cpu),
        running(["nginx", "-c", str(proxy)], nginx_port, proxy_cpu) as nginx,
        running([*ours, "--listen", f"127.0.0.1:{our_port}"], our_port, proxy_cpu) as switchyard,
    ):
        drive(urls[our_port] + PATH, script, 1, options.connections, other_cpu)
        drive(urls[nginx_port] + PATH, script, 1, options.connections, other_cpu)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            for name, process, port in (("nginx", nginx, nginx_port), ("switchyard", switchyard, our_port)):
                pids = family(process.pid)
                before = cpu_seconds(pids)
                count = drive(urls[port] + PATH, script, options.seconds, options.connections, other_cpu)
                used = cpu_seconds(pids) - before
                rounds[name].append((used / count * 1e6, count / options.seconds))
    return rounds


def report(rounds: dict[str, list[tuple[float, float]]], options: argparse.Namespace) -> None:
    version = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=True).stderr.strip()
    print(f"{circumstances()}; {version}")
    print(
        f"{options.connections} connections, {options.rounds} rounds of {options.seconds} s each, "
        f"answers of {options.answers}, ports: {options.ports}, heads: {options.heads}"
        f"{', with a client key' if options.key else ''}"
        f", limits: {options.limits}, workers: {options.workers}"
        f"{', over TLS 1.3' if options.tls else ''}"
    )
    print(f"{'':12} CPU µs a request: median (least to most)   requests/s: median")
    for name, figures in rounds.items():
        cost = [figure[0] for figure in figures]
        rate = statistics.median(figure[1] for figure in figures)
        median = statistics.median(cost)
        print(f"{name:12} {median:18.1f} ({min(cost):.1f} to {max(cost):.1f}) {rate:24,.0f}")
    ratios = [ours[0] / nginx[0] for ours, nginx in zip(rounds["switchyard"], rounds["nginx"], strict=True)]
    print(
        f"switchyard / nginx, round by round: median {statistics.median(ratios):.2f} "
        f"({min(ratios):.2f} to {max(ratios):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--no-pin", action="store_true", help="let the kernel choose CPUs")
    parser.add_argument("--heads", choices=HEADS, default="same", help="how requests' heads differ")
    parser.add_argument("--key", action="store_true", help="ask for a client key, and send it")
    parser.add_argument("--limits", choices=("none", "replicas", "all"), default="none", help="that are set")
    parser.add_argument("--workers", type=int, default=1, help="of our proxy")
    parser.add_argument("--tls", action="store_true", help="speak TLS to both proxies")
    parser.add_argument("--answers", choices=KINDS, default="vllm", help="whose answers replicas send")
    parser.add_argument("--ports", type=int, default=4, help="replicas")
    options = parser.parse_args()
    missing = [tool for tool in ("nginx", "wrk") if shutil.which(tool) is None]
    if missing:
        print(f"Skipped: this benchmark needs {' and '.join(missing)} (apt-get install nginx-light wrk).")
        return
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        report(measure(options, Path(folder)), options)


if __name__ == "__main__":
    main()
