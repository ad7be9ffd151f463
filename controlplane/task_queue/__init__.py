"""The Celery worker and beat, watched: their tasks, their loops and what waits in the queue, as metrics.

Celery imports :mod:`.worker` and :mod:`.beat` by their names in the settings.
"""
