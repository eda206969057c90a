"""The parts of a report on EgoPlan-Bench and EgoPlan-Bench2."""
