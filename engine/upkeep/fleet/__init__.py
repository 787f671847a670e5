"""How are many tables kept up, each by its own log?"""
