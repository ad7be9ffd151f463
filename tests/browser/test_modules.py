"""Parts of the pages that can be asked directly: the browser imports the module and calls it."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Page

pytestmark = pytest.mark.browser


def in_module(page: Page, name: str, code: str) -> Any:
    """Runs code in which ``it`` is a module of this page."""
    # Under hashed names: the page's own import of it tells which.
    found = page.evaluate("() => performance.getEntriesByType('resource').map(one => one.name)")
    stem = f"/dashboard/js/{name}."
    url = next(one for one in found if stem in one)
    return page.evaluate(f"async () => {{ const it = await import('{url}'); {code} }}")


@pytest.fixture
def call(open_page: Callable[..., Page]) -> Callable[[str, str], Any]:
    return partial(in_module, open_page("/"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ("null", "–"),
        ("0.00042", "0.4 ms"),
        ("0.0421", "42 ms"),
        ("0.9994", "999 ms"),
        ("0.9996", "1.00 s"),
        ("1.312", "1.31 s"),
        ("38.24", "38.2 s"),
        ("240", "4.0 min"),
    ],
)
def test_durations_have_three_digits_and_a_unit(
    call: Callable[[str, str], Any], seconds: str, words: str
) -> None:
    assert call("format", f"return it.text(it.duration({seconds}))") == words


def test_history_and_frames_meet_without_a_gap_or_a_double(call: Callable[[str, str], Any]) -> None:
    columns = call(
        "live/time_series",
        """
        const point = (at) => ({at, rps: at, p50_s: null, p99_s: 1, errors_per_s: 0, in_flight: 2});
        const series = new it.TimeSeries();
        series.reset([100, 101, 102].map(point));
        series.push(point(102));           // the frame that history has already
        series.push(point(103));
        series.push(point(110));           // something is missing before it
        series.reset([101, 102, 103, 104, 105, 106, 107, 108, 109, 110].map(point));
        const whole = [...series.at];
        series.push(point(120));
        return [whole, series.at, series.columns.rps];
        """,
    )
    assert columns[0] == list(range(101, 111))
    assert columns[1][-2:] == [111, 120]
    assert columns[2][-2:] == [None, 120]


def test_series_keep_a_quarter_of_an_hour(call: Callable[[str, str], Any]) -> None:
    length = call(
        "live/time_series",
        """
        const series = new it.TimeSeries();
        for (let at = 0; at < 5000; at++) {
          series.push({at, rps: 1, p50_s: 1, p99_s: 1, errors_per_s: 0, in_flight: 0});
        }
        return [series.at.length, series.columns.p99.length, series.at.at(-1)];
        """,
    )
    assert length == [960, 960, 4999]


def test_a_write_says_how_many_workers_have_it(
    open_page: Callable[..., Page], new_fleet: Callable[..., str]
) -> None:
    page = open_page(f"/fleets/{new_fleet()}")

    def said(
        live: int, applied: int, refused: int = 0, *, changed: bool = True, published: bool = True
    ) -> tuple[str, bool]:
        workers = {"live": live, "applied": applied, "refused": refused, "waited_ms": 11.6}
        answer = {"changed": ["x"] if changed else [], "published": published, "workers": workers}
        code = f"return it.rolloutStatus({json.dumps(answer)}, 'draining')"
        outcome = in_module(page, "fleet/rollout_status", code)
        return outcome["text"], outcome["everywhere"]

    assert said(2, 2) == ("draining · 2 of 2 workers in 12 ms", True)
    assert said(2, 1) == ("draining · 1 of 2 workers within 12 ms, the rest follow", False)
    assert said(2, 1, 1) == (
        "draining · refused by 1 of 2 workers, which keep the old table",
        False,
    )
    assert said(0, 0) == ("draining · no proxy worker is running; they apply it when they start", False)
    assert said(2, 0, published=False)[0].startswith("draining · saved; Redis does not answer")
    assert said(2, 2, changed=False) == ("no change: it was already set", True)


def test_a_chart_has_one_line_for_what_stays_as_it_is(call: Callable[[str, str], Any]) -> None:
    told = [
        ("large", "a", "ejected"),
        ("large", "a", "down"),
        ("large", "a", "ejected"),
        ("large", "a", "ejected"),
        ("small", "a", "ejected"),
        ("large", "b", "ejected"),
        ("large", "a", "ejected"),
        ("large", "a", "ready"),
        ("large", "a", "ejected"),
    ]
    events = [
        {
            "kind": "ejection",
            "fleet": fleet,
            "replica": replica,
            "state": state,
            "text": "",
            "at": f"{at}-01-01",
        }
        for at, (fleet, replica, state) in enumerate(told, 2000)
    ]
    markers = call("charts/markers", f"return it.markersOf({json.dumps(events[::-1])})")
    years = [round(marker["at"] / (365.25 * 86_400)) + 1970 for marker in markers]
    assert years == [2000, 2001, 2002, 2004, 2005, 2008]
    assert [marker["label"] for marker in markers][:2] == ["a ejected", "a down"]
