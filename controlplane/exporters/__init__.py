"""Exporters of hosts, read every few seconds: what DCGM and the node exporter say of devices and hosts.

``pages`` reads a page, ``scrape`` asks for all of them at once, ``store`` keeps what was said in Redis, where
the conductor finds it. It changes nothing about who gets requests.
"""
