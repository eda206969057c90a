"""What people's verification of questions leaves in files, as ``annotate export`` writes them."""

# The files of kept and rejected questions.
KEPT, REJECTED = "EgoPlan_validation.json", "rejected.csv"
# Reasons in the second.
OPEN, SERVED, SKIPPED, DISAGREE, OTHER = (
    "not all labels yet",
    "served for the qualification",
    "skipped",
    "annotators disagree",
    "annotators agree on another choice than the record",
)
