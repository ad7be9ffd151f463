"""KV events: what model servers publish of their KV caches, heard by the master for all of its workers."""
