"""Client keys: what clients of a proxy present, and the keyed hash that stands for one everywhere else.

A key is ``sy-`` and 48 hexadecimal digits: 192 random bits, shown once and never stored. The manifest carries
its hash, BLAKE2b keyed with a random value of the installation (RFC 7693 §2.9), and that value with it.

What that protects from: whoever reads the database, Redis, a backup or a proxy's copy of the table finds no
key that opens anything, cannot tell whether two installations share one, and can use no table of hashes made
beforehand. It is the key's own randomness, not the secrecy of the hash's key, that makes guessing hopeless.
What it does not protect from: whoever may *write* there can put in a hash of their own, and whoever sees
requests on their way (where the proxy speaks no TLS) reads the keys themselves.
"""

import hashlib
import secrets

PREFIX = "sy-"
SHOWN_CHARACTERS = 9
"""How many of a key's first characters people see afterwards, to tell keys apart: 24 of its 192 bits."""
ALL_FLEETS = "*"
"""In a list of fleets: every one, those that are made later too. No fleet can have this name."""

_RANDOM_BYTES = 24
_LEAST_DIGITS, _MOST_DIGITS = 32, 120
_SALT_BYTES = 32
_DIGEST_BYTES = 32


def is_key(text: str) -> bool:
    """Whether this could be a key: the prefix, and 128 bits or more by its length."""
    rest = text.removeprefix(PREFIX)
    return text.startswith(PREFIX) and _LEAST_DIGITS <= len(rest) <= _MOST_DIGITS and rest.isalnum()


def new_key() -> str:
    """A fresh key, to be shown once."""
    return PREFIX + secrets.token_hex(_RANDOM_BYTES)


def new_salt() -> str:
    """A fresh value that keys an installation's hashes, hexadecimal."""
    return secrets.token_hex(_SALT_BYTES)


def salt_bytes(salt: str) -> bytes:
    """Raises ValueError unless it is hexadecimal and of 16 to 64 bytes."""
    value = bytes.fromhex(salt)
    if not 16 <= len(value) <= hashlib.blake2b.MAX_KEY_SIZE:
        raise ValueError(f"{len(value)} bytes instead of 16 to {hashlib.blake2b.MAX_KEY_SIZE}")
    return value


def key_hash(salt: bytes, key: bytes) -> str:
    """What stands for a key in database, manifest and log: 64 hexadecimal digits."""
    return hashlib.blake2b(key, key=salt, digest_size=_DIGEST_BYTES).hexdigest()
