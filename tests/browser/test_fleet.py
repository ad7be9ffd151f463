"""A fleet's page: draining with undo, weights, the strategy; each change as the API confirmed it."""

import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from controlplane.telemetry.frames import (
    LearnedLive,
    MovingLive,
    PredictedLive,
    PredictionsLive,
    ReportedLive,
    ServesLive,
    StayingLive,
)
from tests.browser.axe import findings
from tests.browser.measuring import Measuring
from tests.browser.reach import reaches_all
from tests.browser.site import LOOKER, Site
from tests.proxy_process import Proxy, until

pytestmark = pytest.mark.browser
Open = Callable[..., Page]


def row(page: Page, replica: str) -> Locator:
    return page.locator(f"tr[data-replica='{replica}']")


def note(page: Page, replica: str) -> Locator:
    return page.locator(f"tr[data-note='{replica}']")


def applied(what: str) -> re.Pattern[str]:
    """The note on a change that two workers take: while the API waits for them, or just after.

    Either is right, so whoever expects it asks afterwards that they all have it. How soon: test_reach.py."""
    return re.compile(
        what + r" · (2 of 2 workers in \d+ ms|[01] of 2 workers within \d+ ms, the rest follow)"
    )


def test_numbers_and_charts_move(open_page: Open, new_fleet: Callable[..., str]) -> None:
    page = open_page(f"/fleets/{new_fleet()}")
    reading = page.locator(".chart-head .big").first
    seen = {reading.inner_text()}
    until(lambda: seen.add(reading.inner_text()) or len(seen) >= 3, "three different rates are shown")
    expect(page.locator(".uplot canvas")).to_have_count(3)
    expect(row(page, "a")).to_contain_text("127.0.0.1:9000")


@pytest.mark.long
def test_concurrency_and_queue_are_changed_beside_the_strategy_and_taken_back(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name=re.compile("^Policy"))
    limit, size = panel.get_by_label("Max concurrency"), panel.get_by_label("Queue size")
    expect(size).to_have_value("256")
    limit.fill("8")
    size.fill("64")
    panel.get_by_label("Cold start", exact=True).select_option("hold")
    panel.get_by_label("Cold start timeout").fill("90")
    expect(panel).to_contain_text(
        '--json \'{"max_concurrency":8,"queue":{"size":64,"cold":"hold","cold_timeout_s":90}}\''
    )
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 2")
    path = f"/fleets/{name}/policy"
    queue = {"size": 64, "cold": "hold", "cold_timeout_s": 90.0}
    assert site.api("GET", path)["set"] == {"max_concurrency": 8, "queue": queue}

    limit.fill("many")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_have_text('must be a whole number, not the text "many"')
    limit.fill("8")
    expect(panel.get_by_role("button", name="Apply")).to_be_disabled()
    limit.fill("")
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 3")
    assert site.api("GET", path)["set"] == {"queue": queue}
    panel.get_by_role("button", name="back to revision 2").click()
    expect(limit).to_have_value("8")
    assert site.api("GET", path)["set"] == {"max_concurrency": 8, "queue": queue}


@pytest.mark.long
def test_what_sites_mean_is_changed_in_the_form_and_taken_back(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name=re.compile("^Policy"))
    prefer, spill = panel.get_by_label("Site preference"), panel.get_by_label("Spill above")
    expect(spill).to_have_value("0.8")
    spill.fill("1.5")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_have_text("must be from 0 to 1, not 1.5")
    expect(spill).to_be_focused()
    expect(spill).to_have_accessible_description(re.compile("must be from 0 to 1, not 1.5"))
    spill.fill("0,65")
    expect(panel).to_contain_text('--json \'{"locality":{"spill_above":0.65}}\'')
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 2")
    path = f"/fleets/{name}/policy"
    assert site.api("GET", path)["set"] == {"locality": {"spill_above": 0.65}}

    prefer.select_option("no preference")
    expect(spill).to_have_count(0)
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 3")
    assert site.api("GET", path)["set"] == {"locality": {"prefer": "none", "spill_above": 0.65}}
    panel.get_by_role("button", name="back to revision 2").click()
    expect(prefer).to_have_value("site")
    expect(spill).to_have_value("0.65")
    assert site.api("GET", path)["set"] == {"locality": {"spill_above": 0.65}}


