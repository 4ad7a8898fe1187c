"""One solve: planning, the loop around every method, stopping, result, storage."""
