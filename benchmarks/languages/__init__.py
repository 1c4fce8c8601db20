"""The demo pool in languages that it was not labeled in: see `__main__.py`."""
