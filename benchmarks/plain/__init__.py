"""A hundred plain questions that have nothing to do with the demo pool's desk, and a hundred that it is there for."""
