"""The HTML report of experiment runs, with its charts."""
