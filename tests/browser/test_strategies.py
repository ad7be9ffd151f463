"""Every strategy can be chosen on the fleet's page, with its parameters, while real workers route from it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from routing.balancing import strategies
from routing.balancing.strategies import ParameterDescription
from routing.contract.policy import StrategyParameter
from tests.browser.reach import reaches_all
from tests.browser.site import Site
from tests.proxy_process import Proxy

pytestmark = pytest.mark.browser


def _changed(field: Locator, parameter: ParameterDescription) -> StrategyParameter:
    """The field shows the default and takes another value, which is returned."""
    if parameter.type == "boolean":
        expect(field).to_be_checked(checked=bool(parameter.default))
        field.set_checked(not parameter.default)
        return not parameter.default
    if parameter.type == "string":
        expect(field).to_have_value(str(parameter.default))
        field.fill("x-other")
        return "x-other"
    expect(field).to_have_value(f"{parameter.default:g}")
    assert parameter.minimum is not None
    assert parameter.maximum is not None
    value = int(min(max(5, parameter.minimum), parameter.maximum))
    field.fill(str(value))
    return value


@pytest.mark.long
def test_each_is_applied_by_page_and_taken_by_all_workers(
    open_page: Callable[..., Page], new_fleet: Callable[..., str], site: Site, proxy: Proxy
) -> None:
    """The default comes last, so that each choice is a change."""
    name = new_fleet()
    page = open_page(f"/fleets/{name}")
    policy = page.get_by_role("region", name="Policy")
    others = [one for one in strategies.names() if one != "least_expected_work"]
    for revision, strategy in enumerate([*others, "least_expected_work"], 2):
        policy.get_by_label("Strategy").select_option(strategy)
        about = strategies.describe(strategy)
        expect(policy.locator("#strategy-help")).to_have_text(about.sentence)
        chosen = {}
        for parameter in about.parameters:
            field = policy.get_by_label(parameter.name.replace("_", " "))
            chosen[parameter.name] = _changed(field, parameter)
        policy.get_by_role("button", name="Apply").click()
        expect(policy.locator(".result")).to_contain_text(f"revision {revision}")
        stored = site.api("GET", f"/fleets/{name}/policy")["policy"]
        assert (stored["strategy"], stored["parameters"]) == (strategy, chosen)
        change = {"strategy": strategy, "parameters": chosen}
        reaches_all(lambda change=change: site.api("PATCH", f"/fleets/{name}/policy", change), 2)
