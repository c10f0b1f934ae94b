"""Container images: found by digest, pulled or built, checked, archived and restored."""
