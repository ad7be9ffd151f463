"""Scaling signal: how many replicas a fleet needs, said before requests fail. Others scale.

``arrivals`` forecasts the rate of requests, ``capacity`` says what one replica can take, ``signal`` makes one
number of both, with the reason in words. All of it is pure and remembers a few minutes at most; the conductor
asks once a second (:mod:`controlplane.telemetry.conductor`).
"""
