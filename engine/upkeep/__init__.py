"""What do we write back? Checkpoints, compactions, and less of what nobody needs."""
