"""A gentle client for the example fleets: arrivals and lengths as in a public trace of LLM conversations."""
