"""Fixtures of the control plane's tests, and callers of every kind."""

from tests.controlplane.conftest import fresh_stores, llm

__all__ = ["fresh_stores", "llm"]
