"""One run from manifests to bundles: resolve, plan, capture, score, write."""
