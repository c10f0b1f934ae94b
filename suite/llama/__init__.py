"""llama.cpp: its base files of log-probabilities, the statistics that it prints from them, and its command lines."""
