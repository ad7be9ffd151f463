"""Failure penalty: a failure is learned as a slow response.

Theory. A replica that fails at once looks fast and idle. Every strategy that follows latency or load then
sends it most of the traffic (35 to 87 % in simulation). Each failure is learned as a response of several
seconds. That brings it down to a tenth of a percent, long before ejection has enough failures.

A rejection (429, or 503 with ``Retry-After``) is load. It counts as a response as slow as the pool's slow
ones: enough to turn traffic elsewhere, and forgotten as fast.

Source: Finagle's and Linkerd's failure penalties, and our own simulation.
"""

LEAST_FAILURE_S = 5.0


def failure_seconds(elapsed_s: float, pool_p99_s: float) -> float:
    """Seconds that a failed attempt is learned as."""
    return max(LEAST_FAILURE_S, 2 * pool_p99_s, elapsed_s)


def rejection_seconds(elapsed_s: float, pool_p99_s: float) -> float:
    """Seconds that a rejected attempt is learned as."""
    return max(pool_p99_s, elapsed_s)
