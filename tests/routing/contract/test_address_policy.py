"""Which addresses a replica may have: all forms of those of clouds, own ports, lists of the settings."""

import pytest

from routing.contract.address_policy import AddressPolicy, DeniedAddress
from routing.contract.address_rules import AddressRules, OwnPort, own_service

POLICY = AddressPolicy()
UNLESS = "no replica can be there unless SWITCHYARD_ALLOWED_ADDRESSES names it"
ADMIN = OwnPort(8081, "the proxy's admin listener", "127.0.0.1")


def local(address: str) -> bool:
    return address in ("10.0.0.7", "fd00::7")


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",  # AWS, Azure, Google, OpenStack, Oracle
        "169.254.170.2",  # AWS ECS
        "169.254.170.23",  # AWS EKS
        "169.254.0.1",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",  # Google
        "100.100.100.200",  # Alibaba
        "192.0.0.192",  # Oracle
        "168.63.129.16",  # Azure
        "fe80::1",
        "fe80::1%eth0",
        "0.0.0.0",
        "0.1.2.3",
        "::",
        "255.255.255.255",
        "224.0.0.1",
        "ff02::1",
        "ff02::1%1",
    ],
)
def test_clouds_services_and_addresses_of_no_host_are_denied(address: str) -> None:
    words = POLICY.why_denied(address, 80)
    assert words is not None
    assert words.startswith(f"{address} is ")
    assert words.endswith(UNLESS)


@pytest.mark.parametrize(
    "address",
    [
        "::ffff:169.254.169.254",  # IPv4-mapped
        "::ffff:a9fe:a9fe",
        "::169.254.169.254",  # IPv4-compatible
        "::ffff:0:a9fe:a9fe",  # translated
        "64:ff9b::a9fe:a9fe",  # NAT64
        "64:ff9b:1::a9fe:a9fe",  # NAT64 of one network, a prefix of 96 bits
        "64:ff9b:1:2:0:3:a9fe:a9fe",
        "64:ff9b:1:a9fe:a9:fe00::",  # of 48 bits
        "64:ff9b:1:a9fe:a9:fe00:0:1",
        "64:ff9b:1:2a9:fe:a9fe::",  # of 56
        "64:ff9b:1:2:a9:fea9:fe00:0",  # of 64
        "2002:a9fe:a9fe::1",  # 6to4
        "2001:0:a9fe:a9fe::1",  # Teredo's server
        "2001:0:808:808:0:0:5601:5601",  # its client
    ],
)
def test_an_ipv6_address_is_judged_by_the_ipv4_address_in_it(address: str) -> None:
    words = POLICY.why_denied(address, 80)
    assert words is not None
    assert f"{address}, which leads to 169.254.169.254, is link-local" in words


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.0.1",
        "8.8.8.8",
        "fd00::1",
        "2001:db8::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "64:ff9b:1:a00:0:100::",
        "2002:a00:1::1",
        "2001:0:808:808:0:0:f5ff:fffe",
    ],
)
def test_loopback_private_and_public_addresses_are_allowed(address: str) -> None:
    assert POLICY.why_denied(address, 80) is None
    POLICY.refuse(address, 80)


@pytest.mark.parametrize(
    "name",
    ["metadata", "metadata.google.internal", "metadata.google.internal.", "metadata.goog", "instance-data"],
)
def test_names_of_clouds_services_are_denied_before_they_are_looked_up(name: str) -> None:
    words = f"{name} is a name of a cloud's instance metadata service: {UNLESS}"
    assert POLICY.why_host_denied(name, 80) == words
    with pytest.raises(DeniedAddress, match="instance metadata"):
        POLICY.refuse_host(name, 80)
    assert POLICY.why_host_denied(f"my-{name}", 80) is None
    assert AddressPolicy(AddressRules(allowed=("metadata",))).why_host_denied("metadata", 80) is None


def test_the_most_specific_network_decides() -> None:
    rules = AddressRules(
        allowed=("169.254.0.0/16", "10.1.0.0/16", "10.3.0.0/16", "::/0"),
        denied=("10.0.0.0/8", "10.1.2.0/24", "10.3.0.0/16", "db.internal"),
    )
    policy = AddressPolicy(rules)

    def allowed(address: str) -> bool:
        return policy.why_denied(address, 80) is None

    assert allowed("169.254.7.7")
    assert not allowed("169.254.169.254"), "which an exception has to name"
    assert not allowed("10.0.0.1")
    assert allowed("10.1.9.9")
    assert not allowed("10.1.2.3")
    assert not allowed("10.3.0.1"), "of equal ones the denial decides"
    assert not allowed("::ffff:10.0.0.1")
    assert not allowed("fe80::1"), "more specific than ::/0"
    words = f"10.0.0.1 is denied by SWITCHYARD_DENIED_ADDRESSES=10.0.0.0/8: {UNLESS}"
    assert policy.why_denied("10.0.0.1", 80) == words
    assert policy.why_host_denied("db.internal", 80) is not None


