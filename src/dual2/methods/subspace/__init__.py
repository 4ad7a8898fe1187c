"""Newton in the span of known directions: exact sums of p-vectors alone, for many rows."""
