"""A training step is written down: its operators, values, saved tensors, live ranges and peak."""
