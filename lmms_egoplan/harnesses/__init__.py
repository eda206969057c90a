"""Thin adapters to the two harnesses, each in a folder that alone imports it, and what both adapters share."""
