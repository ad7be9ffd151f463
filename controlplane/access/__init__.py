"""Who may do what: roles, selectors of fleets by label, and what both give an account."""
