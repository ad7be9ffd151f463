"""Django's backend for PostgreSQL, whose connections notice a server that hangs (:mod:`.hangs`)."""
