"""Evidence of a bundle: packs of both captures and, where those are too large, a commitment that is challenged."""
