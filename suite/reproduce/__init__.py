"""Running somebody else's lock again, trusting nothing in it, and saying how far the rows are the same."""
