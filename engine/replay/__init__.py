"""What do the files of a segment say, and who wins?"""
