"""Services: every write to the database, with its checks, audit entry, event and publication."""
