"""Methods whose agents exchange rows with their neighbours alone."""
