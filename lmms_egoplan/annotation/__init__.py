"""Label data with human annotators.

A local web page to verify, rate, revise and write, and the database for the labels.
"""
