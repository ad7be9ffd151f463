"""One trace through our proxy and its peers, before replicas of unequal speed: who keeps the tail short."""
