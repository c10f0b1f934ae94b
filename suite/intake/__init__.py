"""Taking in what strangers send: every file is hostile until it has passed, and each refusal has its own code."""
