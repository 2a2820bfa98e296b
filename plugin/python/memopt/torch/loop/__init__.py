"""The loop around a step: forward passes that are alive together, the programs that steps are, and what is watched of them."""
