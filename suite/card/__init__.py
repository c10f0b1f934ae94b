"""Cards: what a model card should say about a divergence, written from a bundle or looked for in any card or guide."""
