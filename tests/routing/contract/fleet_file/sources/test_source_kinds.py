"""What each kind's settings mean: hosts that may register themselves, addresses of DNS servers."""

import pytest

from routing.contract.fleet_file.sources.dns_records import port_of, split_server
from routing.contract.fleet_file.sources.lease import is_allowed


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("10.1.2.3", True),
        ("11.1.2.3", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("gpu-7", True),
        ("gpu-71", False),
        ("a.models.example", True),
        ("models.example", False),
        ("amodels.example", False),
        ("10.1.2.3.evil.example", False),
    ],
)
def test_hosts_that_may_register_themselves(host: str, allowed: bool) -> None:
    assert is_allowed(host, ["10.0.0.0/8", "2001:db8::/32", "gpu-7", "*.models.example"]) is allowed


def test_addresses_of_dns_servers() -> None:
    assert split_server("10.0.0.2") == ("10.0.0.2", 53)
    assert split_server("10.0.0.2:5353") == ("10.0.0.2", 5353)
    assert split_server("2001:db8::1") == ("2001:db8::1", 53)
    assert split_server("[2001:db8::1]:5353") == ("2001:db8::1", 5353)
    for wrong in ("ns.example", "10.0.0.2:0", "10.0.0.2:x", "[::1"):
        with pytest.raises(ValueError, match=r"."):
            split_server(wrong)


def test_the_port_is_that_of_the_scheme_unless_it_is_set() -> None:
    assert port_of({"port": None, "scheme": "https"}) == 443
    assert port_of({"port": 8000, "scheme": "http"}) == 8000
