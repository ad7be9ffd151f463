"""Standalone proxy: without a control plane, from a watched fleet file, with a small built-in prober."""
