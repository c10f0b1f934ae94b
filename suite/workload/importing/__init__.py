"""Sessions from what other programs kept: one file for each format, one way from loose messages to a session."""
