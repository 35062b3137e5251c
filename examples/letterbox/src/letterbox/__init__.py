"""A channel for agent-fabric: letters in a folder."""
