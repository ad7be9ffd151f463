"""Where fleets come to share a host that one of them exposes, it is confirmed: also one taken in advance."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.access import viewer
from controlplane.access.grants import Access, Grant
from controlplane.models import AuditEntry, Fleet, Replica
from controlplane.services import fleet_files, fleets, replicas, shared_hosts
from controlplane.services.confirmation import NeedsConfirmation
from controlplane.services.shared_hosts import HostChanges
from routing.contract import addresses, fleet_file
from tests.controlplane.access.teams import LABELS, new
from tests.controlplane.conftest import Api

TAKEN = "http://10.0.0.9:8000"
Make = Callable[..., str]


@pytest.fixture
def taken(sam: Api) -> None:
    """Sam's fleet exposes everything at an address where nobody is yet."""
    assert sam.post("/fleets?trial=no", new(TAKEN, expose="all")).status_code == 201


def asked(answer: Any) -> str:
    """The token of a write that is to be confirmed, for the host that is taken."""
    assert answer.status_code == 409, answer.content
    words = answer.json()["detail"]
    assert words.startswith("Clients of a fleet reach another fleet's server from now on: 10.0.0.9:8000 is ")
    assert "Set expose: inference, or use other hosts or ports. To do it all the same, repeat" in words
    return answer.json()["confirm"]


WRITES: list[tuple[Callable[[Api, str], Any], str]] = [
    (
        lambda api, query: api.post(f"/fleets/auction/replicas?trial=no{query}", {"name": "b", "url": TAKEN}),
        "auction",
    ),
    (
        lambda api, query: api.patch(
            f"/fleets/auction/replicas/secret-name?trial=no{query}", {"url": f"{TAKEN}/v1"}
        ),
        "auction",
    ),
    (
        lambda api, query: api.post(
            f"/fleets?trial=no{query}",
            {
                "name": "late",
                "protocol": "openai",
                "replicas": [{"name": "a", "url": "http://[::ffff:10.0.0.9]:8000"}],
            },
        ),
        "late",
    ),
]


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize(("write", "fleet"), WRITES)
def test_an_address_that_was_taken_before_is_confirmed(
    api: Api, write: Callable[[Api, str], Any], fleet: str
) -> None:
    before = AuditEntry.objects.count()
    refused = write(api, "")
    token = asked(refused)
    assert f"is shared by {fleet} (exposes inference), mine (exposes all)." in refused.json()["detail"]
    assert AuditEntry.objects.count() == before
    assert Replica.objects.count() == 3
    assert asked(write(api, "&confirm=0123456789abcdef")) != token
    assert write(api, f"&confirm={token}").status_code in (200, 201)


@pytest.mark.usefixtures("taken")
def test_a_token_is_for_one_crossing_only(api: Api, make_fleet: Make) -> None:
    make_fleet("third")
    one = {"name": "b", "url": TAKEN}
    token = asked(api.post("/fleets/auction/replicas?trial=no", one))
    asked(api.post(f"/fleets/third/replicas?trial=no&confirm={token}", one))
    # Once it exposes something else, it is another too.
    fleets.update("mine", {"expose": ["/v1", "/shutdown"]}, "tests")
    again = api.post(f"/fleets/auction/replicas?trial=no&confirm={token}", one)
    asked(again)
    assert "mine (exposes /v1, /shutdown)" in again.json()["detail"]


@pytest.mark.usefixtures("taken")
def test_what_was_shared_before_is_not_asked_about_again(api: Api, sam: Api, make_fleet: Make) -> None:
    one = {"name": "b", "url": TAKEN}
    token = asked(api.post("/fleets/auction/replicas?trial=no", one))
    assert api.post(f"/fleets/auction/replicas?trial=no&confirm={token}", one).status_code == 201
    more: list[tuple[str, dict[str, Any]]] = [
        ("/fleets/auction/replicas/b", {"url": f"{TAKEN}/v1"}),
        ("/fleets/auction/replicas/b", {"weight": 2.0}),
        ("/fleets/auction", {"aliases": ["bids"]}),
        ("/fleets/mine", {"expose": ["/v1"]}),
        ("/fleets/mine", {"expose": ["/v1/chat", "/v1"]}),
    ]
    for path, body in more:
        assert api.patch(f"{path}?trial=no", body).status_code == 200, path
    assert api.post("/fleets/auction/replicas?trial=no", {"name": "c", "url": TAKEN}).status_code == 201
    # Another fleet there is another crossing, and so is more that is exposed.
    make_fleet("third")
    asked(api.post("/fleets/third/replicas?trial=no", one))
    for more_paths in (["/v1", "/v2"], ["/v10"]):
        asked(api.patch("/fleets/mine", {"expose": more_paths}))
    asked(api.patch("/fleets/mine", {"expose": "all"}))


