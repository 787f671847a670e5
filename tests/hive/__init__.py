"""The tests of the Hive room: one JVM for all of them, which ends with them."""
