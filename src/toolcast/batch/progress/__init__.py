"""The progress of a job: counted in account.py, written as text in text.py, and shown by one of the displays."""
