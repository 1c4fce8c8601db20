"""Learning and measuring the scorer that reads descriptions alone: see `__main__.py`."""
