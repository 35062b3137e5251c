"""Runs approved commands outside the box, where nothing of the workspace is obeyed."""
