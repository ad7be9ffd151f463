"""Backup and restore: one file that either database can write and read (docs/backup.md).

``tables`` says which rows belong to a backup, ``file`` how they are written down; ``saving`` and
``restoring`` do it. Rows are read and written through the models *as they were* at the migrations that the
database or the file is at: an older backup is loaded into older tables, and then migrated like them.
"""
