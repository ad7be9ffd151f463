"""Other proxies and routers beside ours, in one run: see :mod:`tests.benchmarks.peers.__main__`."""
