"""How figures look: one palette and one way to make an SVG, for reports and benchmarks alike."""
