"""What do people look at?"""
