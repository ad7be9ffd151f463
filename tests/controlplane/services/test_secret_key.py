"""What a new secret key revokes, as docs/settings.md says: sessions and API tokens, nothing else."""

from typing import Any

from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from controlplane.models import ClientKey, TableState
from controlplane.services import client_keys, tokens
from routing.contract.client_keys import key_hash, salt_bytes

PASSWORD = "violet-otter-9182"


def test_a_new_secret_key_ends_sessions_and_api_tokens_but_no_client_key(
    fresh_stores: None, settings: Any
) -> None:
    user = User.objects.create_user("anna", password=PASSWORD, is_staff=True)
    token = tokens.create(user, "laptop", "anna")[1]
    key = client_keys.create({"name": "website"}, "anna").key
    browser = Client()
    browser.force_login(user)
    assert browser.get("/api/v1/fleets").status_code == 200
    assert tokens.verify(token) is not None

    settings.SECRET_KEY = "another-" * 10
    assert browser.get("/api/v1/fleets").status_code == 401
    assert tokens.verify(token) is None
    assert authenticate(RequestFactory().post("/login"), username="anna", password=PASSWORD) == user
    [row] = ClientKey.objects.all()
    assert row.key_hash == key_hash(salt_bytes(TableState.objects.get().key_salt), key.encode())
