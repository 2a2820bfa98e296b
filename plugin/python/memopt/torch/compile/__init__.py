"""A plan is obeyed in compiled graphs."""
