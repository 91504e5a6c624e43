"""Studies before they start: what would be asked, what it costs, and how well it would do."""
