"""Build EgoPlan's questions and instruction data from narrated videos (sec. 3, 5.1 and A.1)."""
