"""How is a version kept as one state? Checkpoints of every shape, proven before they are seen."""
