"""Rows → routing table → Redis: snapshots, versions, epochs, and the acknowledgements of proxy workers."""
