"""ActPlan-1K's classifier (sec. 4.2.2): a BERT-type encoder that tells from a gold plan whether a plan is correct."""
