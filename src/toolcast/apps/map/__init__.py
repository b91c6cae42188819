"""`toolcast map`: one structured call for each row of a file."""
