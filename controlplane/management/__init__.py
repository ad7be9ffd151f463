"""Management commands of ``manage.py`` and ``switchyard``, and what they share."""
