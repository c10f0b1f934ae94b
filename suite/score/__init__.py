"""Scores: per-probe metrics in FP64, the ledger, its headlines, the repeat floor and the numerical band."""
