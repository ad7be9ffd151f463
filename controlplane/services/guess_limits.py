"""Guess limits (brute-force protection): how often somebody may be wrong about a password or an API token.

An attempt takes a token out of each bucket that it counts for before anything is compared; what turns out to
be no guess gives them back. So guesses that are made at the same time are limited as well, and an attempt
that was refused gives nothing back.

A browser in which somebody has signed in before has a bucket of its own for that account (device cookies,
OWASP): whoever guesses elsewhere cannot lock them out. Everybody else counts by account, by address and in
all, whichever names they try.
"""

import hashlib
import hmac
from dataclasses import dataclass
from math import ceil

from django.conf import settings

from controlplane.datastores import guess_buckets
from controlplane.datastores.guess_buckets import Bucket, Taken
from routing.contract.trusted_proxies import client_group

PER_ACCOUNT = (10, 90.0)
"""Tokens of a full bucket, and seconds for each that comes back: of one account, for all new browsers."""
PER_DEVICE = (10, 90.0)
PER_ADDRESS = (30, 10.0)
"""Of one address, for all accounts. IPv6: of a /64."""
IN_ALL = (300, 1.0)
"""For all names and addresses together, of new browsers."""
PER_SESSION = (10, 90.0)
"""Of one session, for the present password where a new one is chosen."""
TOKENS_PER_ADDRESS = (30, 1.0)
TOKENS_IN_ALL = (1000, 0.05)


class TooManyGuesses(Exception):
    def __init__(self, what: str, wait_s: float) -> None:
        self.wait_s = max(1, ceil(wait_s))
        super().__init__(f"Too many {what}. Wait {guess_buckets.wait_words(wait_s)} and try again.")


@dataclass(frozen=True)
class Guess:
    """One guess that is allowed."""

    taken: Taken

    def was_none(self) -> None:
        """It was right, or there was nothing to guess."""
        guess_buckets.give_back(self.taken)


def login(account: str, address: str, device: str) -> Guess:
    """``device``: id of a browser that the account is known to use; empty: it is a new one. Raises
    TooManyGuesses."""
    if device:
        return _attempt("failed logins", [Bucket(f"device:{device}", *PER_DEVICE)])
    return _attempt(
        "failed logins",
        [
            Bucket(f"account:{_short_hash(account)}", *PER_ACCOUNT),
            Bucket(f"address:{client_group(address)}", *PER_ADDRESS),
            Bucket("logins", *IN_ALL),
        ],
    )


def present_password(user_pk: int, session: str) -> Guess:
    """Raises TooManyGuesses."""
    return _attempt("wrong passwords", [Bucket(f"session:{user_pk}:{_short_hash(session)}", *PER_SESSION)])


def wrong_token(address: str) -> None:
    """An API token was wrong; those that are valid are not limited here. Raises TooManyGuesses."""
    _attempt(
        "unknown API tokens",
        [
            Bucket(f"tokens:{client_group(address)}", *TOKENS_PER_ADDRESS),
            Bucket("tokens", *TOKENS_IN_ALL),
        ],
    )


def _attempt(what: str, buckets: list[Bucket]) -> Guess:
    taken = guess_buckets.take(buckets)
    if taken.empty is not None:
        raise TooManyGuesses(what, taken.wait_s)
    return Guess(taken)


def _short_hash(text: str) -> str:
    """People write passwords into the wrong field: no name is stored as it was given."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, text.casefold().encode(), hashlib.sha256).hexdigest()[:32]
