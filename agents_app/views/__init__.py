"""The pages of this room: pools and agents, settings, people, passwords. Function views, thin."""
