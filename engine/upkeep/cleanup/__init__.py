"""Which log files may go, and in which order? Only what a proven checkpoint covers."""
