"""A host is drained with ``move``: the table, all workers, the page and the API, with real model servers."""

import http.client
import itertools
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import LIMIT_MS, sign_in
from tests.proxy_process import ROOT, until
from tests.routing.protocols.continuation.streams import Read
from tests.servers.running import APPS, ModelServer
from tests.system.stack import Stack, exchange

pytestmark = [pytest.mark.system, pytest.mark.browser, pytest.mark.timeout(240)]

FLEET, HOST = "spells", "node9"
CHAT = "/v1/chat/completions"
LAYERS = "8"
"""So deep that its streams last while they are looked at."""
SLOTS, TOKENS = 16, 900
STREAMS, PLAIN = 4, 12
LONG_S = 120.0


class Speller(ModelServer):
    """What it says next is known (:mod:`tests.servers.apps.llama_letters`)."""

    def command(self) -> list[str]:
        return [
            sys.executable,
            str(APPS / "llama_letters.py"),
            str(self.port),
            str(self.folder),
            LAYERS,
            str(SLOTS),
        ]


class Asked:
    """One request through the proxy, in a thread."""

    def __init__(self, stack: Stack, stream: bool) -> None:
        self.body = b""
        self.failed = ""
        message = {"role": "user", "content": "Once upon a time"}
        self._sent: dict[str, Any] = {
            "model": FLEET,
            "temperature": 0,
            "max_tokens": TOKENS,
            "messages": [message],
        }
        self._sent |= {"stream": True} if stream else {}
        self._port = stack.proxy_port
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LONG_S)
        try:
            connection.request("POST", CHAT, json.dumps(self._sent), {"Content-Type": "application/json"})
            response = connection.getresponse()
            while piece := response.read1(65_536):
                self.body += piece
            if response.status != 200:
                self.failed = f"{response.status} {self.body!r}"
        except (OSError, http.client.HTTPException) as error:
            self.failed = repr(error)
        finally:
            connection.close()

    def end(self) -> bytes:
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        return self.body


@pytest.fixture
def spellers(stack: Stack, tmp_path: Path) -> Iterator[list[Speller]]:
    """A fleet of four, of which two are on accelerators of one host."""
    servers = [Speller(name, tmp_path) for name in "abcd"]
    for server in servers:
        server.start()
    try:
        for server in servers:
            server.until_it_says("/health", "200")
        policy = {"continuation": "auto", "strategy": "round_robin", "slow_start_s": 0}
        # All share this machine's processors: one that computes may answer its probes late, and is not lost.
        probe = {"preset": "llama.cpp", "timeout_s": 20, "fall": 6}
        stack.api(
            "POST",
            "/fleets",
            {"name": FLEET, "protocol": "openai", "probe": probe, "policy": policy},
        )
        for number, server in enumerate(servers):
            on = {}
            if number < 2:
                device = f"{HOST}/gpu{number}"
                stack.api("POST", "/accelerators", {"name": device, "memory_bytes": 2**30})
                on = {"accelerators": [device]}
            stack.api("POST", f"/fleets/{FLEET}/replicas", {"name": server.name, "url": server.url, **on})
        yield servers
    finally:
        where = f"/api/v1/fleets/{FLEET}?confirm={FLEET}"
        exchange(stack.port, "DELETE", where, headers=stack.authorization)
        for server in servers:
            server.stop()


def told(stack: Stack) -> dict[str, dict[str, Any]]:
    rows = exchange(stack.admin_port, "GET", "/status").json["fleets"].get(FLEET, {"replicas": []})
    return {row["replica"]: row for row in rows["replicas"]}


