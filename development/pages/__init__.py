"""Pages, pictures and a header that are made from the code."""
