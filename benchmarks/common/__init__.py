"""What the scripts share: options and tables, stepping a method by hand, the yardstick in C."""
