"""What do we add to a log?"""
