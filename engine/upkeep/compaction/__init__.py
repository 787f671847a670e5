"""How does a range of commits become one file that says the same?"""
