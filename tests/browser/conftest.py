"""A real browser on a real web process with a real Redis; frames come from the test.

Without a browser these tests are skipped, and say which command enables them; with ``CI=true`` a
missing browser is a failure.
"""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.following import Following
from tests.browser.measuring import Measuring
from tests.browser.site import ADMIN, Site
from tests.conftest import RedisServer
from tests.proxy_process import Proxy, until

LIMIT_MS = 20_000
"""Pages ask some things every 5 s, and a busy machine is slow."""
expect.set_options(timeout=LIMIT_MS)
# What the browser itself says of an answer that a test provokes, e.g. "400 (Bad Request)".
ANSWER_NOTICE = "Failed to load resource: the server responded with a status of"
VIOLATIONS = "window.policyViolations ?? []"
FORGET = """() => {
  try { localStorage.clear(); } catch { /* the browser's own page of an error has none */ }
}"""
WATCH_POLICY = """
window.policyViolations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.policyViolations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


@pytest.fixture(scope="session")
def shared_site(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), shared_redis.url)
    site.start()
    yield site
    site.stop()


@pytest.fixture
def site(shared_site: Site, redis_server: RedisServer) -> Site:
    """The web process, over an empty Redis."""
    if shared_site.process is None:
        shared_site.start()
    # Another test may have bound it to another installation, which the process looks at once a second.
    until(shared_site.uses_redis, "Redis is used")
    return shared_site


@pytest.fixture
def empty(site: Site) -> Site:
    """The web process without a fleet."""
    for fleet in site.api("GET", "/fleets?page_size=500")["results"]:
        site.api("DELETE", f"/fleets/{fleet['name']}?confirm={fleet['name']}")
    return site


@pytest.fixture(scope="session")
def sessions() -> "dict[str, Session]":
    """By user: signing in costs a password hash, and a context's first page the loading of every file."""
    return {}


@pytest.fixture
def measuring(site: Site) -> Iterator[Measuring]:
    with Measuring() as conductor:
        yield conductor


_numbers = itertools.count(1)


@pytest.fixture
def new_fleet(site: Site, measuring: Measuring) -> Callable[..., str]:
    """Registers a fleet of its own for a test, over the API, and has it measured.

    ``first_port``: of its replicas; others than most have where it exposes more than inference, for that is
    asked about.
    """

    def make(replicas: tuple[str, ...] = ("a", "b", "c"), first_port: int = 9000) -> str:
        name = f"digits-{next(_numbers)}"
        listed = [
            {"name": replica, "url": f"http://127.0.0.1:{first_port + index}"}
            for index, replica in enumerate(replicas)
        ]
        site.api("POST", "/fleets", {"name": name, "protocol": "open-inference"})
        for replica in listed:
            site.api("POST", f"/fleets/{name}/replicas?trial=no", replica)
        measuring.add(name)
        return name

    return make


@pytest.fixture
def following(site: Site) -> Iterator[Following]:
    following = Following(site)
    yield following
    following.process.communicate(timeout=20)


class Watched:
    """Opens pages and remembers what went wrong on them."""

    def __init__(self, browser: Browser, site: Site) -> None:
        self._browser = browser
        self._site = site
        self._contexts: list[BrowserContext] = []
        self._shared: dict[str, Session] = {}
        self.problems: list[str] = []
        self.expected: list[str] = [ANSWER_NOTICE]
        """What the browser may report, because the test provokes it."""

    def page(self, **options: Any) -> Page:
        """In a context of its own, which has nothing cached."""
        context = self.context(**options)
        self._contexts.append(context)
        return self._watch(context.new_page())

    def shared_page(self, user: str, session: "Session") -> Page:
        """In the user's context, where the pages' files are cached already."""
        self._shared[user] = session
        return self._watch(session.context.new_page())

    def context(self, **options: Any) -> BrowserContext:
        context = self._browser.new_context(base_url=self._site.url, **options)
        context.set_default_timeout(LIMIT_MS)
        context.add_init_script(WATCH_POLICY)
        return context

    def _watch(self, page: Page) -> Page:
        page.on("pageerror", lambda error: self.problems.append(f"{error.message}\n{error.stack}"))
        page.on("console", self._console)
        return page

    def _console(self, message: Any) -> None:
        if message.type == "error" and not any(words in message.text for words in self.expected):
            self.problems.append(message.text)

    def close(self) -> None:
        for context in self._contexts:
            for page in context.pages:
                self.problems += page.evaluate(VIOLATIONS)
            context.close()
        for session in self._shared.values():
            for page in session.context.pages:
                self.problems += page.evaluate(VIOLATIONS)
                page.evaluate(FORGET)
                page.close()
            session.restore()


class Session(NamedTuple):
    """A user who has signed in, in a browser context that all tests of this process share."""

    context: BrowserContext
    state: Any

    def restore(self) -> None:
        """What a test may have changed in it."""
        self.context.set_offline(False)
        self.context.clear_cookies()
        self.context.add_cookies(self.state["cookies"])


@pytest.fixture
def watched(browser: Browser, site: Site) -> Iterator[Watched]:
    """Pages without a session. Errors in the console and refusals of the policy fail the test."""
    pages = Watched(browser, site)
    yield pages
    pages.close()
    assert pages.problems == []


def sign_in(page: Page, name: str, password: str) -> None:
    page.goto("/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def open_page(watched: Watched, sessions: dict[str, Session]) -> Callable[..., Page]:
    """Opens an address as a signed-in user: an administrator, unless told otherwise. With ``options`` the
    page is in a context of its own, which a test may change as it likes."""

    def open_at(path: str, user: tuple[str, str] = ADMIN, **options: Any) -> Page:
        name = user[0]
        if name not in sessions:
            context = watched.context()
            page = context.new_page()
            sign_in(page, *user)
            page.wait_for_url("**/")
            page.close()
            sessions[name] = Session(context, context.storage_state())
        if options:
            page = watched.page(storage_state=sessions[name].state, **options)
        else:
            page = watched.shared_page(name, sessions[name])
        page.goto(path)
        return page

    return open_at


@pytest.fixture
def proxy(site: Site, redis_server: RedisServer, tmp_path: Path, redis_client: Any) -> Iterator[Proxy]:
    """A real proxy with two workers, which have both reported."""
    running = Proxy(tmp_path, "--redis", redis_server.url, "--workers", "2", "--state-dir", str(tmp_path))
    until(lambda: redis_client.zcard("sy:workers") == 2, "two workers report")
    yield running
    running.stop()
