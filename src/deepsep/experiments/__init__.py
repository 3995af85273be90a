"""The paper's study on any labelled table: protocol, cells, results."""
