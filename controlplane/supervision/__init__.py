"""Supervision: all of Switchyard on one machine under one supervisor, for ``manage.py up``.

Read in this order: ``options`` (flags), ``programs`` (what runs), ``supervisord`` (who restarts it),
``startup_checks`` (when it is up), ``stack`` (from start to the last process gone).
"""
