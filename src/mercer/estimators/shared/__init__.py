"""What all estimators share: the data flow, units, tables, labels, summaries."""
