"""Real llama.cpp servers around random weights: engine, slots and streaming are real."""
