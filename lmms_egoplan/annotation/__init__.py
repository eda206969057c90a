"""Label data with human annotators: a local web page to verify, rate and revise, and the database
for the labels.
"""
