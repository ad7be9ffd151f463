"""Real models on CPU to try Switchyard with: nothing here is downloaded, and nothing is a stand-in."""
