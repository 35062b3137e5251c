"""Tasks that are made, not collected: what a person might ask for in a folder, with one right way and a check."""
