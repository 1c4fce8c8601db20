"""The web server: what happens to a request before Django sees it, and to its answer afterwards."""
