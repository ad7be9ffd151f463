"""``expose`` of fleets: by API, by fleet file, in tables; and of fleets that are older than it."""

from collections.abc import Callable
from typing import Any

import pytest

from controlplane.models import AuditEntry, Fleet
from controlplane.services import fleet_files
from controlplane.telemetry import db_snapshot
from routing.contract import fleet_file, redis_keys
from routing.contract.table import decode_snapshot
from tests.controlplane.conftest import Api

FILE = """
version: 1
fleets:
  - name: x
    protocol: openai
    {expose}
    replicas: [{{name: a, url: "http://10.0.0.1:1"}}]
"""


def apply(expose: str) -> list[str]:
    return fleet_files.apply(fleet_file.loads(FILE.format(expose=expose)), "anna", confirm_all=True)


def test_new_fleets_begin_with_inference(api: Api, redis_client: Any) -> None:
    def published() -> object:
        return decode_snapshot(redis_client.hget(redis_keys.fleet_key("x"), "body")).expose

    assert api.post("/fleets", {"name": "x", "protocol": "openai"}).json()["expose"] == "inference"
    assert published() == "inference"
    assert api.patch("/fleets/x", {"expose": ["/v1/", "/a/b"]}).json()["expose"] == ["/v1", "/a/b"]
    assert published() == ["/v1", "/a/b"]
    assert api.patch("/fleets/x", {"expose": "all"}).json()["expose"] == "all"
    assert published() == "all"
    assert api.patch("/fleets/x", {"expose": None}).json()["expose"] == "inference"
    changes = AuditEntry.objects.filter(verb="fleets.update").order_by("pk").values_list("after", flat=True)
    assert [after["expose"] for after in changes] == [["/v1", "/a/b"], "all", "inference"]
    for name, expose in (("y", "all"), ("z", ["/v1"]), ("w", None)):
        body = api.post("/fleets", {"name": name, "protocol": "generic", "expose": expose}).json()
        assert body["expose"] == expose or (expose, body["expose"]) == (None, "inference")


@pytest.mark.parametrize(
    ("expose", "pointer", "words"),
    [
        (
            "al",
            "/expose",
            'must be inference, all or a list of paths, not the text "al"; did you mean "all"?',
        ),
        ("/v1", "/expose", "put it into a list"),
        ({}, "/expose", "must be inference, all or a list of paths"),
        (True, "/expose", "must be inference, all or a list of paths"),
        ([], "/expose", "must list 1 to 100 paths"),
        (["/x"] * 101, "/expose", "must list 1 to 100 paths"),
        (["/v1", "a"], "/expose/1", '"a" does not begin with a slash: write /a'),
        (["/"], "/expose/0", "write expose: all"),
        (["/a/../b"], "/expose/0", "write the path it leads to"),
        (["/a//b"], "/expose/0", "remove the empty part"),
        (["/a?b"], "/expose/0", "has no query"),
        (["/a/*"], "/expose/0", "includes everything below it"),
        (["/a%2fb"], "/expose/0", "compared decoded"),
        ([1], "/expose/0", "must be a path"),
    ],
)
def test_what_is_refused(api: Api, expose: object, pointer: str, words: str) -> None:
    answer = api.post("/fleets", {"name": "x", "protocol": "openai", "expose": expose})
    assert answer.status_code == 400
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert words in error["detail"]
    assert not Fleet.objects.exists()


def test_a_fleet_from_before_stays_as_it_is_until_it_is_set(
    api: Api, make_fleet: Callable[..., str], redis_client: Any
) -> None:
    make_fleet("x")
    Fleet.objects.update(expose=None)
    read = api.get("/fleets/x").json()
    assert read["expose"] is None
    assert not db_snapshot.read().fleets[0].has_expose
    body = api.patch("/fleets/x", {"expose": read["expose"], "aliases": ["y"]}).json()
    assert body["expose"] is None, "what was read and is sent back changes nothing"
    assert decode_snapshot(redis_client.hget(redis_keys.fleet_key("x"), "body")).expose is None
    assert api.patch("/fleets/x", {"expose": "inference"}).json()["expose"] == "inference"
    assert db_snapshot.read().fleets[0].has_expose


def test_a_file_that_does_not_say_leaves_it(fresh_stores: None) -> None:
    def stored() -> object:
        return Fleet.objects.get(name="x").expose

    apply("")
    assert stored() == "inference"
    assert apply("") == []
    assert apply("expose: [/v1, /metrics]") == ["fleet x: expose: inference → /v1, /metrics"]
    assert apply("") == []
    assert stored() == ["/v1", "/metrics"]
    Fleet.objects.update(expose=None)
    assert apply("") == []
    assert stored() is None
    assert len(apply("expose: all")) == 1
    assert stored() == "all"


@pytest.mark.parametrize(
    ("stored", "dumped"), [(None, "all"), ("all", "all"), ("inference", "inference"), (["/v1"], ["/v1"])]
)
def test_a_dump_opens_as_much_elsewhere(fresh_stores: None, stored: Any, dumped: Any) -> None:
    apply("")
    Fleet.objects.update(expose=stored)
    file = fleet_files.read()
    assert file.fleets[0].expose == dumped
    Fleet.objects.all().delete()
    fleet_files.apply(file, "anna", confirm_all=True)
    assert Fleet.objects.get(name="x").expose == dumped
