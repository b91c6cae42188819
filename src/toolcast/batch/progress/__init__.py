"""The progress of a job: counted in job_progress.py, written as text in progress_text.py, shown by a display."""
