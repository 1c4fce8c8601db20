"""What every page shares: the admin's shell, lists in parts, parameters of addresses, files to download."""
