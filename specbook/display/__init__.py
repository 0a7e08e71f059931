"""What people see: terminal tables, charts, the Explorer, and the pages of the book."""
