"""A real proxy before real example servers, with client keys, for the clients' own packages."""

import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.clients.example_servers import ExampleServer
from tests.proxy_process import Proxy

KEYS = {name: f"sy-{secrets.token_hex(24)}" for name in ("all", "texts", "digits")}
"""One opens every fleet; the others what their name says."""
OPENED = {"texts": ["tiny-llm", "closed"], "digits": ["digits"]}


class Site(NamedTuple):
    """What a client is given."""

    port: int
    keys: dict[str, str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def fleets(texts: str, digits: str) -> list[dict[str, Any]]:
    """The default one speaks no V2. ``closed`` and ``letters`` have nobody who would serve them."""
    return [
        {
            "name": "tiny-llm",
            "aliases": ["chat"],
            "protocol": "openai",
            "expose": "inference",
            "default": True,
            "replicas": [{"name": "quick", "url": texts}],
        },
        {"name": "closed", "protocol": "openai", "expose": "inference", "replicas": []},
        {
            "name": "digits",
            "aliases": ["numbers"],
            "protocol": "open-inference",
            "expose": "inference",
            "served_model": "digits",
            "replicas": [{"name": "linear", "url": digits}],
        },
        {"name": "letters", "protocol": "open-inference", "expose": "inference", "replicas": []},
    ]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("clients")
    started: list[ExampleServer | Proxy] = []
    try:
        models = str(folder / "models")
        texts = ExampleServer("tiny_llm", "--replica", "quick", "--models", models, "--embeddings")
        started.append(texts)
        digits = ExampleServer("digits", "--kind", "linear")
        started.append(digits)
        texts.wait_for("/health")
        digits.wait_for("/v2/models/digits/ready")
        proxy = Proxy(folder, "--fleets", str(fleet_file(folder, texts.url, digits.url)), "--workers", "1")
        started.append(proxy)
        yield Site(proxy.ready().port, KEYS)
    finally:
        for one in started:
            one.stop()


def fleet_file(folder: Path, texts: str, digits: str) -> Path:
    client_keys = []
    for name, key in KEYS.items():
        (folder / f"{name}.key").write_text(key)
        opens = {"fleets": OPENED[name]} if name in OPENED else {}
        client_keys.append({"name": name, "key": f"file:{name}.key", **opens})
    file = folder / "fleets.yaml"
    file.write_text(json.dumps({"version": 1, "fleets": fleets(texts, digits), "client_keys": client_keys}))
    return file
