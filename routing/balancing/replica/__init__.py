"""One replica's live state in one worker: load, device memory, prefix cache, load of sibling workers."""
