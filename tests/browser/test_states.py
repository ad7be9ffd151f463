"""Long, narrow, empty, broken, and without a mouse: what a page is not drawn for, and must stand."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import CDPSession, Locator, Page, expect

from tests.browser.conftest import Watched
from tests.browser.measuring import Measuring
from tests.browser.pages import FOR_STRANGERS, Address, addresses, each, parameters, wait_until_drawn
from tests.browser.site import Site
from tests.proxy_process import until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]

MANY = 200
LONG_NAME = "a-replica-with-the-longest-name-that-anybody-may-give-it-0123456"
SIGNED_IN = [one for one in addresses() if one.name not in FOR_STRANGERS]
ALWAYS_FULL = {"password", "problem"}
"""Pages that list nothing, and so have no empty and no broken state."""
NEVER_EMPTY = {"system", "tokens", "events"}
"""What runs is seen by what runs; these tests hold a token; the empty timeline is in test_events.py."""
NOTHING_YET = re.compile(r"\b(no|nothing|none|not)\b.*\b(yet|here|registered|has)\b", re.IGNORECASE)
WIDTH = "() => document.documentElement.scrollWidth"
FIRST_PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WIDEST = """() => [...document.querySelectorAll("main *")]
  .filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
  .map((it) => it.outerHTML.slice(0, 120)).slice(0, 3)"""


@pytest.fixture
def many(site: Site, measuring: Measuring) -> str:
    """A fleet of 200 replicas, one of them with a name as long as names may be."""
    name = "many-and-with-a-long-name-too"
    names = [LONG_NAME[:63], *(f"node-{number:03d}" for number in range(1, MANY))]
    replicas = [
        {"name": each, "url": f"http://10.1.{index // 250}.{index % 250 + 1}:8000", "weight": 1.5}
        for index, each in enumerate(names)
    ]
    if not any(fleet["name"] == name for fleet in site.api("GET", "/fleets?page_size=1000")["results"]):
        site.api("POST", "/fleets?trial=no", {"name": name, "protocol": "openai", "replicas": replicas})
    else:
        site.api("PATCH", f"/fleets/{name}/replicas/node-001", {"weight": None})
        site.api("PATCH", f"/fleets/{name}/replicas/node-001", {"weight": 1.5})
    measuring.add(name)
    measuring.states["node-007"] = ("ejected", "5 timeouts in 8 s; probation in 6 s. Probe: 200 in 31 ms")
    measuring.states["node-002"] = ("down", "Refused: nothing listens at 10.1.0.3:8000.")
    return name


def top(locator: Locator) -> float:
    box = locator.bounding_box()
    assert box is not None
    return box["y"]


@pytest.mark.long
def test_a_fleet_of_200_is_usable(open_page: Open, many: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = open_page(f"/fleets/{many}", viewport={"width": 1280, "height": 800})
    expect(page.locator("tr[data-replica='node-001']")).to_be_visible()
    with capsys.disabled():
        print(f"\n{MANY} replicas: first paint {page.evaluate(FIRST_PAINT):.0f} ms, {frame_cost(page)}")

    page.mouse.move(500, 600)
    page.mouse.wheel(0, 1500)
    header, head = page.locator(".header"), page.locator(".table-panel thead th").first
    until(lambda: top(header) == 0, "the page's header stays at the top")
    expect(page.get_by_label("Find replica")).to_be_in_viewport()
    until(lambda: abs(top(head) - header.bounding_box()["height"]) <= 1, "the table's head stays under it")

    page.keyboard.press("/")
    page.keyboard.type("node-137")
    expect(page.locator("tr[data-replica]")).to_have_count(1)
    expect(page.locator("tr[data-replica='node-137']")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.get_by_label("Find replica").fill("ejected")
    expect(page.locator("tr[data-replica]")).to_have_count(1)
    expect(page.locator("tr[data-replica='node-007']")).to_contain_text("5 timeouts in 8 s")


@pytest.mark.long
def test_a_fleet_of_200_on_a_phone_can_be_read_to_its_end(open_page: Open, many: str) -> None:
    page = open_page(f"/fleets/{many}", viewport={"width": 390, "height": 844})
    expect(page.locator("tr[data-replica='node-001']")).to_be_visible()
    last = page.locator(f"tr[data-replica='node-{MANY - 1}']")

    def further() -> bool:
        page.locator("tr[data-replica]").last.scroll_into_view_if_needed()
        return bool(last.count())

    until(further, "the last replica has been scrolled to")
    expect(page.locator("tr[data-replica]")).to_have_count(MANY)


def test_a_table_too_wide_for_its_window_scrolls_sideways(open_page: Open, many: str) -> None:
    """Only one that fits has a head that stays in sight, for that one cannot scroll by itself."""
    page = open_page(f"/fleets/{many}", viewport={"width": 1500, "height": 800})
    expect(page.locator("tr[data-replica='node-001']")).to_be_visible()
    assert page.locator("tr[data-replica]").count() < 100, "rows that are out of sight are not in the page"
    box = page.locator(".table-panel .scroll")
    expect(box).to_have_class("scroll fits")
    page.set_viewport_size({"width": 880, "height": 800})
    expect(box).to_have_class("scroll")
    assert box.evaluate("it => getComputedStyle(it).overflowX") == "auto"


def frame_cost(page: Page) -> str:
    """What the browser's main thread does for each frame that comes, over eight of them."""
    frames: list[object] = []
    page.on("websocket", lambda socket: socket.on("framereceived", lambda frame: frames.append(frame)))
    page.reload()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def came(number: int) -> bool:
        page.evaluate("() => 0")  # lets what has arrived be told
        return len(frames) >= number

    until(lambda: came(3), "the first frames have come")
    first, before = len(frames), metrics(session)
    until(lambda: came(first + 8), "eight more frames have come")
    number = len(frames) - first
    spent = {name: (value - before[name]) * 1000 / number for name, value in metrics(session).items()}
    return (
        f"a frame costs {spent['TaskDuration']:.0f} ms of the main thread "
        f"(script {spent['ScriptDuration']:.0f}, style {spent['RecalcStyleDuration']:.0f}, "
        f"layout {spent['LayoutDuration']:.0f}; {number} frames)"
    )


