"""What the parent process keeps for its workers: listeners, processes, the newest table, options."""
