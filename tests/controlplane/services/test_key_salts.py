"""The salt of client keys is replaced: keys made before stay valid for an overlap, and end with it."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from controlplane.models import AuditEntry, ClientKey, TableState
from controlplane.services import client_keys, key_salts
from controlplane.services.errors import Conflict, Invalid
from routing.contract import redis_keys
from routing.contract.table import Manifest, decode_manifest
from routing.proxy.auth.client_keys import ClientKeys
from routing.shared.key_quotas import KeyQuotas
from routing.shared.quota_share import QuotaShare


@pytest.fixture(autouse=True)
def _stores(fresh_stores: None) -> Iterator[None]:
    yield
    connection.close()


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


def opens(client: Any, key: str) -> bool:
    """Whether a proxy that reads the manifest takes the key."""
    return ClientKeys(manifest(client), KeyQuotas(None, QuotaShare())).grant(key.encode()) is not None


def test_keys_of_both_salts_are_valid_until_the_former_one_ends(redis_client: Any) -> None:
    before = client_keys.create({"name": "before"}, "anna").key
    salt = TableState.objects.get().key_salt
    assert key_salts.replace("anna") == 1
    after = client_keys.create({"name": "after"}, "anna").key
    assert TableState.objects.get().key_salt not in ("", salt)
    assert (opens(redis_client, before), opens(redis_client, after)) == (True, True)
    assert [row.name for row in key_salts.left()] == ["before"]
    with pytest.raises(Conflict, match="end it first"):
        key_salts.replace("anna")
    assert key_salts.end("anna") == 1
    assert (opens(redis_client, before), opens(redis_client, after)) == (False, True)
    assert manifest(redis_client).former_salt == ""
    assert ClientKey.objects.get(name="before").revoked_by == "anna"
    assert key_salts.end("anna") == 0
    assert salt not in repr(list(AuditEntry.objects.values()))


def test_the_former_salt_ends_at_its_date(redis_client: Any) -> None:
    key = client_keys.create({"name": "before"}, "anna").key
    key_salts.replace("anna", days=30)
    assert key_salts.end_if_due("retention") == 0
    TableState.objects.update(former_salt_until=timezone.now() - timedelta(seconds=1))
    assert key_salts.end_if_due("retention") == 1
    assert not opens(redis_client, key)


def test_what_cannot_be_replaced() -> None:
    with pytest.raises(Conflict, match="no salt yet"):
        key_salts.replace("anna")
    for days in (0, 36_501):
        with pytest.raises(Invalid, match="from 1 to 36500"):
            key_salts.replace("anna", days=days)


def test_the_command() -> None:
    def run(*arguments: Any) -> str:
        out = StringIO()
        call_command("keysalt", *arguments, stdout=out)
        return out.getvalue()

    client_keys.create({"name": "website"}, "anna")
    assert "one salt" in run("status")
    said = run("replace", "--days", "30")
    assert "There is a former salt, until 20" in said
    assert "to be replaced: website" in said
    with pytest.raises(CommandError, match="end it first"):
        run("replace")
    assert "Client keys revoked: 1" in run("end")
