"""Zone-aware routing: the own site first, and spill-over to the others."""
