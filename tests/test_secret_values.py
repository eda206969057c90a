"""Secrets in settings are hidden, and nothing else is."""

import pytest

from lmms_egoplan.secret_values import without_secrets


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("pretrained=m,api_key=abc", "abc"),
        ("OPENAI_API_KEY=sk-0123456789abcdef", "0123456789abcdef"),
        ("base_url=https://me:pass@host/v1", "me:pass"),
        ('{"token": "hf_0123456789abcdefgh"}', "hf_0123456789abcdefgh"),
        ("azure_openai_key=abc,x-functions-key: abc", "abc"),
        ('headers={"Authorization": "Bearer one two"}', "two"),
        (r'{"headers": "{\"Authorization\": \"Bearer abc\"}"}', "abc"),
    ],
)
def test_secrets_are_hidden(text, hidden):
    assert hidden not in without_secrets(text)
    assert without_secrets("max_new_tokens=5,dtype=bfloat16") == "max_new_tokens=5,dtype=bfloat16"
    assert (
        without_secrets("llava-7b-hf_fine-tuned-on-egoplan-it")
        == "llava-7b-hf_fine-tuned-on-egoplan-it"
    )
    kept = "keys_to_ignore=past_key_values,num_key_value_heads=2,eos_token_id=7"
    assert without_secrets(kept) == kept
    assert without_secrets("image_token=<image>,pad_token=x") == "image_token=<image>,pad_token=x"
