"""Agent beside a model server that cannot register itself: registers it, renews its lease, drains it.

It needs the standard library alone, no Django, database or Redis.
"""
