"""Reference packs: a published reference capture, so that a stack can be compared without its reference's model."""
