"""EgoPlan's questions and instruction data, made from narrated video (sec. 3, 5.1 and A.1)."""