def test_more_is_exposed_at_a_shared_host(api: Api, make_fleet: Make) -> None:
    for name in ("x", "y"):
        make_fleet(name, replicas=[{"name": "a", "url": TAKEN}])
    token = asked(api.patch("/fleets/x", {"expose": ["/v1"]}))
    assert Fleet.objects.get(name="x").expose == "inference"
    asked(api.patch(f"/fleets/y?confirm={token}", {"expose": ["/v1"]}))
    assert api.patch(f"/fleets/x?confirm={token}", {"expose": ["/v1"]}).status_code == 200
    assert api.patch("/fleets/x", {"expose": "inference"}).status_code == 200


def test_a_fleet_without_expose_exposes_everything(make_fleet: Make) -> None:
    make_fleet("x", replicas=[{"name": "a", "url": TAKEN}])
    Fleet.objects.filter(name="x").update(expose=None)
    with pytest.raises(
        NeedsConfirmation, match=r"x \(exposes everything, as it has no expose\), y \(exposes"
    ):
        make_fleet("y", replicas=[{"name": "a", "url": TAKEN}])
    # It exposes no more than before, so to say it is no question.
    replicas.register("x", {"name": "b", "url": "http://10.0.0.9:8001"}, "tests")
    fleets.update("x", {"expose": "all"}, "tests")


def test_with_inference_alone_or_another_port_nothing_is_asked(make_fleet: Make) -> None:
    for name, url in (("x", TAKEN), ("y", TAKEN), ("z", "http://10.0.0.9:8001")):
        make_fleet(name, expose="all" if name == "z" else "inference", replicas=[{"name": "a", "url": url}])


def test_fleets_of_others_are_not_named(make_fleet: Make) -> None:
    for name, labels in (("ours", LABELS), ("theirs", {}), ("also-theirs", {})):
        make_fleet(name, labels=labels, replicas=[{"name": "a", "url": TAKEN}])
    searcher = Access((Grant.parse("administer:team=search"),))
    with viewer.viewer_scope(searcher), pytest.raises(NeedsConfirmation) as refused:
        fleets.update("ours", {"expose": "all"}, "tests")
    assert "shared by ours (exposes all), a fleet that you may not see. Set" in refused.value.detail


# --- A fleet file ---

FILE = """
version: 1
fleets:
  - name: late
    protocol: openai
    replicas: [{name: a, url: "http://10.0.0.9:8000"}]
"""


@pytest.fixture
def apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def apply(*flags: str) -> str:
        (tmp_path / "fleets.yaml").write_text(FILE)
        capsys.readouterr()
        call_command("apply", str(tmp_path / "fleets.yaml"), *flags)
        return str(capsys.readouterr().out)

    return apply


@pytest.mark.usefixtures("taken")
def test_a_fleet_file_is_asked_about(apply: Callable[..., str]) -> None:
    with pytest.raises(CommandError) as refused:
        apply()
    assert "10.0.0.9:8000 is shared by late (exposes inference), mine (exposes all)." in str(refused.value)
    assert str(refused.value).endswith("Nothing was changed. If that is meant: --confirm")
    said = apply("--dry-run")
    assert "to be confirmed: Clients of a fleet reach another fleet's server from now on: 10.0.0.9" in said
    assert not Fleet.objects.filter(name="late").exists()
    assert "fleet late: created" in apply("--confirm")
    assert apply() == "Nothing to change.\n"


