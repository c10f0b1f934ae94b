"""Turn replay: a stack writes each tool-call turn of a recorded session freely, and the ladder says what survives."""
