"""Probes (health checks) of replicas, and the Celery tasks that run them.

Beat fires a tick each second. The tick claims due replicas (:mod:`.schedule`) and hands them to workers
in batches; a batch task reads its targets (:mod:`.targets`), probes all of them at once (:mod:`.prober`)
and records each result as it comes (:mod:`.result_handler`). Only a change of health writes a row.
"""
