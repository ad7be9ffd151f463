"""What people do meanwhile: changes by the API, client keys that come and go, logins, and an open page."""

import asyncio
import http.cookiejar
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import websockets

from tests.faults.whole_stack import FLEET, WholeStack

STRATEGIES = ("least_expected_work", "round_robin", "least_connections")
AGAIN_S, TRIES = 1.0, 30
PASSWORD = "an-hour-of-faults-7"


class Changes:
    """:attr:`failures`: calls that the control plane refused or did not answer, by kind and answer."""

    def __init__(self, whole: WholeStack, rng: Random) -> None:
        self.done: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self._whole = whole
        self._rng = rng
        self._one_time = whole.stack.one_time_password
        self._cookie = ""
        self._number = 0

    async def a_minute(self) -> None:
        """One of each."""
        for name, change in (
            ("weight", self._weight),
            ("drain and undrain", self._drain),
            ("strategy", self._strategy),
            ("client key", self._client_key),
            ("login", self.log_in),
        ):
            await self._until_done(name, change)

    async def _until_done(self, name: str, change: Callable[[], Any]) -> None:
        for _ in range(TRIES):
            try:
                await asyncio.to_thread(change)
                self.done[name] += 1
                return
            except (OSError, AssertionError, ValueError) as problem:
                self.failures[f"{name}: {str(problem)[:150] or type(problem).__name__}"] += 1
            await asyncio.sleep(AGAIN_S)

    def _replica(self) -> str:
        return f"/fleets/{FLEET}/replicas/{self._rng.choice(self._whole.replicas).name}"

    def _weight(self) -> None:
        self._whole.stack.api("PATCH", self._replica(), {"weight": self._rng.choice((0.5, 1.0, 1.5, 2.0))})

    def _drain(self) -> None:
        path = self._replica()
        for state in "draining", "active":
            self._whole.stack.api("PATCH", path, {"admin_state": state})

    def _strategy(self) -> None:
        body = {"strategy": self._rng.choice(STRATEGIES)}
        self._whole.stack.api("PATCH", f"/fleets/{FLEET}/policy", body)

    def _client_key(self) -> None:
        """A key with a limit is used, and revoked."""
        stack = self._whole.stack
        self._number += 1
        body = {"name": f"visitor-{self._number}", "requests_per_minute": 50, "max_concurrency": 5}
        made = stack.api("POST", "/client-keys", body)
        fields = {"Authorization": f"Bearer {made['key']}", "X-Fault-Id": f"get-key-{self._number}"}
        for _ in range(5):
            stack.ask(f"/fleets/{FLEET}/thing", **fields)
        stack.api("DELETE", f"/client-keys/{made['id']}")

    def log_in(self) -> None:
        """As a browser does; with the one-time password first, which is then changed."""
        jar = http.cookiejar.CookieJar()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        opener.addheaders = [("Accept", "text/html")]
        password = self._one_time or PASSWORD
        self._submit(opener, jar, "/login", {"username": "admin", "password": password})
        if self._one_time:
            new = {"new_password1": PASSWORD, "new_password2": PASSWORD}
            self._submit(opener, jar, "/password", {"old_password": password, **new})
            self._one_time = ""
        if self._cookie:
            opener.open(f"{self._whole.stack.url}/events", timeout=60).close()
        cookies = {cookie.name: cookie.value for cookie in jar}
        self._cookie = f"sessionid={cookies['sessionid']}"

    def _submit(self, opener: Any, jar: http.cookiejar.CookieJar, path: str, form: dict[str, str]) -> None:
        url = f"{self._whole.stack.url}{path}"
        opener.open(url, timeout=60).close()
        token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
        content = urllib.parse.urlencode({**form, "csrfmiddlewaretoken": token}).encode()
        opener.open(urllib.request.Request(url, content, {"Referer": url}), timeout=60).close()

    async def watch_page(self, path: str, for_s: float) -> None:
        """A page that is open: one connection after the other, each for so long."""
        url = f"ws://127.0.0.1:{self._whole.stack.port}{path}"
        while True:
            with suppress(OSError, TimeoutError, websockets.WebSocketException):
                async with asyncio.timeout(for_s):
                    headers = {"Cookie": self._cookie}
                    origin = self._whole.stack.url
                    async with websockets.connect(url, origin=origin, additional_headers=headers) as page:
                        async for _ in page:
                            self.done[f"frames of {path}"] += 1
            await asyncio.sleep(AGAIN_S)
