"""A local page on which a person labels the rows of a table, one after the other."""
