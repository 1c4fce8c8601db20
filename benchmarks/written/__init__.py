"""What queries that were written for agents bring beside few labels, and the texts that were written for it."""
