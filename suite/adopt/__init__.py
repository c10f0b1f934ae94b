"""From the stack that a person runs already (a command, a container, a compose file) to a manifest."""
