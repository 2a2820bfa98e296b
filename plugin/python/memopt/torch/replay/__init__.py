"""A plan is obeyed in eager mode: what to do at each call, save and use, and operators that run again."""
