"""How fast is txlog, and beside whom? `python -m bench` measures, prints, and keeps the numbers."""
