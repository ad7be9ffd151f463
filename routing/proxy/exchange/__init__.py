"""One request and its answer: route, queue, retry, response, local reply, upgrade."""
