"""Which browser the tests drive, and how it is started.

Debian's ``chromium-headless-shell`` is the same engine, of the same source and version, without the window
around it: a page costs half the CPU time, so it is taken where it is installed. Another one, which may be the
whole browser, is named by ``CHROMIUM=/usr/bin/chromium make test``.
"""

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.needs import need

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium; this enables the browser tests: apt-get install chromium-headless-shell"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find() -> str:
    """The program's path; empty: there is none."""
    if chosen := os.environ.get("CHROMIUM"):
        return shutil.which(chosen) or ""
    return next((found for name in NAMES if (found := shutil.which(name))), "")


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """One for each process of the run. While it is open an event loop runs in this thread: tests that are
    coroutines come before the first that asks for a browser (tests/conftest.py sorts them), and Django is
    told that nothing here is asynchronous."""
    from playwright.sync_api import sync_playwright  # here, since most runs' processes never need it

    found = find()
    need(found, MISSING)
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        started = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        yield started
        started.close()
