"""Destination URL: what may be written, where it leads, and how it is shown without what is secret in it.

A webhook's path or query is often its password. So a URL is never shown again whole; and instead of one, a
reference (``env:NAME``, ``file:PATH``) keeps it out of the database.
"""

from typing import NamedTuple
from urllib.parse import urlsplit

from controlplane.access.host_lookup import look_up
from routing.contract import address_policy, protected_paths
from routing.contract.addresses import parse_base_url
from routing.contract.secret_references import OWN_FILE, credential_reference
from routing.tls import secret_loader

MOST_BYTES = 2000
_DENIED_FOR = ("no replica can be there", "nothing is sent there")
"""The policy is written for replicas."""


class WebhookUrl(NamedTuple):
    url: str
    host: str
    port: int

    @property
    def shown(self) -> str:
        """``https://hooks.example.com/…``."""
        parts = urlsplit(self.url)
        hidden = "/…" if parts.path.strip("/") or parts.query else ""
        return f"{parts.scheme}://{parts.netloc}{hidden}"


def is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:"))


def checked(text: str) -> str:
    """As it is kept. Raises ValueError: no URL, or one whose host is denied by what it says itself."""
    if not text:
        return ""
    if not is_reference(text):
        return parsed(text).url
    try:
        return credential_reference(text)
    except ValueError:
        raise ValueError(
            "must be a URL, or a reference to one: env:NAME or file:/whole/path. Variables SWITCHYARD_… and "
            "files in Switchyard's data folder are not sent anywhere"
        ) from None


def parsed(text: str) -> WebhookUrl:
    """Raises ValueError, which names the host alone: the rest may be secret."""
    if len(text) > MOST_BYTES or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"must be a URL: at most {MOST_BYTES} ASCII characters without spaces")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ValueError("is no URL: write https://host/path") from None
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError("must be a URL that begins with https:// or http://")
    if parts.fragment:
        raise ValueError("has a part behind #, which is never sent: remove it")
    base = parse_base_url(f"{parts.scheme}://{parts.netloc}")
    refuse(address_policy.in_force().why_host_denied(base.host, base.port))
    return WebhookUrl(text, base.host, base.port)


def refuse_denied_addresses(text: str) -> None:
    """Looks the name up: raises ValueError where all of its addresses are denied. One that has none now may
    have one later: it is looked at again whenever something is sent."""
    if is_reference(text):
        return
    url = parsed(text)
    judged = [
        address_policy.in_force().why_denied(one, url.port) for one in look_up([url.host])[url.host] or ()
    ]
    if judged and all(words is not None for words in judged):
        refuse(f"{url.host} resolves to a forbidden address: {judged[0]}")


def refuse(words: str | None) -> None:
    """Raises ValueError with these words of the address policy, if there are any."""
    if words is not None:
        raise ValueError(words.replace(*_DENIED_FOR))


def resolved(text: str) -> WebhookUrl:
    """What a reference leads to on this host, or the URL itself. Raises ValueError in words."""
    if not is_reference(text):
        return parsed(text)
    if text.startswith("file:") and protected_paths.is_protected(text[5:]):
        raise ValueError(f"{text} {OWN_FILE}")
    try:
        found = secret_loader.read(text, MOST_BYTES, "a URL's file has").decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{text} holds no URL") from None
    except ValueError as error:
        raise ValueError(f"{text} {error}") from None
    return parsed(found)


def shown(text: str) -> str:
    """For people who may read it: a reference as it is, a URL without path and query."""
    if not text or is_reference(text):
        return text
    try:
        return parsed(text).shown
    except ValueError:  # denied by now
        parts = urlsplit(text)
        return f"{parts.scheme}://{parts.netloc}/…"
