"""txlog: rebuild, keep and prove the transaction logs of lake tables."""
