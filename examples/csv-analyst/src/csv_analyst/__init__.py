"""Ask questions about CSV files."""
