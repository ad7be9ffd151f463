"""Supervision: all of Switchyard on one machine under one supervisor, for ``manage.py up``.

Read in this order: ``options`` (flags), ``programs`` (what runs), ``supervisor`` (who restarts it),
``startup_checks`` (when it is up), ``stopping`` (how it ends), ``stack`` (from start to the last process).
"""
