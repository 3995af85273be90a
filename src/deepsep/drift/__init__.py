"""Whether the rows to score still look like the training table: a profile of the table, counts, and a comparison."""
