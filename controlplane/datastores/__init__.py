"""Datastores: connections to Redis, the file modes of SQLite, and errors of the database in words."""
