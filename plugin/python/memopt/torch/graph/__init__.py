"""A planned step is captured once, and launched from then on without the code that ran it."""
