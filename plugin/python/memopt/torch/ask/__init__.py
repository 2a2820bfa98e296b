"""Questions about a module that change nothing: frontier, explain, largest sizes, feasibility."""
