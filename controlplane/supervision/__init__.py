"""Supervision: all of Switchyard on one machine under one supervisor, for ``manage.py up``.

Read in this order: ``options`` (flags), ``programs`` (what runs), ``supervisord`` (who restarts it),
``readiness`` (when it is up), ``session`` (from start to the last process gone).
"""
