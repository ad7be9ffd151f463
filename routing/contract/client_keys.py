"""Client keys: what clients of a proxy present, and the keyed hash that is stored instead of a key.

A key is ``sy-`` and 48 hexadecimal digits: 192 random bits, shown once and never stored. The manifest carries
its hash, BLAKE2b keyed with a random value of the installation (RFC 7693 §2.9), and that value with it.

This protects against readers of the database, Redis, a backup or a proxy's copy of the table: they get no
usable key, cannot see whether two installations share a key, and cannot use precomputed hashes. Guessing is
hopeless because of the key's own randomness, not because the hash's key is secret. It does not protect
against somebody who may *write* there and adds a hash of their own, nor against somebody who reads requests
on the network (if the proxy uses no TLS).
"""

import hashlib
import secrets

PREFIX = "sy-"
SHOWN_CHARACTERS = 9
"""How many of a key's first characters people see afterwards, to tell keys apart: 24 of its 192 bits."""
ALL_FLEETS = "*"
"""In a list of fleets: every fleet, including future ones. No fleet can have this name."""

_RANDOM_BYTES = 24
_LEAST_DIGITS, _MOST_DIGITS = 32, 120
_SALT_BYTES = 32
_DIGEST_BYTES = 32


def is_key(text: str) -> bool:
    """Whether this could be a key: the prefix, and 128 bits or more by its length."""
    rest = text.removeprefix(PREFIX)
    return text.startswith(PREFIX) and _LEAST_DIGITS <= len(rest) <= _MOST_DIGITS and rest.isalnum()


def new_key() -> str:
    """A new key, to be shown once."""
    return PREFIX + secrets.token_hex(_RANDOM_BYTES)


def new_salt() -> str:
    """A new key for an installation's keyed hashes, hexadecimal."""
    return secrets.token_hex(_SALT_BYTES)


def salt_bytes(salt: str) -> bytes:
    """Raises ValueError unless it is hexadecimal and of 16 to 64 bytes."""
    value = bytes.fromhex(salt)
    if not 16 <= len(value) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"{len(value)} bytes instead of 16 to {hashlib.blake2b.MAX_KEY_SIZE}")
    return value


def key_hash(salt: bytes, key: bytes) -> str:
    """Keyed hash of a client key, 64 hexadecimal digits: stored in database, manifest and log."""
    return hashlib.blake2b(key, key=salt, digest_size=_DIGEST_BYTES).hexdigest()
