"""The outcomes of a job as files and tables: JSON Lines, CSV, Parquet and DataFrames."""
