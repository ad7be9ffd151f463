"""Confirmation: a write whose consequences must be meant is refused with a token, and done when it is given.

A token stands for exactly what was shown, for some minutes, whoever asks. Nothing is written, and other
writes go on meanwhile: where they have changed what it stands for, that is shown anew.
"""

import json
import re
import time

from django.utils.crypto import constant_time_compare, salted_hmac

from controlplane.services.errors import ServiceError

NAMES_SHOWN = 5
TOKEN_PERIOD_S = 300
"""A token is of one such period of the clock, and holds in the next one too: for five to ten minutes."""
SEPARATOR = "."
"""Between tokens: a write may have more than one consequence."""
_TOKEN = re.compile("[0-9a-f]{16}")
_MOST_TOKENS = 4
"""Of one write. A client that sends old ones along does not make this longer and longer."""


class Consequence:
    """What a write does that must be meant."""

    salt: str
    """Keeps tokens of different kinds apart."""

    @property
    def words(self) -> str:
        """In whole sentences, for the viewer."""
        raise NotImplementedError

    @property
    def shown(self) -> object:
        """What the token stands for, as JSON can hold it."""
        raise NotImplementedError

    @property
    def token(self) -> str:
        return self._token_of(_period())

    def is_confirmed_by(self, given: str) -> bool:
        """``given``: tokens, with SEPARATOR between."""
        wanted = [self._token_of(_period() - age) for age in (0, 1)]
        return any(constant_time_compare(token, one) for token in _tokens_in(given) for one in wanted)

    def refuse_unless(self, given: str, why: str = "") -> None:
        """Raises NeedsConfirmation unless it is confirmed. ``why``: said after the words."""
        if not self.is_confirmed_by(given):
            raise NeedsConfirmation(self, why, given=given)

    def _token_of(self, period: int) -> str:
        return salted_hmac(self.salt, json.dumps([self.shown, period])).hexdigest()[:16]


class NeedsConfirmation(ServiceError):
    """A consequence is not confirmed yet. Nothing has been written."""

    status = 409

    def __init__(self, what: Consequence, why: str = "", given: str = "") -> None:
        """``given``: tokens that came with the write; what they confirm is not asked again."""
        super().__init__(f"{what.words} {why}".rstrip())
        self.token = SEPARATOR.join([*_tokens_in(given)[1 - _MOST_TOKENS :], what.token])


def named(names: list[str], separator: str = ", ") -> str:
    """At most NAMES_SHOWN of them, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return separator.join(names[:NAMES_SHOWN]) + more


def _tokens_in(given: str) -> list[str]:
    """The last of what can be one: nothing else that was sent is said again in an answer."""
    return [one for one in given.split(SEPARATOR) if _TOKEN.fullmatch(one)][-_MOST_TOKENS:]


def _period() -> int:
    return int(time.time() // TOKEN_PERIOD_S)
