"""What can be proven of a damaged log, and written anew?"""
