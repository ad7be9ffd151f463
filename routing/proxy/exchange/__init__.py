"""Exchange (request and response): route, queue, retry, response path, local reply, upgrade."""
