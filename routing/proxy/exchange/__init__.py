"""One request and its response: route, queue, retry, response path, local reply, upgrade."""
