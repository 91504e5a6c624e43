"""One HTML file that tells the story of a release."""
