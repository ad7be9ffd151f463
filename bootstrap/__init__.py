"""From a bare machine to a running environment, with the standard library alone."""
