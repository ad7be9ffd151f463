"""Role-based access control (RBAC): roles, selectors of fleets by label, and what both give an account."""
