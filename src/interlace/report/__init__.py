"""All formatting: one table, written for a terminal, as Markdown, CSV and JSON."""
