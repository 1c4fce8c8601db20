"""The engine of what calls agents: policies that pick the next agent, and choosers of backends."""
