"""What is learned from traffic: speed, latency, sizes of requests, load that replicas report."""
