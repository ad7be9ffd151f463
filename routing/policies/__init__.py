"""What surrounds a pick, one small file each: pure, on explicit state, time and chance given."""
