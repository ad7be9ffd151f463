"""Monitoring of the Celery worker and beat: their tasks, their loops and the queue's length, as metrics.

Celery imports :mod:`.worker` and :mod:`.beat` by their names in the settings.
"""
