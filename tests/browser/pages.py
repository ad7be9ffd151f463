"""Every page there is, read from ``dashboard/urls.py``: a new one is looked at without being listed."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from django.urls import URLPattern
from playwright.sync_api import Page

from dashboard.urls import urlpatterns

NOT_PAGES = {"logout"}
"""Addresses that show nothing of their own."""
FOR_STRANGERS = {"login"}
PROBLEM = "/there-is-no-such-page"
FLEET_PARAMETERS = {"name", "fleet"}
MOST_USED = {"overview", "fleet"}


class Address(NamedTuple):
    name: str
    route: str
    """With its parameters, as in ``/fleets/<str:name>``."""

    @property
    def stranger(self) -> bool:
        """It is shown to somebody who is not signed in."""
        return self.name in FOR_STRANGERS

    def path(self, parameters: Mapping[str, str]) -> str:
        """Filled in. A parameter that ``parameters`` lacks is a failure that says so."""

        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            assert name in parameters, (
                f"{self.route}: tests/browser/pages.py does not know what <{name}> may be: tell it"
            )
            return parameters[name]

        return re.sub(r"<(?:\w+:)?(\w+)>", value, self.route)


def addresses() -> list[Address]:
    """The pages of ``dashboard/urls.py``, and the one that says that there is none."""
    found = [
        Address(str(pattern.name), f"/{pattern.pattern}")
        for pattern in urlpatterns
        if isinstance(pattern, URLPattern) and pattern.name not in NOT_PAGES
    ]
    return [*found, Address("problem", PROBLEM)]


def each(found: list[Address]) -> pytest.MarkDecorator:
    """A test of each: ``make test`` looks at the pages that are used most, ``make test-long`` at the rest."""
    values: list[Any] = [
        pytest.param(address, marks=() if address.name in MOST_USED else pytest.mark.long, id=address.name)
        for address in found
    ]
    return pytest.mark.parametrize("address", values)


def parameters(fleet: str, replica: str) -> dict[str, str]:
    """Values for the addresses' parameters."""
    return {"replica": replica, "number": "1", **dict.fromkeys(FLEET_PARAMETERS, fleet)}


def wait_until_drawn(page: Page) -> None:
    """Nothing on it is still a placeholder, and its own words are there."""
    page.wait_for_function(
        """() => document.readyState === "complete" && !document.querySelector(".skeleton")
          && document.querySelector("main")?.innerText.trim().length > 0"""
    )
