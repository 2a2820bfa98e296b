"""A step that is on paper: what it takes, before there is a machine."""
