"""Session key (sticky sessions): where it is read, as parameters say it."""

import re

from routing.balancing.affinity import Affinity

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""What RFC 9110 §5.6.2 lets the name of a field be, and RFC 6265 §4.1.1 that of a cookie."""


def session_affinity(strategy: str, header: str, cookie: str, user: bool) -> Affinity:
    """Raises ValueError that names the parameter and says what would be right."""
    for name, value, words in (
        ("header", header, "the name of a header field"),
        ("cookie", cookie, "the name of a cookie"),
    ):
        if value and not _TOKEN.fullmatch(value):
            raise ValueError(
                f"parameter {name!r} of {strategy} must be {words} (letters, digits and - _ . are usual), "
                f"or empty, not {value!r}"
            )
    return Affinity(header=header.lower().encode("ascii"), cookie=cookie.encode("ascii"), user=user)
