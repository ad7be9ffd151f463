"""DNS on real sockets: addresses, SRV, CNAME, names without records, errors, truncation, silence."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from controlplane.discovery.kinds import dns_records
from controlplane.discovery.kinds.dns_records import DnsRecords
from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.listing import Listing
from routing.contract.fleet_file.sources.source_structs import DnsSettings
from tests.controlplane.discovery.kinds.dns_responder import DnsResponder, running

NAME = "llm.models.example"


@pytest.fixture
async def responder(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DnsResponder]:
    monkeypatch.setattr(dns_records, "ANSWER_WITHIN_S", 0.2)
    monkeypatch.setattr(dns_records, "LIFETIME_S", 0.5)
    async with running(DnsResponder()) as responder:
        yield responder


def asked(responder: DnsResponder, **settings: Any) -> DnsRecords:
    own = msgspec.to_builtins(DnsSettings(name=NAME, nameservers=[responder.address]))
    own |= settings
    return DnsRecords(own, {"site": "east"})


def urls(listing: Listing) -> dict[str, str]:
    return {name: entry.url for name, entry in listing.entries.items()}


async def test_addresses_of_both_families(responder: DnsResponder) -> None:
    responder.records[NAME] = {"A": ["10.0.0.2", "10.0.0.1"], "AAAA": ["2001:db8::7"]}
    found = await asked(responder, port=8000, path_prefix="/v1", scheme="https").read({})
    assert urls(found) == {
        "10.0.0.1": "https://10.0.0.1:8000/v1",
        "10.0.0.2": "https://10.0.0.2:8000/v1",
        "2001-0db8-0000-0000-0000-0000-0000-0007": "https://[2001:db8::7]:8000/v1",
    }
    assert (found.complete, found.note, found.entries["10.0.0.1"].site) == (True, "", "east")
    assert urls(await asked(responder).read({}))["10.0.0.1"] == "http://10.0.0.1:80"


async def test_targets_of_srv(responder: DnsResponder) -> None:
    long = f"{'x' * 60}.models.example."
    responder.records[NAME] = {"SRV": ["10 5 8000 GPU-1.models.example.", f"0 0 9000 {long}"]}
    found = urls(await asked(responder, type="srv").read({}))
    assert found.pop("gpu-1.models.example-8000") == "http://gpu-1.models.example:8000"
    [(name, url)] = found.items()
    assert (name[:4], len(name), url) == ("srv-", 20, f"http://{long.rstrip('.')}:9000")
    responder.records[NAME] = {"SRV": ["0 0 0 ."]}
    assert not (await asked(responder, type="srv").read({})).entries


async def test_a_name_that_is_another_name(responder: DnsResponder) -> None:
    responder.records = {
        NAME: {"CNAME": ["pool.models.example."]},
        "pool.models.example": {"A": ["10.0.0.1"]},
    }
    assert set((await asked(responder).read({})).entries) == {"10.0.0.1"}


async def test_no_name_and_no_records_are_told_apart(responder: DnsResponder) -> None:
    assert await asked(responder).read({}) == Listing({}, note=f"there is no name {NAME} in DNS")
    responder.records[NAME] = {}
    found = await asked(responder).read({})
    assert found == Listing({}, note=f"DNS has no A and AAAA records of {NAME}")


async def test_a_truncated_answer_is_asked_again_over_tcp(responder: DnsResponder) -> None:
    responder.records[NAME] = {"A": [f"10.0.{n // 200}.{n % 200}" for n in range(600)]}
    assert len((await asked(responder).read({})).entries) == 600
    assert "TCP A" in responder.asked
    responder.tcp = False
    with pytest.raises(SourceError, match=f"DNS .* for A+ of {NAME}"):
        await asked(responder).read({})


@pytest.mark.parametrize("fault", ["SERVFAIL", "REFUSED", "silent"])
async def test_an_error_for_one_family_is_no_list(responder: DnsResponder, fault: str) -> None:
    responder.records[NAME] = {"A": ["10.0.0.1"], "AAAA": ["2001:db8::7"]}
    responder.faults["AAAA"] = fault
    words = "DNS did not answer for AAAA" if fault == "silent" else f"DNS failed for AAAA of .*{fault}"
    with pytest.raises(SourceError, match=words):
        await asked(responder).read({})


async def test_the_next_server_is_asked_after_an_error(responder: DnsResponder) -> None:
    responder.records[NAME] = {"A": ["10.0.0.1"]}
    async with running(DnsResponder(faults={"A": "SERVFAIL", "AAAA": "silent"})) as broken:
        found = await asked(responder, nameservers=[broken.address, responder.address]).read({})
    assert set(found.entries) == {"10.0.0.1"}


async def test_nobody_listens(responder: DnsResponder) -> None:
    async with running(DnsResponder()) as gone:
        pass
    with pytest.raises(SourceError, match="DNS "):
        await asked(responder, nameservers=[gone.address]).read({})


async def test_a_thousand_addresses_without_a_lifetime_are_asked_for_anew_each_time(
    responder: DnsResponder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dns_records, "ANSWER_WITHIN_S", 5.0)  # the responder, in this process, is slow
    monkeypatch.setattr(dns_records, "LIFETIME_S", 10.0)
    every = [f"10.1.{number // 250}.{number % 250 + 1}" for number in range(1000)]
    responder.records[NAME], responder.ttl_s = {"A": every}, 0
    kind = asked(responder, port=8000)
    assert len((await kind.read({})).entries) == 1000
    assert {"UDP A", "TCP A"} <= set(responder.asked)
    responder.records[NAME] = {"A": every[:400]}
    assert len((await kind.read({})).entries) == 400


@pytest.mark.parametrize("fault", ["garbage", "loop", "NOTIMP", "YXDOMAIN"])
async def test_what_makes_no_sense_is_no_list(responder: DnsResponder, fault: str) -> None:
    responder.records[NAME] = {"A": ["10.0.0.1"]}
    responder.faults["A"] = fault
    with pytest.raises(SourceError, match=f"DNS (failed|did not answer) for A of {NAME}"):
        await asked(responder).read({})
