"""Both themes, three widths, the keyboard, and contrast."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.measuring import Measuring

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
BACKGROUND = "() => getComputedStyle(document.body).backgroundColor"
LIGHT, DARK = "rgb(246, 247, 249)", "rgb(14, 18, 24)"

TEXT_COLOURS = ("ink", "ink-2", "ink-3", "accent", "ready", "checking", "unready", "down", "draining")
TEXT_COLOURS += ("maintenance", "ejected", "p99")
CONTRASTS = """(names) => {
  const probe = document.body.appendChild(document.createElement("span"));
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = (token) => {
    probe.style.color = `var(--${token})`;
    const [r, g, b] = getComputedStyle(probe).color.match(/[\\d.]+/g).map(Number).map(channel);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return names.flatMap((name) => ["bg", "panel"].map((under) =>
    [`${name} on ${under}`, ratio(luminance(name), luminance(under))]));
}"""


@pytest.mark.parametrize(("scheme", "background"), [("light", LIGHT), ("dark", DARK)])
def test_follows_the_system(
    open_page: Open, new_fleet: Callable[..., str], scheme: str, background: str
) -> None:
    page = open_page(f"/fleets/{new_fleet()}", color_scheme=scheme)
    expect(page.locator(".uplot canvas")).to_have_count(3)
    assert page.evaluate(BACKGROUND) == background
    assert len(page.screenshot()) > 20_000


def test_the_chosen_theme_is_there_before_the_first_paint(open_page: Open) -> None:
    page = open_page("/", color_scheme="light")
    page.get_by_role("button", name="Theme: system").click()
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(BACKGROUND) == DARK
    # As soon as there is a body, long before modules run, the choice stands on the root element.
    page.context.add_init_script(
        """new MutationObserver((_, watch) => {
          if (!document.body) return;
          window.themeAtFirst = document.documentElement.dataset.theme;
          watch.disconnect();
        }).observe(document, {childList: true, subtree: true});"""
    )
    page.reload()
    assert page.evaluate("() => window.themeAtFirst") == "dark"
    page.get_by_role("button", name="Theme: dark").click()
    assert page.evaluate(BACKGROUND) == LIGHT


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(open_page: Open, scheme: str) -> None:
    page = open_page("/", color_scheme=scheme)
    ratios = dict(page.evaluate(CONTRASTS, list(TEXT_COLOURS)))
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("width", [390, 820, 1440])
def test_no_page_is_wider_than_its_window(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring, width: int
) -> None:
    name = new_fleet()
    measuring.states["b"] = ("ejected", "5 timeouts in 8 s; probation in 6 s. Probe: 200 in 31 ms")
    page = open_page(f"/fleets/{name}", viewport={"width": width, "height": 844})
    expect(page.locator("tr[data-replica]")).to_have_count(3)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    page.goto("/")
    expect(page.locator("tr[data-fleet]")).to_have_count(1)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_everything_is_reached_by_keyboard_and_seen_to_be(
    open_page: Open, new_fleet: Callable[..., str]
) -> None:
    page = open_page(f"/fleets/{new_fleet()}")
    expect(page.locator("tr[data-replica]")).to_have_count(3)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    reached = []
    for _ in range(90):  # what other tests have made may stand on the page before the last row
        page.keyboard.press("Tab")
        reached.append(
            page.evaluate(
                """() => {
                  const it = document.activeElement;
                  return [it.getAttribute("aria-label") ?? it.textContent, getComputedStyle(it).outlineStyle];
                }"""
            )
        )
    names = [name for name, _ in reached]
    assert {"Replicas", "Drain a", "Weight of a: 1.0. Change", "Drain c"} <= set(names)
    assert all(outline != "none" for name, outline in reached if name in ("Replicas", "Drain a"))


def test_the_header_is_as_high_as_what_is_in_it(open_page: Open, new_fleet: Callable[..., str]) -> None:
    """Two lines in a narrower window, one again when there is room."""
    page = open_page(f"/fleets/{new_fleet()}", viewport={"width": 1280, "height": 844})
    expect(page.locator("tr[data-replica]")).to_have_count(3)
    height = "() => document.querySelector('.header').offsetHeight"
    low = page.evaluate(height)
    page.set_viewport_size({"width": 870, "height": 844})
    page.wait_for_function(f"low => ({height})() > low", arg=low)
    page.set_viewport_size({"width": 1280, "height": 844})
    page.wait_for_function(f"low => ({height})() === low", arg=low)


def test_a_phone_reaches_what_concerns_the_account(open_page: Open) -> None:
    page = open_page("/hardware", viewport={"width": 390, "height": 844})
    page.get_by_role("link", name="Change password").click()
    expect(page.get_by_role("heading", name="Choose a password")).to_be_visible()
