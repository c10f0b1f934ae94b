"""Static pages from bundles: guides, leaderboards, result pages and feeds, with no server behind them."""
