"""Name the environment variables that several modules read, write or mention.

Those of the judge's model, address and key are in `settings.py`.
"""

# For runs of a harness, with the same meaning as the options of commands; see `options.py`.
MAX_REQUESTS = "LMMS_EGOPLAN_JUDGE_MAX_REQUESTS"
MAX_COST = "LMMS_EGOPLAN_JUDGE_MAX_COST"
PRICES = "LMMS_EGOPLAN_JUDGE_PRICES"

TIMEOUT = "LMMS_EGOPLAN_JUDGE_TIMEOUT"
MAX_TOKENS = "LMMS_EGOPLAN_JUDGE_MAX_TOKENS"
MAX_MIB = "LMMS_EGOPLAN_JUDGE_MAX_MIB"
PARAMETERS = "LMMS_EGOPLAN_JUDGE_PARAMETERS"
PROTOCOL = "LMMS_EGOPLAN_JUDGE_PROTOCOL"

SERVER_KEY = "LMMS_EGOPLAN_SERVER_API_KEY"
