"""Benchmark: what a large installation costs its control plane, with every replica on this machine."""
