"""The pages of this package: pools and agents, settings, people, passwords. Function views, thin."""