@pytest.mark.usefixtures("taken")
def test_each_consequence_is_asked_about_at_a_terminal(
    apply: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[str] = []

    def ask(question: str) -> str:
        answers.append(question)
        return "y"

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    fleets.create(
        {"name": "late", "protocol": "openai", "replicas": [{"name": "a", "url": "http://a:1"}]}, "t"
    )
    said = apply()
    assert "1 of 4 replicas that take requests go out at once: late/a." in said
    assert "10.0.0.9:8000 is shared by late" in said
    assert answers == ["Apply? [y/N] "] * 2


def test_a_replica_that_a_file_renames_shares_what_it_shared() -> None:
    """The new one is registered before the old one is removed, all in one write."""
    text = (
        FILE
        + '  - {name: x, protocol: generic, expose: all, replicas: [{name: a, url: "http://10.0.0.9:8000"}]}\n'
    )
    fleet_files.apply(fleet_file.loads(text), "tests", confirm_all=True)
    renamed = fleet_file.loads(text.replace("name: a", "name: b"))
    with pytest.raises(NeedsConfirmation, match="go out at once"):
        fleet_files.apply(renamed, "tests")
    for name in ("x", "late"):
        replicas.register(name, {"name": "b", "url": "http://10.0.0.9:8000"}, "tests")
    assert fleet_files.apply(fleet_file.loads(text), "tests") == [
        "fleet late: b: removed",
        "fleet x: b: removed",
    ]


# --- What it costs ---


def placements_read(queries: CaptureQueriesContext) -> list[str]:
    return [
        one["sql"]
        for one in queries
        if '"controlplane_replica"."url"' in one["sql"] and "EXISTS" in one["sql"]
    ]


def test_one_query_and_no_url_elsewhere_is_read(make_fleet: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    make_fleet("big", replicas=[{"name": f"r{n}", "url": f"http://10.1.0.{n}:8000"} for n in range(50)])
    make_fleet("open", expose="all", replicas=[{"name": "a", "url": "http://10.2.0.1:9000"}])
    read: list[str] = []

    def parse(url: str) -> addresses.BaseUrl:
        read.append(url)
        return addresses.parse_base_url(url)

    monkeypatch.setattr(shared_hosts, "parse_base_url", parse)
    with CaptureQueriesContext(connection) as queries:
        replicas.register("big", {"name": "new", "url": "http://10.1.0.99:8000"}, "tests")
    assert len(placements_read(queries)) == 1
    assert read == ["http://10.1.0.99:8000"], "what is at other hosts is not even read"
    read.clear()
    with CaptureQueriesContext(connection) as queries:
        replicas.update("big", "new", {"weight": 2.0}, "tests")
        fleets.update("big", {"aliases": ["large"]}, "tests")
        replicas.delete("big", "new", "tests")
    assert (placements_read(queries), read) == ([], [])
    fleets.update("open", {"expose": "inference"}, "tests")
    read.clear()
    replicas.register("big", {"name": "new", "url": "http://10.1.0.99:8000"}, "tests")
    assert read == ["http://10.1.0.99:8000"], "no other is read while no fleet exposes more than inference"
    fleets.delete("open", "tests")
    fleets.update("big", {"expose": "all"}, "tests")
    replicas.register("big", {"name": "more", "url": "http://10.1.0.98:8000"}, "tests")
    assert len(read) == 2, "a fleet alone shares nothing"


@pytest.mark.parametrize(
    ("there", "new"),
    [
        ("http://10.1.0.7:8000", "http://10.1.0.7:8000/b"),
        ("http://[::ffff:10.1.0.7]:8000", "http://10.1.0.7:8000"),
        ("http://10.1.0.7:8000", "http://[::ffff:10.1.0.7]:8000"),
        ("http://llm.corp.test.:8000/a", "http://LLM.corp.test:8000"),
        ("http://127.0.0.9:8000", "http://localhost:8000"),
        ("http://[::1]:8000", "http://127.0.0.1:8000"),
    ],
)
@pytest.mark.django_db
def test_what_is_read_beside_a_new_url_has_all_that_is_there(there: str, new: str) -> None:
    for name in ("a", "b"):
        fleet = Fleet.objects.create(name=name, protocol="openai")
        Replica.objects.create(fleet=fleet, name="other", url=f"http://10.9.9.9:{ord(name)}")
    Replica.objects.create(fleet=fleet, name="r", url=addresses.normalise_url(there))
    changes = HostChanges()
    changes.add("a", addresses.normalise_url(new))
    Replica.objects.create(fleet=Fleet.objects.get(name="a"), name="new", url=addresses.normalise_url(new))
    sharing = changes.sharing()
    assert sharing is not None
    assert sharing.crossings[0].exposes.keys() == {"a", "b"}
