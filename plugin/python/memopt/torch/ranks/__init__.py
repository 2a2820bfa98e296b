"""Ranks that train one module together."""
