"""A proxy without a control plane: the watched fleet file, and the small built-in prober."""
