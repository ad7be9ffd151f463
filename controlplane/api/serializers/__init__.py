"""Serializers: the shapes of answers, for the OpenAPI document, one file for each noun.

What may be *sent* is in ``request_schemas.py``.
"""
