"""Notices: what the conductor writes into the event log, each once: ejections, overloads, limits, drains."""
