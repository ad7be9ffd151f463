"""Fallback fleets: a request that its fleet cannot serve goes to another one, which its policy names."""
