"""A fleet's settings with which its replicas would fail their probes are confirmed first."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.models import Fleet, ReplicaHealth
from tests.controlplane.conftest import Api
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer

pytestmark = pytest.mark.usefixtures("fresh_stores")

UNSET = "env:TEST_UNSET"


@pytest.fixture
def replicas() -> Iterator[list[HttpServer]]:
    with ExitStack() as stack:
        yield [stack.enter_context(HttpServer(servers.ready)) for _ in range(3)]


@pytest.fixture
def ready(make_fleet: Callable[..., str], replicas: list[HttpServer]) -> str:
    rows = [{"name": f"r{index}", "url": one.url} for index, one in enumerate(replicas)]
    name = make_fleet(name="three", protocol="openai", replicas=rows)
    ReplicaHealth.objects.update(state="ready", has_passed=True)
    return name


def test_a_credential_that_is_not_there(api: Api, ready: str) -> None:
    path = f"/fleets/{ready}"
    refused = api.patch(path, {"credential": UNSET})
    assert refused.status_code == 409
    words = refused.json()["detail"]
    assert "3 of 3 replicas that take requests go out at once: three/r0, three/r1, three/r2." in words
    assert "With these settings their probes fail; r0: " in words
    assert "env:TEST_UNSET is an environment variable that is not set here" in words
    assert Fleet.objects.get(name=ready).credential == ""
    other = api.patch(f"{path}?confirm={refused.json()['confirm']}", {"aliases": ["chat-3"]})
    assert other.status_code == 200, "other changes go on"
    done = api.patch(f"{path}?confirm={refused.json()['confirm']}", {"credential": UNSET})
    assert done.status_code == 200
    assert Fleet.objects.get(name=ready).credential == UNSET


@pytest.mark.parametrize("change", [{"probe": {"preset": "http", "path": "/nope"}}, {"credential": UNSET}])
def test_without_a_trial(api: Api, ready: str, replicas: list[HttpServer], change: dict[str, Any]) -> None:
    for one in replicas:
        one.answer = servers.says(200, path="/health")
    assert api.patch(f"/fleets/{ready}", change).status_code == 409
    assert api.patch(f"/fleets/{ready}?trial=no", change).status_code == 200


def test_what_fails_already_can_be_changed(api: Api, ready: str, replicas: list[HttpServer]) -> None:
    """Most of them do not pass with the settings of now: these may be what is wrong."""
    for one in replicas[:2]:
        one.answer = servers.loading
    assert api.patch(f"/fleets/{ready}", {"credential": UNSET}).status_code == 200


def test_a_token_stands_for_one_change(api: Api, ready: str) -> None:
    path = f"/fleets/{ready}"
    token = api.patch(path, {"credential": UNSET}).json()["confirm"]
    other = api.patch(f"{path}?confirm={token}", {"probe": {"preset": "http", "path": "/nope"}})
    assert other.status_code == 200, "the servers answer every path"
    other = api.patch(f"{path}?confirm={token}", {"credential": "env:TEST_UNSET_TOO"})
    assert (other.status_code, other.json()["confirm"] == token) == (409, False)


def test_one_write_with_two_consequences_is_confirmed_with_both_tokens(
    api: Api, ready: str, replicas: list[HttpServer], make_fleet: Callable[..., str]
) -> None:
    """Its probes would fail, and it would expose another fleet's server."""
    make_fleet("other", replicas=[{"name": "a", "url": replicas[0].url}])
    path, body = f"/fleets/{ready}", {"credential": UNSET, "expose": "all"}
    first = api.patch(path, body).json()
    assert "With these settings their probes fail" in first["detail"]
    second = api.patch(f"{path}?confirm={first['confirm']}", body)
    assert second.status_code == 409
    assert "is shared by other (exposes inference), three (exposes all)." in second.json()["detail"]
    alone = second.json()["confirm"].rpartition(".")[2]
    assert "their probes fail" in api.patch(f"{path}?confirm={alone}", body).json()["detail"]
    assert api.patch(f"{path}?confirm={second.json()['confirm']}", body).status_code == 200


# --- The same by a fleet file ---


@pytest.fixture
def apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def apply(file: str, *flags: str) -> str:
        (tmp_path / "fleets.yaml").write_text(file)
        capsys.readouterr()
        call_command("apply", str(tmp_path / "fleets.yaml"), *flags)
        return str(capsys.readouterr().out)

    return apply


def dumped(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    call_command("dump")
    return str(capsys.readouterr().out)


def test_a_file_with_a_credential_that_is_not_there(
    ready: str, apply: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = dumped(capsys)
    assert apply(file) == "Nothing to change.\n"
    wrong = file.replace("  replicas:", f"  credential: {UNSET}\n  replicas:")
    with pytest.raises(CommandError) as refused:
        apply(wrong)
    assert "3 of 3 replicas that take requests go out at once" in str(refused.value)
    assert "env:TEST_UNSET is an environment variable that is not set here" in str(refused.value)
    assert "Nothing was changed. If that is meant: --confirm" in str(refused.value)
    assert Fleet.objects.get(name=ready).credential == ""
    assert "to be confirmed: 3 of 3 replicas" in apply(wrong, "--dry-run")
    assert "credential: " in apply(wrong, "--confirm")
    assert Fleet.objects.get(name=ready).credential == UNSET


def test_a_file_with_wrong_credentials_of_replicas(
    ready: str, apply: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = dumped(capsys)
    wrong = file.replace("'}", f"', credential: '{UNSET}'}}")
    assert wrong.count(UNSET) == 3, wrong
    with pytest.raises(CommandError, match="3 of 3 replicas that take requests"):
        apply(wrong)
    assert not Fleet.objects.get(name=ready).replicas.exclude(credential="").exists()


# --- What is not asked about ---


def test_one_of_three_may_go(api: Api, ready: str) -> None:
    for name in ("r0", "r1"):
        path = f"/fleets/{ready}/replicas/{name}?trial=no"
        assert api.patch(path, {"credential": "env:PATH"}).status_code == 200
    ReplicaHealth.objects.update(state="ready")
    assert api.patch(f"/fleets/{ready}", {"credential": UNSET}).status_code == 200


def test_nothing_is_asked_for_other_changes(api: Api, ready: str, replicas: list[HttpServer]) -> None:
    asked = [len(one.requests) for one in replicas]
    assert api.patch(f"/fleets/{ready}", {"aliases": ["other"], "credential": None}).status_code == 200
    assert [len(one.requests) for one in replicas] == asked
