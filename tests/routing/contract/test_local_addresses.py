"""Which addresses are this host's own, as the kernel says."""

import pytest

from routing.contract.local_addresses import is_local


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("192.0.2.1", False), ("2001:db8::1", False)],
)
def test_the_kernel_is_asked(address: str, expected: bool) -> None:
    assert is_local(address) is expected