def signed_in(stack: Stack, browser: Browser) -> Page:
    made = subprocess.run(
        [sys.executable, "manage.py", "createaccount", "mover", "--role", "operate"],
        cwd=ROOT,
        env=stack.environment,
        check=True,
        capture_output=True,
        text=True,
    )
    found = re.search(r"(?i)one-time password:? +(\S+)", made.stdout)
    assert found, made.stdout
    context = browser.new_context(base_url=stack.url)
    context.set_default_timeout(LIMIT_MS)
    expect.set_options(timeout=LIMIT_MS)
    page = context.new_page()
    sign_in(page, "mover", found[1])
    page.wait_for_url("**/password")
    fields = page.locator("input[type=password]")
    fields.nth(0).fill(found[1])
    for at in (1, 2):
        fields.nth(at).fill("a password of my own 77")
    page.get_by_role("button", name="Change password").click()
    page.wait_for_url("**/")
    return page


def test_a_host_is_free_and_no_answer_broken(stack: Stack, browser: Browser, spellers: list[Speller]) -> None:
    until(
        lambda: (
            [row["continuation"] for row in told(stack).values()] == ["continues chats and completions"] * 4
        ),
        "all workers have tried all of them",
        90,
    )
    page = signed_in(stack, browser)
    page.goto(f"/fleets/{FLEET}")
    page.get_by_role("button", name="Drain a").click()
    form = page.get_by_role("form", name="Drain a")
    expect(form).to_be_visible()
    # All begin at the first: some streams, and plain requests in all of its other slots.
    for name in "bcd":
        stack.api("PATCH", f"/fleets/{FLEET}/replicas/{name}", {"admin_state": "draining"})
    streams = [Asked(stack, stream=True) for _ in range(STREAMS)]
    until(lambda: all(len(one.body) > 2_000 for one in streams), "all streams have begun")
    plain = [Asked(stack, stream=False) for _ in range(PLAIN)]
    until(lambda: told(stack)["a"]["in_flight"] == STREAMS + PLAIN, "all are there")
    for name in "bcd":
        stack.api("PATCH", f"/fleets/{FLEET}/replicas/{name}", {"admin_state": "active"})

    # The page was open before: what it shows must be seen while the streams last.
    expect(form).to_contain_text(re.compile(r"(\d+) finish there: \1 not streamed"))
    expect(form).to_contain_text(re.compile(rf"{STREAMS} of \d+ requests in flight go on"))
    page.keyboard.press("Escape")
    drained = stack.api("POST", "/drains", {"host": HOST, "move": True})
    assert [one["replica"] for one in drained["replicas"]] == ["a", "b"]
    note = page.locator("tr[data-note='a']")
    expect(note).to_contain_text(f"{STREAMS} moved, for some")
    expect(note).to_contain_text("not streamed")
    left = stack.api("GET", f"/fleets/{FLEET}/replicas/a")
    assert left["moving"]["moved"] == STREAMS
    assert {one["reason"] for one in left["moving"]["staying"]} <= {"plain"}

    answers = [one.end() for one in (*streams, *plain)]
    assert [one.failed for one in (*streams, *plain) if one.failed] == []
    said = {json.loads(body)["choices"][0]["message"]["content"] for body in answers[STREAMS:]}
    assert len(said) == 1
    follows = dict(itertools.pairwise(":" + said.pop()))
    for body in answers[:STREAMS]:
        read = Read(body)
        assert len(read.text) == TOKENS
        assert all(follows[one] == other for one, other in itertools.pairwise(":" + read.text))
        assert read.comments == [b": continued by another replica"]
    expect(note).to_contain_text("safe to stop")
    until(lambda: stack.api("GET", f"/drains?host={HOST}")["safe_to_stop"], "the host can be stopped")
    undone = stack.api("POST", "/drains", {"host": HOST, "admin_state": "active"})
    assert {one["admin_state"] for one in undone["replicas"]} == {"active"}

    def is_back() -> bool:
        # On a busy machine it may have been taken for stalled: its next response ends that.
        stack.ask(CHAT, {"model": FLEET, "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})
        return bool(told(stack)["a"]["eligible"])

    until(is_back, "it is used again", 60)
    expect(page.locator("tr[data-replica='a']")).to_contain_text("ready")
    page.context.close()