def test_an_exception_opens_what_it_names() -> None:
    rules = AddressRules(allowed=("169.254.169.254/32", "fd00:ec2::254/128"))
    policy = AddressPolicy(rules)
    for address in ("169.254.169.254", "::ffff:169.254.169.254", "fd00:ec2::254"):
        assert policy.why_denied(address, 80) is None
    assert policy.why_denied("169.254.170.2", 80) is not None


def test_all_but_a_list_can_be_denied() -> None:
    policy = AddressPolicy(AddressRules(allowed=("10.2.0.0/16",), denied=("0.0.0.0/0", "::/0")))
    assert policy.why_denied("10.2.0.1", 80) is None
    for address in ("10.3.0.1", "127.0.0.1", "8.8.8.8", "::1", "2001:db8::1", "64:ff9b::a02:1"):
        assert policy.why_denied(address, 80) is not None


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1.2.3",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "0.0.0.0",
        "localhost",
        "a.localhost",
    ],
)
def test_own_ports_are_denied_whatever_is_allowed(host: str) -> None:
    policy = AddressPolicy(AddressRules(allowed=("0.0.0.0/0", "::/0", "0.0.0.0/32"), own=(ADMIN,)), local)
    words = policy.why_host_denied(host, 8081)
    assert words is not None
    assert words.endswith(":8081 is the proxy's admin listener: no replica can be there")
    assert policy.why_host_denied(host, 8082) is None


def test_what_listens_on_loopback_is_at_no_other_address() -> None:
    assert AddressPolicy(AddressRules(own=(ADMIN,)), local).why_denied("10.0.0.7", 8081) is None


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_what_listens_on_all_addresses_of_this_host_is_at_each_of_them(host: str) -> None:
    policy = AddressPolicy(AddressRules(own=(OwnPort(8080, "the proxy", host),)), local)
    for address in ("127.0.0.1", "::1", "10.0.0.7", "fd00::7", "::ffff:10.0.0.7"):
        assert policy.why_denied(address, 8080) is not None
    assert policy.why_denied("10.0.0.8", 8080) is None
    assert policy.why_denied("10.0.0.7", 8000) is None


def test_a_host_that_is_given_by_name_is_denied_by_that_name() -> None:
    policy = AddressPolicy(AddressRules(own=(OwnPort(8000, "the dashboard", "web"),)), local)
    assert policy.why_host_denied("web.", 8000) == "web.:8000 is the dashboard: no replica can be there"
    assert policy.why_host_denied("web", 8001) is None
    assert policy.why_denied("10.0.0.6", 8000) is None


def test_redis_by_address_by_name_and_by_socket() -> None:
    def policy(url: str) -> AddressPolicy:
        return AddressPolicy(AddressRules(own=own_service(url, 6379, "Redis", any_host=True)), local)

    by_address = policy("redis://:password@10.0.0.5/0")
    assert by_address.why_denied("10.0.0.5", 6379) == "10.0.0.5:6379 is Redis: no replica can be there"
    assert by_address.why_denied("10.0.0.6", 6379) is None
    by_name = policy("rediss://Cache.internal.:7000/0")
    assert by_name.why_host_denied("cache.internal.", 7000) is not None
    assert by_name.why_denied("10.0.0.6", 7000) is not None, "it may be an address of that name"
    assert by_name.why_denied("10.0.0.6", 7001) is None
    here = policy("redis://localhost:6379/0")
    assert here.why_denied("127.0.0.1", 6379) is not None
    assert here.why_denied("10.0.0.6", 6379) is None
    assert policy("unix:///run/redis.sock?db=0").why_denied("127.0.0.1", 6379) is None


def test_of_the_addresses_of_a_name_those_that_are_denied_are_left_out() -> None:
    addresses = ("169.254.169.254", "10.0.0.1", "::1")
    assert POLICY.permitted("a.test", addresses, 80) == ("10.0.0.1", "::1")
    words = "^a.test resolves to a forbidden address: 169.254.169.254 is link-local"
    with pytest.raises(DeniedAddress, match=words):
        POLICY.permitted("a.test", ("169.254.169.254", "fe80::1%eth0"), 80)
