"""The simulator's batching servers beside real llama.cpp processes: one trace through both."""
