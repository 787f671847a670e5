"""How is a plain Hive table, one without a log, kept? Its small files are rewritten safely."""
