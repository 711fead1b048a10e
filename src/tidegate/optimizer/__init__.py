"""Rules that rewrite logical plans without changing their meaning."""
