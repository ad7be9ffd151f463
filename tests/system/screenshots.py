"""Makes the pictures of the docs: ``.venv/bin/python -m tests.system.screenshots docs/images``.

Starts what ``make up`` starts and sends twice the usual traffic for a minute; nothing is drawn by hand. Every
page of ``dashboard/urls.py`` is taken in light and dark; the README shows two of them.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, StorageState, ViewportSize, sync_playwright

from tests.browser import chromium
from tests.browser.conftest import sign_in
from tests.browser.pages import addresses, parameters
from tests.proxy_process import ROOT, until
from tests.system.stack import Stack

LOAD_S = 75
RATE = "12"
SIZE: ViewportSize = {"width": 1440, "height": 900}
PASSWORD = "only for these pictures 1"
FLEET = "tiny-llm"
FOR_README = {("overview", "light"): "overview", ("fleet", "dark"): "fleet"}
"""Page and theme → the shorter name that the README knows; the rest is ``events-dark`` and the like."""
UNMOVED = {"login", "password", "problem"}
"""Pages on which nothing is under load."""


def main() -> None:
    program = chromium.find() or sys.exit(chromium.MISSING)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as data, sync_playwright() as playwright:
        stack = Stack(Path(data), "--no-client")
        try:
            stack.wait_until_up()
            until(lambda: len(stack.eligible("tiny-llm")) == 4, "every replica is ready", 90)
            browser = playwright.chromium.launch(executable_path=program, args=list(chromium.FLAGS))
            take(stack, browser, folder)
            browser.close()
        finally:
            stack.stop()


def take(stack: Stack, browser: Browser, folder: Path) -> None:
    """Sign in, keep the pages open while traffic flows, so that their charts fill, then take each."""
    state = signed_in(stack, browser)
    pages = []
    for scheme in ("light", "dark"):
        context = browser.new_context(
            base_url=stack.url,
            viewport=SIZE,
            storage_state=state,
            color_scheme="dark" if scheme == "dark" else "light",
        )
        for address in addresses():
            if address.name in UNMOVED:
                continue
            page = context.new_page()
            page.goto(address.path(parameters(FLEET, "quick")))
            if page.locator("[data-range]").count():
                page.locator("[data-range]").select_option(index=0)
            pages.append((FOR_README.get((address.name, scheme), f"{address.name}-{scheme}"), page))
    command = [sys.executable, "-m", "examples.client", "--proxy", f"http://127.0.0.1:{stack.proxy_port}"]
    client = subprocess.Popen([*command, "--rate", RATE], cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL)
    try:
        time.sleep(LOAD_S)
        for name, page in pages:
            page.bring_to_front()
            settle(page)
            page.screenshot(path=folder / f"{name}.png")
            print(folder / f"{name}.png")
    finally:
        client.terminate()
        client.wait()


def settle(page: Page) -> None:
    page.mouse.move(0, 0)
    page.wait_for_timeout(2500)


def signed_in(stack: Stack, browser: Browser) -> StorageState:
    page = browser.new_page(base_url=stack.url)
    sign_in(page, "admin", stack.one_time_password)
    page.wait_for_url("**/password")
    fields = page.locator("input[type=password]")
    for index, value in enumerate((stack.one_time_password, PASSWORD, PASSWORD)):
        fields.nth(index).fill(value)
    page.get_by_role("button", name="Change password").click()
    page.wait_for_url("**/")
    state = page.context.storage_state()
    page.close()
    return state


if __name__ == "__main__":
    main()