def metrics(session: CDPSession) -> dict[str, float]:
    """The browser's own counters, by name; durations in seconds."""
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


@pytest.mark.long
def test_no_page_scrolls_sideways(
    open_page: Open, many: str, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.api("PATCH", f"/fleets/{many}/replicas/{LONG_NAME[:63]}", {"max_concurrency": 4})
    wide, paints = {}, {}
    for address in addresses():
        page = open_page(address.path(parameters(many, "node-001")), viewport={"width": 1280, "height": 844})
        wait_until_drawn(page)
        paints[address.name] = page.evaluate(FIRST_PAINT)
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 844})
            if page.evaluate(WIDTH) > width:
                wide[f"{address.name} at {width}"] = page.evaluate(WIDEST)
        page.context.close()
    with capsys.disabled():  # 0: the browser has not told
        print("\nfirst paint: " + ", ".join(f"{name} {ms or 0:.0f} ms" for name, ms in paints.items()))
    assert wide == {}


LISTING = [one for one in SIGNED_IN if one.name not in ALWAYS_FULL]


@pytest.fixture
def emptied(site: Site, measuring: Measuring) -> None:
    """No fleet, hardware class or accelerator is there any more. Tests that want one make their own."""
    for path in ("fleets", "hardware-classes", "accelerators"):
        for one in site.api("GET", f"/{path}?page_size=1000")["results"]:
            site.api("DELETE", f"/{path}/{one['name']}")


def test_each_page_says_what_to_do_while_there_is_nothing(open_page: Open, emptied: None) -> None:
    page = open_page("/")
    silent = []
    for address in LISTING:
        if "<" in address.route or address.name in NEVER_EMPTY:
            continue
        page.goto(address.route)
        wait_until_drawn(page)
        if not NOTHING_YET.search(page.locator("main").inner_text()):
            silent.append((address.name, page.locator("main").inner_text()[:300]))
    assert silent == []


@each(LISTING)
def test_each_page_says_that_something_could_not_be_read(
    open_page: Open, watched: Watched, new_fleet: Callable[..., str], address: Address
) -> None:
    """Every answer of the API is lost on its way."""
    watched.expected.append("net::ERR_FAILED")
    path = address.path(parameters(new_fleet(("a",)), "a"))
    page = open_page("/login")
    page.route("**/api/v1/**", lambda route: route.abort())
    page.goto(path)
    expect(page.locator("main :is(.problem, .banner.bad, [role=alert])").first).to_be_visible()
    expect(page.locator("main").get_by_text("cannot be reached").first).to_be_visible()


def tab_to(page: Page, wanted: Locator, key: str = "Tab") -> None:
    """Press Tab until that has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(150):
        page.keyboard.press(key)
        if wanted.count() == 1 and wanted.evaluate("it => it === document.activeElement"):
            return
    raise AssertionError(f"{wanted} is not reached by {key}")


def test_the_keyboard_alone_drains_weighs_and_changes_the_strategy(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    path = f"/fleets/{name}/replicas/b"
    page = open_page("/")
    tab_to(page, page.get_by_role("region", name="Fleets").get_by_role("link", name=name, exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/fleets/{name}")
    expect(page.locator("tr[data-replica='b']")).to_be_visible()

    tab_to(page, page.get_by_role("button", name="Drain b"))
    page.keyboard.press("Enter")
    undo = page.get_by_role("button", name="Undo drain of b")
    expect(undo).to_be_focused()
    assert site.api("GET", path)["admin_state"] == "draining"
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Drain b")).to_be_focused()
    assert site.api("GET", path)["admin_state"] == "active"

    tab_to(page, page.get_by_role("button", name="Weight of b: 1.0. Change"), "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Weight of b", exact=True)).to_be_focused()
    page.keyboard.type("2.5")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Weight of b: 2.5. Change")).to_be_focused()
    assert site.api("GET", path)["weight"] == 2.5

    strategy = page.get_by_role("combobox", name="Strategy")
    tab_to(page, strategy)
    page.keyboard.type("round")
    expect(strategy).to_have_value("round_robin")
    tab_to(page, page.get_by_role("button", name="Apply", exact=True))
    page.keyboard.press("Enter")
    policy = page.get_by_role("region", name="Policy")
    expect(policy.get_by_role("heading").first).to_have_text("Policy · revision 3")
    assert site.api("GET", f"/fleets/{name}/policy")["policy"]["strategy"] == "round_robin"
