"""What is known of results: bundles, others' attestations of them, notices, and the tier that follows."""
