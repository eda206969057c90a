"""Label data with human annotators.

A local web page to verify, rate, revise and write, and the database for the labels.
"""

LABEL_STUDIO_TOKEN = "LABEL_STUDIO_API_KEY"
"""Environment variable with an access token of Label Studio. Its SDK reads the same one."""