@pytest.mark.long
def test_the_objective_for_first_tokens_is_set_and_taken_away(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    panel = open_page(f"/fleets/{name}").get_by_role("region", name=re.compile("^Policy"))
    objective = panel.get_by_label("First token within")
    expect(objective).to_have_value("")
    objective.fill("0")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_have_text("must be from 0.001 to 3600 seconds, not 0")
    objective.fill("0,5")
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 2")
    path = f"/fleets/{name}/policy"
    assert site.api("GET", path)["set"] == {"slo": {"first_token_s": 0.5}}
    objective.fill("")
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("revision 3")
    assert site.api("GET", path)["set"] == {}


@pytest.mark.long
def test_the_limit_for_a_second_replica_is_set(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    panel = open_page(f"/fleets/{name}").get_by_role("region", name=re.compile("^Policy"))
    limit, fact = panel.get_by_label("Second replica after"), panel.locator("[data-cell=second_attempts]")
    expect(limit).to_have_value("off")
    expect(fact).to_contain_text("off")
    path = f"/fleets/{name}/policy"
    for text, kept, words in (("auto", "auto", "limit not learned yet"), ("2,5", 2.5, "0 requests")):
        limit.fill(text)
        panel.get_by_role("button", name="Apply").click()
        expect(panel.get_by_role("status")).to_contain_text("revision")
        assert site.api("GET", path)["set"] == {"first_token_limit_s": kept}
        expect(fact).to_contain_text(words)
    limit.fill("often")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_contain_text("must be a number or auto or off")
    # JSON has no infinite number: it would be null, which unsets the limit.
    limit.fill("1e400")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert")).to_contain_text("1e400")
    expect(limit).to_have_value("1e400")
    assert site.api("GET", path)["set"] == {"first_token_limit_s": 2.5}


def test_what_becomes_of_failures_is_set(open_page: Open, new_fleet: Callable[..., str], site: Site) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name=re.compile("^Policy"))
    group = panel.get_by_role("group", name="Failures")
    expect(group.get_by_label("Streams that break off")).to_have_value("off")
    group.get_by_label("Streams that break off").select_option("are continued")
    group.get_by_label("Retry budget").fill("101")
    panel.get_by_label("Not streamed: after").fill("1")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("alert").nth(0)).to_have_text("must be from 1.5 to 1000, not 1")
    expect(panel.get_by_role("alert").nth(1)).to_have_text("must be from 0 to 100 percent, not 101")
    expect(panel.get_by_label("Not streamed: after")).to_be_focused()
    group.get_by_label("Retry budget").fill("30")
    panel.get_by_label("Not streamed: after").fill("2,5")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("status")).to_contain_text("revision 2")
    path = f"/fleets/{name}/policy"
    wanted = {"continuation": "auto", "plain_limit_factor": 2.5, "retries": {"budget_percent": 30.0}}
    assert site.api("GET", path)["set"] == wanted
    assert findings(page) == []
    panel.get_by_role("button", name="roll back to revision 1").click()
    expect(group.get_by_label("Streams that break off")).to_have_value("off")
    assert site.api("GET", path)["set"] == {}


