"""Hide API keys, tokens and passwords in settings and commands."""

import re

HIDDEN = "[hidden]"
_SECRET = (
    r"[\w-]*(?:(?:[-_]|api|access|private|subscription|account)[-_]?key|secret\w*|passw\w*"
    r"|(?<!(?:pad|eos|bos)_)(?<!(?:image|video|audio)_)token"
    r"|auth(?!or\b)\w*|credential\w*|bearer)"
)
SECRET_NAME = re.compile(_SECRET, re.IGNORECASE)
# A value in quotation marks is hidden up to the next one. An HTTP authentication scheme may precede
# another one. In URLs, ``key`` and ``sig`` are names of secrets, too.
_ASSIGNED = re.compile(
    rf"""
    ({_SECRET}|(?<=[?&])(?:key|sig|signature))
    (\\?['"]?\s*[=:]\s*\\?['"]?(?:(?<!['"])(?:bearer|basic|token)\s+)?)
    (?!\[hidden\])(?:(?<=['"])[^'"\\]+|[^,;&\s'"}}]+)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_KEYS = re.compile(
    r"""
    \b(?:
        (?:sk|gh[pousr]|xox[abp]|github_pat|glpat)[-_][A-Za-z0-9_-]{12,}
        | hf_[A-Za-z0-9]{16,}
        | AIza[\w-]{20,}
        | AKIA[A-Z0-9]{12,}
    )
    | (?<=://)[^/@\s,]+(?=@)  # name and password in a URL
    | (?<=\bbearer\s)[^,;&\s'"}]{16,}
    """,
    re.IGNORECASE | re.VERBOSE,
)


def without_secrets(text: str) -> str:
    """Hide secrets in settings.

    These are values with names such as ``api_key``, and keys in the formats of known services.

    >>> without_secrets("pretrained=m,api_key=abc,token=x,max_new_tokens=5")
    'pretrained=m,api_key=[hidden],token=[hidden],max_new_tokens=5'
    """
    return _KEYS.sub(HIDDEN, _ASSIGNED.sub(rf"\1\2{HIDDEN}", text))
