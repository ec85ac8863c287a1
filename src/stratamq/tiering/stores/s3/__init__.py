"""`s3://`: the backend, and botocore's client behind it."""
