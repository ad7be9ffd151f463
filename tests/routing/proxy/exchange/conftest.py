"""What tests of exchanges share."""

import pytest

from routing.proxy.connect_check import ConnectChecks


@pytest.fixture
def no_connect_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that refuses a connection stays in turn; else it is ejected after one request."""

    def nothing(checks: ConnectChecks, pool: object, replica: object) -> None:
        pass

    monkeypatch.setattr(ConnectChecks, "refused", nothing)
