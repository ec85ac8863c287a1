"""`s3://`: the backend, and its botocore client."""
