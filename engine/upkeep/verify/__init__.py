"""Is a log sound? Every file is held against the commits."""
