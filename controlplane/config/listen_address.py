"""``HOST:PORT`` to listen on."""

import ipaddress
import re
from typing import NamedTuple, Self

_FORM = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:]+):([0-9]{1,5})")


class ListenAddress(NamedTuple):
    host: str
    """An IP address or ``localhost``; an IPv6 address without brackets."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError with a sentence."""
        match = _FORM.fullmatch(text)
        if match is None or not 1 <= int(match[2]) <= 65535:
            raise ValueError("write it as HOST:PORT, as in 127.0.0.1:9464 or [::1]:9464.")
        host = match[1].strip("[]")
        if host != "localhost":
            try:
                ipaddress.ip_address(host)
            except ValueError:
                raise ValueError(f"{host!r} is not an IP address of this machine.") from None
        return cls(host, int(match[2]))

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
