"""Unknown client keys are limited by address and in all; valid ones from the same address go on."""

import pytest

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.contract.trusted_proxies import TrustedProxies
from routing.proxy.auth import key_guesses
from routing.proxy.auth.key_guesses import ADDRESS_INTERVAL_S, IN_ALL, PER_ADDRESS, KeyGuesses
from tests.routing.proxy.rig import Replica, Rig

KEY = new_key().encode()
SALT = new_salt()


def test_an_address_is_told_so_often_and_then_once_an_interval() -> None:
    guesses = KeyGuesses()
    assert [guesses.wait_s("192.0.2.1", 100.0) for _ in range(PER_ADDRESS)] == [0.0] * PER_ADDRESS
    assert guesses.wait_s("192.0.2.1", 100.0) == pytest.approx(ADDRESS_INTERVAL_S)
    # Those refused count for nothing.
    assert guesses.wait_s("192.0.2.1", 100.6) == pytest.approx(ADDRESS_INTERVAL_S - 0.6)
    assert guesses.wait_s("192.0.2.2", 100.6) == 0.0
    assert guesses.wait_s("192.0.2.1", 101.0) == 0.0
    assert guesses.wait_s("192.0.2.1", 101.0) > 0.0


def test_many_addresses_are_limited_in_all() -> None:
    guesses = KeyGuesses()
    waits = [guesses.wait_s(f"10.0.{each // 250}.{each % 250}", 5.0) for each in range(IN_ALL + 1)]
    assert waits[:IN_ALL] == [0.0] * IN_ALL
    assert waits[IN_ALL] > 0.0


def test_a_network_of_ipv6_is_one_address() -> None:
    guesses = KeyGuesses()
    waits = [guesses.wait_s(f"2001:db8::{each:x}", 5.0) for each in range(PER_ADDRESS + 1)]
    assert waits[-1] > 0.0


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_guesses, "MOST_ADDRESSES", 10)
    monkeypatch.setattr(key_guesses, "IN_ALL", 10_000)
    guesses = KeyGuesses()
    for each in range(200):
        guesses.wait_s(f"192.0.2.{each}", 5.0)
    assert len(guesses._whole_at) <= 10


def ask(key: bytes, *fields: bytes) -> bytes:
    return b"\r\n".join([b"GET / HTTP/1.1", b"Host: a.test", b"x-api-key: " + key, *fields]) + b"\r\n\r\n"


async def test_a_guesser_gets_429_and_is_disconnected_and_a_valid_key_goes_on(
    rig: Rig, replica: Replica
) -> None:
    rig.keys(SALT, {key_hash(salt_bytes(SALT), KEY): [ALL_FLEETS]})
    neighbour, guesser = await rig.client(), await rig.client()
    told = [(await guesser.ask(ask(new_key().encode()))).status for _ in range(PER_ADDRESS)]
    assert told == [401] * PER_ADDRESS
    refused = await guesser.ask(ask(new_key().encode()))
    assert refused.status == 429
    assert refused.get(b"retry-after") == [b"1"]
    assert b"too_many_unknown_keys" in refused.body
    assert refused.get(b"connection") == [b"close"]
    assert await guesser.ends() == b""
    # Neither those who know a key are held up nor those who have just forgotten to send one.
    assert (await neighbour.ask(ask(KEY))).status == 200
    assert (await (await rig.client()).ask(b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")).status == 401
    assert len(replica.requests) == 1


async def test_behind_a_trusted_proxy_it_is_the_client_who_is_limited(rig: Rig, replica: Replica) -> None:
    rig.keys(SALT, {key_hash(salt_bytes(SALT), KEY): [ALL_FLEETS]})
    rig.proxy.stand_behind(TrustedProxies(["127.0.0.0/8"]), False)
    client = await rig.client()
    for each in range(PER_ADDRESS + 5):
        wrong = ask(new_key().encode(), b"X-Forwarded-For: 198.51.100.%d" % each)
        assert (await client.ask(wrong)).status == 401
    for each in range(PER_ADDRESS):
        wrong = ask(new_key().encode(), b"X-Forwarded-For: 6.6.6.%d, 203.0.113.9" % each)
        assert (await client.ask(wrong)).status == 401
    assert (await client.ask(ask(new_key().encode(), b"X-Forwarded-For: 203.0.113.9"))).status == 429