def test_what_is_wrong_with_a_policy_stands_at_each_field(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    panel = page.get_by_role("region", name=re.compile("^Policy"))
    wrong = {
        "kappa": ("50", re.compile("must be between 0 and 20, not 50")),
        "Max concurrency": ("0", "must be from 1 to 1000000, not 0"),
        "Queue size": ("-1", "must be from 0 to 1000000, not -1"),
        "Queue timeout": ("x", 'must be a number, not the text "x"'),
    }
    for label, (value, _) in wrong.items():
        panel.get_by_label(label).fill(value)
    panel.get_by_label("Queue timeout").press("Enter")
    for label, (_, words) in wrong.items():
        field = panel.get_by_label(label)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(
            re.compile(words.pattern if isinstance(words, re.Pattern) else re.escape(words))
        )
    expect(panel.get_by_role("alert")).to_have_count(4)
    expect(panel.get_by_role("status")).to_have_text("Not applied yet")
    expect(panel.get_by_label("kappa")).to_be_focused()
    assert findings(page) == []

    panel.get_by_label("kappa").fill("6")
    expect(panel.get_by_label("kappa")).to_have_attribute("aria-invalid", "false")
    expect(panel.get_by_role("alert")).to_have_count(3)
    panel.get_by_role("button", name="Discard").click()
    expect(panel.get_by_role("alert")).to_have_count(0)
    assert site.api("GET", f"/fleets/{name}/policy")["set"] == {}


def test_drain_says_what_is_left_until_it_is_safe_and_can_be_undone(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring, site: Site, proxy: Proxy
) -> None:
    name = new_fleet()
    measuring.reported["b"] = ReportedLive(words="12 running, 3 waiting", short="12 + 3", age_s=2.0)
    page = open_page(f"/fleets/{name}")
    expect(row(page, "b")).to_contain_text("reports 12 + 3, 2 s")
    expect(row(page, "b").get_by_title("reported 12 running, 3 waiting, 2.0 s ago")).to_be_visible()
    page.get_by_role("button", name="Drain b").click()
    expect(row(page, "b")).to_contain_text("draining")
    expect(note(page, "b")).to_contain_text("3 requests still in flight")
    expect(note(page, "b")).to_contain_text(applied("draining"))
    path = f"/fleets/{name}/replicas/b"
    reaches_all(lambda: site.api("PATCH", path, {"admin_state": "draining"}), 2)
    assert site.api("GET", path)["admin_state"] == "draining"

    measuring.in_flight["b"] = 0
    expect(note(page, "b")).to_contain_text("safe to stop")
    page.get_by_role("button", name="Undo drain of b").click()
    expect(page.get_by_role("button", name="Drain b")).to_be_visible()
    expect(row(page, "b")).to_contain_text("ready")
    assert site.api("GET", path)["admin_state"] == "active"
    expect(page.locator(".timeline")).to_contain_text("activated b")


def test_the_drain_dialog_says_what_would_be_moved_and_then_what_is_left(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring, site: Site
) -> None:
    name = new_fleet()
    plain = StayingLive(reason="plain", requests=2, words="not streamed")
    tools = StayingLive(reason="tools", requests=1, words="with calls of tools")
    seen = MovingLive(
        movable=47, movable_prompt_tokens=12_400, staying=[plain, tools], moved=0, moved_prompt_tokens=0
    )
    measuring.in_flight["b"] = 50
    measuring.moving["b"] = seen
    page = open_page(f"/fleets/{name}")
    opener = page.get_by_role("button", name="Drain b")
    expect(opener).to_have_text("Drain …")
    opener.click()
    form = page.get_by_role("form", name="Drain b")
    measuring.in_flight["b"], measuring.moving["b"] = 2, replace(seen, movable=0, staying=[plain])
    expect(form).to_contain_text("All 2 requests in flight finish there: 2 not streamed.")
    measuring.in_flight["b"], measuring.moving["b"] = 0, replace(seen, movable=0, staying=[])
    expect(form).to_contain_text("Nothing is in flight there now.")
    expect(opener).to_have_text("Drain …")
    measuring.in_flight["b"], measuring.moving["b"] = 50, seen
    expect(form).to_contain_text("47 of 50 requests in flight go on at other replicas")
    expect(form).to_contain_text("they read some 12.4K prompt tokens for that")
    expect(form).to_contain_text("3 finish there: 2 not streamed, 1 with calls of tools.")
    expect(form.get_by_label("The same as a command")).to_contain_text(
        '{"admin_state":"draining","move":true}'
    )
    assert findings(page) == []
    form.get_by_label("Move streams").uncheck()
    expect(form).to_contain_text("All 50 requests in flight finish there. 47 could be moved.")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(opener).to_be_focused()
    assert site.api("GET", f"/fleets/{name}/replicas/b")["admin_state"] == "active"

    opener.click()
    expect(form.get_by_role("button", name="Drain", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(form).to_be_hidden()
    expect(row(page, "b")).to_contain_text("draining")
    replica = site.api("GET", f"/fleets/{name}/replicas/b")
    assert (replica["admin_state"], replica["move"]) == ("draining", True)

    measuring.in_flight["b"] = 5
    measuring.moving["b"] = MovingLive(
        movable=2, movable_prompt_tokens=500, staying=[plain, tools], moved=45, moved_prompt_tokens=11_900
    )
    expect(note(page, "b")).to_contain_text("5 requests still in flight")
    expect(note(page, "b")).to_contain_text(
        "2 waiting for room elsewhere, 2 not streamed, 1 with calls of tools"
    )
    expect(note(page, "b")).to_contain_text("45 moved, for some 11.9K prompt tokens")
    assert findings(page) == []
    page.get_by_role("button", name="Stop moving streams of b").click()
    expect(page.get_by_role("button", name="Move streams of b")).to_have_text("Move 2 streams")
    assert site.api("GET", f"/fleets/{name}/replicas/b")["move"] is False
    page.get_by_role("button", name="Move streams of b").click()
    expect(page.get_by_role("button", name="Stop moving streams of b")).to_be_visible()
    measuring.in_flight["b"] = 0
    expect(note(page, "b")).to_contain_text("safe to stop")
    expect(page.get_by_role("button", name="Stop moving streams of b")).to_have_count(0)
    page.get_by_role("button", name="Activate b").click()
    expect(row(page, "b")).to_contain_text("ready")
    assert site.api("GET", f"/fleets/{name}/replicas/b")["move"] is False


def test_a_replica_drained_elsewhere_can_be_activated(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    expect(row(page, "c")).to_contain_text("ready")
    site.api("PATCH", f"/fleets/{name}/replicas/c", {"admin_state": "maintenance"})
    page.get_by_role("button", name="Activate c").click()
    expect(row(page, "c")).to_contain_text("ready")


def test_what_is_learned_stands_in_each_row_and_how_they_serve_beside(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    try:
        known = LearnedLive(times_usual=1.3, error=1.12, request_s=0.42, requests=61.0, is_known=True)
        rested = LearnedLive(times_usual=1.0, error=1.6, request_s=0.32, requests=0.1, is_known=False)
        measuring.learned = {"a": known, "b": rested}
        page = open_page(f"/fleets/{new_fleet()}")
        cell = "[data-cell='learned']"
        expect(row(page, "a").locator(cell)).to_have_text("1.3 × ± 12 %")
        expect(row(page, "a").locator(cell)).to_have_attribute("title", re.compile("420 ms here, 1.3 times"))
        expect(row(page, "b").locator(cell)).to_have_text("not asked lately")
        expect(row(page, "c").locator(cell)).to_have_text("not learned yet")
        # It reaches under the p50, whose number stands above it.
        p50, learned = row(page, "a").locator("[data-cell='p50']"), row(page, "a").locator(cell)
        figure = p50.evaluate(
            "cell => { const of = document.createRange(); of.selectNode(cell.firstChild);"
            " return of.getBoundingClientRect().bottom; }"
        )
        box = learned.bounding_box()
        assert box is not None
        assert box["y"] >= figure - 2
        serves = page.locator("[data-cell='serves']")
        expect(serves).to_have_text("in slots or batches, as learnednot learned yet")
        measuring.serves = ServesLive(
            kind="batches",
            basis="stated",
            words="batches: each further request slows all",
            how_known="stated by the policy",
            growth=1.3,
            growth_error=1.1,
            batching=1.0,
        )
        expect(serves).to_have_text(measuring.serves.words + measuring.serves.how_known)
    finally:
        measuring.learned, measuring.serves = {}, None


def test_how_good_predictions_are_stands_beside_the_policy(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    try:
        page = open_page(f"/fleets/{new_fleet()}")
        cell = page.locator("[data-cell='predictions']")
        expect(cell).to_have_text("none compared yet")
        completion = PredictedLive(compared=1234, error_percent=12.3, within_percent=81.0)
        measuring.predictions = PredictionsLive(completion=completion, first_token=None)
        expect(cell).to_have_text("completion ± 12 %81 % of 1,234 within their interval; 80 % is right")
        first_token = PredictedLive(compared=50, error_percent=41.0, within_percent=79.6)
        measuring.predictions = PredictionsLive(completion=completion, first_token=first_token)
        expect(cell).to_contain_text("first token ± 41 %80 % of 50 within their interval")
    finally:
        measuring.predictions = None


def test_a_weight_is_edited_in_its_row(
    open_page: Open, new_fleet: Callable[..., str], site: Site, proxy: Proxy
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    page.get_by_role("button", name="Weight of a: 1.0. Change").click()
    field = page.get_by_label("Weight of a", exact=True)
    expect(field).to_be_focused()
    field.fill("2.5")
    field.press("Enter")
    expect(page.get_by_role("button", name="Weight of a: 2.5. Change")).to_be_focused()
    expect(note(page, "a")).to_contain_text(applied("revision 2"))
    path = f"/fleets/{name}/replicas/a"
    reaches_all(lambda: site.api("PATCH", path, {"weight": 2.5}), 2)
    assert site.api("GET", path)["weight"] == 2.5


def test_a_refused_weight_says_why_and_escape_leaves(open_page: Open, new_fleet: Callable[..., str]) -> None:
    page = open_page(f"/fleets/{new_fleet()}")
    page.get_by_role("button", name="Weight of a: 1.0. Change").click()
    field = page.get_by_label("Weight of a", exact=True)
    field.fill("-1")
    field.press("Enter")
    expect(note(page, "a").get_by_role("alert")).to_contain_text("-1")
    field.fill("fast")
    field.press("Enter")
    expect(note(page, "a").get_by_role("alert")).to_contain_text("fast")
    field.press("Escape")
    expect(field).to_be_hidden()
    expect(row(page, "a")).to_contain_text("1.0")


def test_the_strategy_changes_with_its_revision_and_back(
    open_page: Open, new_fleet: Callable[..., str], site: Site, proxy: Proxy
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    policy = page.get_by_role("region", name="Policy")
    apply = policy.get_by_role("button", name="Apply")
    expect(apply).to_be_disabled()
    policy.get_by_label("Strategy").select_option("round_robin")
    expect(policy).to_contain_text("Takes turns")
    expect(policy.get_by_label("The same as a command")).to_contain_text('{"strategy":"round_robin"}')
    apply.click()
    expect(policy.locator(".result")).to_contain_text(applied("revision 2"))
    reaches_all(lambda: site.api("PATCH", f"/fleets/{name}/policy", {"strategy": "round_robin"}), 2)
    expect(policy.get_by_role("heading")).to_have_text("Policy · revision 2")
    assert site.api("GET", f"/fleets/{name}/policy")["policy"]["strategy"] == "round_robin"

    policy.get_by_role("button", name="back to revision 1").click()
    expect(policy.get_by_role("heading")).to_have_text("Policy · revision 3")
    expect(policy.get_by_label("Strategy")).to_have_value("least_expected_work")
    assert site.api("GET", f"/fleets/{name}/policy")["policy"]["strategy"] == "least_expected_work"


def test_parameters_come_from_the_schema_and_errors_from_the_api(
    open_page: Open, new_fleet: Callable[..., str], site: Site
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    policy = page.get_by_role("region", name="Policy")
    kappa = policy.get_by_label("kappa")
    expect(kappa).to_have_value("3")
    kappa.fill("99")
    policy.get_by_role("button", name="Apply").click()
    expect(policy.locator(".problem")).to_contain_text("99")
    kappa.fill("4")
    policy.get_by_role("button", name="Apply").click()
    expect(policy.locator(".result")).to_contain_text("revision 2")
    assert site.api("GET", f"/fleets/{name}/policy")["policy"]["parameters"] == {"kappa": 4.0}


def test_a_change_made_elsewhere_is_not_overwritten(
    open_page: Open, new_fleet: Callable[..., str], site: Site, measuring: Measuring
) -> None:
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    policy = page.get_by_role("region", name="Policy")
    policy.get_by_label("Strategy").select_option("round_robin")
    measuring.pause()
    site.api("PATCH", f"/fleets/{name}/policy", {"strategy": "least_connections"})
    policy.get_by_role("button", name="Apply").click()
    expect(policy.locator(".problem")).to_contain_text("Somebody else changed this meanwhile")
    assert site.api("GET", f"/fleets/{name}/policy")["policy"]["strategy"] == "least_connections"


def test_an_account_without_rights_looks_and_is_told_so(
    open_page: Open, new_fleet: Callable[..., str]
) -> None:
    page = open_page(f"/fleets/{new_fleet()}", user=LOOKER)
    expect(row(page, "a")).to_contain_text("ready")
    expect(page.get_by_role("button", name="Drain a")).to_have_count(0)
    expect(page.get_by_role("region", name="Policy")).to_contain_text("Your role here is read")
    expect(page.get_by_label("Strategy")).to_be_disabled()


@pytest.mark.long
def test_a_long_list_keeps_few_rows_in_the_page(
    open_page: Open, new_fleet: Callable[..., str], measuring: Measuring
) -> None:
    names = tuple(f"node-{number:03d}" for number in range(160))
    name = new_fleet(names)
    page = open_page(f"/fleets/{name}")
    expect(row(page, "node-000")).to_be_visible()
    assert page.locator("tr[data-replica]").count() < 100
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(row(page, "node-159")).to_be_attached()
    assert page.locator("tr[data-replica]").count() < 100
    page.keyboard.press("/")
    page.keyboard.type("node-123")
    expect(page.locator("tr[data-replica]")).to_have_count(1)
