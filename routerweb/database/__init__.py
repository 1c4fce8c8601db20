"""What every database of the product needs beyond its tables: defaults, and indexes that are built while people write."""
