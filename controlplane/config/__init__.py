"""Configuration: settings from the environment, their documentation, and the system checks."""
