"""Which files make a version?"""
