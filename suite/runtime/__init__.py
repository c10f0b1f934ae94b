"""Start the agent inside a stack: `interface.py` says what a runtime does, one module per kind."""
