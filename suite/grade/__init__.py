"""Grading of tool calls in raw model output: strict grammars, a ladder of verdicts, literals. Nothing is executed."""
