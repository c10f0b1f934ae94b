"""Sessions: their schema, their rendering to token ids with spans, and a laboratory that writes them."""
