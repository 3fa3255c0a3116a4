"""One module for each format of data files: each reads records in order and says which cannot be used."""
