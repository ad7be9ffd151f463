"""The example client has a key of its own exactly while others have made requests need one."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from controlplane.models import ClientKey, Event, Fleet
from controlplane.services import client_keys, fleets
from controlplane.supervision.example_key import NAME, ExampleKey
from routing.contract import redis_keys
from routing.contract.client_keys import key_hash, salt_bytes
from routing.contract.table import decode_manifest


class Kept(ExampleKey):
    def __init__(self, folder: Path) -> None:
        self.file = folder / "example-client.key"
        self.said: list[str] = []
        super().__init__(self.file, self.said.append)

    @property
    def key(self) -> str:
        return self.file.read_text().strip()


@pytest.fixture
def kept(transactional_db: None, redis_server: Any, tmp_path: Path) -> Iterator[Kept]:
    for name, protocol in (("digits", "open-inference"), ("llm", "openai")):
        fleets.create({"name": name, "protocol": protocol}, "anna")
    yield Kept(tmp_path)
    connection.close()


def in_force() -> list[str]:
    return [row.name for row in ClientKey.objects.filter(revoked_at=None)]


def test_none_is_made_while_requests_need_none(kept: Kept) -> None:
    kept.keep()
    assert not kept.file.exists()
    assert in_force() == kept.said == []


def test_once_somebody_has_made_one_it_has_its_own_for_the_example_fleets(
    kept: Kept, redis_client: Any
) -> None:
    client_keys.create({"name": "website"}, "anna")
    kept.keep()
    assert in_force() == [NAME, "website"]
    row = ClientKey.objects.get(name=NAME)
    assert ([fleet.name for fleet in row.fleets.all()], row.all_fleets, row.created_by) == (
        ["digits"],
        False,
        "up",
    )
    assert stat.S_IMODE(kept.file.stat().st_mode) == 0o600
    assert list(kept.file.parent.iterdir()) == [kept.file]
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert manifest.key_hashes[key_hash(salt_bytes(manifest.key_salt), kept.key.encode())] == ["digits"]
    assert Event.objects.filter(text__startswith=f"up made client key {NAME} (sy-").count() == 1
    assert len(kept.said) == 1
    key = kept.key
    kept.keep()
    assert (kept.key, len(in_force())) == (key, 2)


def test_whoever_revokes_it_has_the_last_word(kept: Kept) -> None:
    client_keys.create({"name": "website"}, "anna")
    kept.keep()
    client_keys.revoke(ClientKey.objects.get(name=NAME).pk, "anna")
    kept.keep()
    assert in_force() == ["website"]


def test_after_a_time_without_keys_it_begins_anew(kept: Kept) -> None:
    client_keys.create({"name": "website"}, "anna")
    kept.keep()
    first = kept.key
    for row in ClientKey.objects.all():
        client_keys.revoke(row.pk, "anna")
    kept.keep()
    assert not kept.file.exists()
    client_keys.create({"name": "other"}, "anna")
    kept.keep()
    assert kept.key != first
    assert in_force() == [NAME, "other"]


def test_a_key_whose_file_is_lost_is_replaced(kept: Kept) -> None:
    """As when ``up`` was killed between the two, or the file was deleted."""
    client_keys.create({"name": "website"}, "anna")
    kept.keep()
    kept.file.unlink()
    kept.keep()
    assert in_force() == [NAME, "website"]
    assert ClientKey.objects.filter(name=NAME).count() == 2


def test_a_key_of_that_name_that_somebody_else_made_is_left_alone_and_told_once(kept: Kept) -> None:
    client_keys.create({"name": NAME}, "anna")
    kept.keep()
    kept.keep()
    assert in_force() == [NAME]
    assert not kept.file.exists()
    (said,) = kept.said
    assert "There is a client key example client already" in said


def test_without_example_fleets_there_is_nothing_to_open(kept: Kept) -> None:
    Fleet.objects.get(name="digits").delete()
    client_keys.create({"name": "website"}, "anna")
    kept.keep()
    assert (in_force(), kept.file.exists(), kept.said) == (["website"], False, [])
