"""Labels by people: one local page on which they verify, rate and revise, and the database that keeps their labels."""
