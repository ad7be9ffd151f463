"""What a worker keeps for each replica on the HTTP side: its connections and ready-made bytes."""

from routing.contract.table import Tls
from routing.http.upstream_pool import UpstreamPool
from routing.replica import Replica


class Link:
    """Lives in ``replica.http``."""

    __slots__ = ("before_target", "host_line", "pool", "response_fields")

    def __init__(self, replica: Replica, pool: UpstreamPool, via_name: str) -> None:
        self.pool = pool
        self.before_target = b" " + replica.path_prefix
        self.host_line = b" HTTP/1.1\r\nHost: " + replica.host_field
        self.response_fields = (
            f"\r\nVia: 1.1 {via_name}\r\nx-switchyard-replica: {replica.name}\r\nX-Request-Id: "
        ).encode()

    def verify_by(self, tls: Tls) -> None:
        verification = self.pool.verification
        assert verification is not None
        self.pool.verify_by(verification.under(tls))
