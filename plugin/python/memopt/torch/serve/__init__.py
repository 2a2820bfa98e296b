"""A module whose step runs in the memopt service."""
