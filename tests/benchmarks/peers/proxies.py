"""The proxies, each with the settings that are best for it here: kept connections to the replicas, no delay
of small writes, answers passed on as they come, nothing logged, one core."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.benchmarks.peers.setup import MODEL, Setup, our_python


@dataclass(frozen=True)
class Peer:
    """One proxy. ``command`` writes its settings and says how to start it."""

    name: str
    command: Callable[[Setup], list[str]]
    program: str
    """Must be there; empty: always is."""
    install: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def found(self, tools: Path) -> bool:
        return not self.program or (tools / self.program).exists() or shutil.which(self.program) is not None


def switchyard(setup: Setup) -> list[str]:
    replicas = [{"name": f"r{number}", "url": url} for number, url in enumerate(setup.urls)]
    for replica, weight in zip(replicas, setup.weights, strict=False):
        replica["weight"] = weight
    setup.write("key", setup.key)
    keys = [{"name": "benchmark", "key": "file:key", "fleets": [MODEL]}]
    fleets = [{"name": MODEL, "protocol": "openai", "replicas": replicas}]
    if setup.slots:
        fleets[0]["policy"] = {
            "max_concurrency": setup.slots,
            "queue": {"size": 100_000, "timeout_s": 60},
        }
    file = setup.write("fleets.yaml", yaml.safe_dump({"version": 1, "fleets": fleets, "client_keys": keys}))
    listeners = ["--listen", f"127.0.0.1:{setup.port}", "--admin", f"127.0.0.1:{setup.spare_port}"]
    return [our_python(), "-m", "routing", "--fleets", file, "--workers", "1", *listeners]


def nginx(setup: Setup) -> list[str]:
    if setup.weights:
        weighted = zip(setup.replicas, setup.weights, strict=True)
        listed = [f"server 127.0.0.1:{port} weight={weight};" for port, weight in weighted]
        servers = " ".join(["least_conn;", *listed])
    else:
        servers = " ".join(f"server 127.0.0.1:{port};" for port in setup.replicas)
    text = NGINX.format(folder=setup.folder, servers=servers, port=setup.port)
    return ["nginx", "-c", setup.write("nginx.conf", text)]


NGINX = """daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 4096; }}
http {{ access_log off; keepalive_requests 100000000; tcp_nodelay on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream replicas {{ {servers} keepalive 256; keepalive_requests 100000000; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://replicas; proxy_http_version 1.1;
  proxy_set_header Connection ""; proxy_buffering off; }} }} }}
"""


def haproxy(setup: Setup) -> list[str]:
    weights = setup.weights or (1,) * len(setup.replicas)
    limit = f" maxconn {setup.slots}" if setup.slots else ""
    servers = "".join(
        f"  server r{port} 127.0.0.1:{port} weight {weight}{limit} check\n"
        for port, weight in zip(setup.replicas, weights, strict=True)
    )
    return ["haproxy", "-f", setup.write("haproxy.cfg", HAPROXY.format(port=setup.port, servers=servers))]


HAPROXY = """global
  nbthread 1
  maxconn 4096
defaults
  mode http
  option http-no-delay
  option abortonclose
  http-reuse always
  timeout connect 1s
  timeout queue 60s
  timeout client 60s
  timeout server 60s
frontend clients
  bind 127.0.0.1:{port}
  default_backend replicas
backend replicas
  balance leastconn
{servers}"""


def envoy(setup: Setup) -> list[str]:
    weights = setup.weights or (1,) * len(setup.replicas)
    endpoints = [
        {"endpoint": {"address": _address(port)}, "load_balancing_weight": weight}
        for port, weight in zip(setup.replicas, weights, strict=True)
    ]
    router = {"name": "envoy.filters.http.router", "typed_config": {"@type": _type("http.router.v3.Router")}}
    manager = {
        "@type": _type("network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "clients",
        "http_filters": [router],
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {"match": {"prefix": "/"}, "route": {"cluster": "replicas", "timeout": "60s"}}
                    ],
                }
            ]
        },
    }
    connections = {"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}
    cluster = {
        "name": "replicas",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "load_assignment": {"cluster_name": "replicas", "endpoints": [{"lb_endpoints": endpoints}]},
        "circuit_breakers": {"thresholds": [{"max_connections": 4096, "max_requests": 4096}]},
    }
    listener = {"address": _address(setup.port), "filter_chains": [{"filters": [connections]}]}
    settings = {"static_resources": {"listeners": [listener], "clusters": [cluster]}}
    file = setup.write("envoy.yaml", yaml.safe_dump(settings))
    quiet = ["--log-level", "error", "--disable-hot-restart"]
    return [str(setup.tools / "envoy"), "-c", file, "--concurrency", "1", *quiet]


def _type(name: str) -> str:
    return f"type.googleapis.com/envoy.extensions.filters.{name}"


def _address(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def vllm_router(setup: Setup) -> list[str]:
    return [str(setup.tools / "vllm-router"), *_router_options(setup)]


def sglang_router(setup: Setup) -> list[str]:
    return [str(setup.tools / "sglang-router"), "launch", *_router_options(setup)]


def _router_options(setup: Setup) -> list[str]:
    listeners = ["--host", "127.0.0.1", "--port", str(setup.port), "--prometheus-port", str(setup.spare_port)]
    return [*listeners, "--policy", "power_of_two", "--log-level", "error", "--worker-urls", *setup.urls]


def litellm(setup: Setup) -> list[str]:
    models = [
        {
            "model_name": MODEL,
            "litellm_params": {"model": f"openai/{MODEL}", "api_base": f"{url}/v1", "api_key": "x"},
        }
        for url in setup.urls
    ]
    general = {"master_key": setup.key, "dangerously_permit_weak_or_unset_master_key": True}
    settings = {"model_list": models, "general_settings": general}
    file = setup.write("litellm.yaml", yaml.safe_dump(settings))
    where = ["--host", "127.0.0.1", "--port", str(setup.port)]
    return [
        str(setup.tools / "litellm"),
        "--config",
        file,
        *where,
        "--num_workers",
        "1",
        "--telemetry",
        "False",
    ]


PEERS = [
    Peer("switchyard", switchyard, ""),
    Peer("nginx", nginx, "nginx", "apt-get install nginx-light"),
    Peer("haproxy", haproxy, "haproxy", "apt-get install haproxy"),
    Peer("envoy", envoy, "envoy", "pip install pyvoy"),
    Peer("vllm-router", vllm_router, "vllm-router", "pip install vllm-router"),
    Peer("sglang-router", sglang_router, "sglang-router", "pip install sglang-router"),
    Peer(
        "litellm",
        litellm,
        "litellm",
        "pip install 'litellm[proxy]'",
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    ),
]
