"""agent-fabric: one durable, local-first platform for AI agents."""

__version__ = "0.5.0"
