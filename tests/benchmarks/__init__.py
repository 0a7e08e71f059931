"""What the project promises, measured: ``make bench`` prints one table and gates nothing."""
