"""What lowers the floor of a step: the loss in chunks, the optimizer in the backward pass."""
