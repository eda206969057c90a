"""A server on loopback with the requests and answers of ``vllm serve``, whose model is a table."""

import base64
import io
import json
from typing import Any

from PIL import Image

from judge_server import JudgeServer, Reply
from ranking.engine.table import logprob

MODEL = "team/model"


def probe(*_, **__):
    """Act as the tokenizer for the request that tests whether a server forces tokens."""
    return {"input_ids": [5, 6]}


class ChatServer(JudgeServer):
    """A server that answers with the processor's tokens and `logprob`.

    fault: Returns a reply to send instead, or None, from a request's body and the number of equal
    requests before it.
    edit: Changes an answer before it is sent.
    forces: Whether the server generates the forced tokens of a request.
    most: Maximum number of generated tokens; None for no maximum.
    stored: Images by ID. An image sent under a known ID is ignored.
    """

    def __init__(
        self,
        processor: Any,
        fault=lambda body, before: None,
        edit=lambda answer: None,
        forces=True,
        limit=4096,
        most=None,
        port=0,
    ):
        super().__init__(self._reply, port)
        self.processor, self.fault, self.edit, self.forces, self.most = (
            processor,
            fault,
            edit,
            forces,
            most,
        )
        self.stored: dict[str, str] = {}
        self.models = [{"id": "served", "root": MODEL, "object": "model", "max_model_len": limit}]

    @staticmethod
    def prompt_of(body):
        return json.dumps(body, sort_keys=True)

    def _reply(self, prompt, before):
        body = json.loads(prompt)
        if (fault := self.fault(body, before)) is not None:
            return fault
        try:
            answer = self.answer(body)
        except KeyError:
            return Reply("Cache miss for image at index 0 but data is not provided.", status=400)
        self.edit(answer)
        return Reply(body=json.dumps(answer).encode())

    def answer(self, body):
        ids = self.tokens(body)
        answer = {
            "id": "1",
            "object": "chat.completion",
            "model": "served",
            "prompt_token_ids": ids,
        }
        if "prompt_logprobs" in body:
            answer["prompt_logprobs"] = [
                self._row(ids, index) if index else None for index in range(len(ids))
            ]
        forced = body.get("vllm_xargs", {}).get("forced_token_ids", [])
        generated = (forced if self.forces and forced else [7] * body["max_tokens"])[: self.most]
        content = []
        for index, token in enumerate(generated):
            value, rank = logprob(ids + generated[:index], token)
            content.append(
                {
                    "token": "",
                    "logprob": value,
                    "top_logprobs": [{"logprob": value + 0.1 * (rank - 1)}],
                }
            )
        logprobs = {"content": content} if body.get("logprobs") else None
        answer["choices"] = [
            {"index": 0, "token_ids": generated, "logprobs": logprobs, "finish_reason": "length"}
        ]
        return answer

    @staticmethod
    def _row(ids, index):
        value, rank = logprob(ids[:index], ids[index])
        return {str(ids[index]): {"logprob": value, "rank": rank, "decoded_token": ""}}

    def tokens(self, body):
        """Return the tokens of messages by the checkpoint's template and processor, as in vLLM."""
        rendered = self.processor.apply_chat_template(
            [self._message(message) for message in body["messages"]],
            tokenize=True,
            return_dict=True,
            add_generation_prompt=body.get("add_generation_prompt", True),
            continue_final_message=body.get("continue_final_message", False),
        )
        return list(rendered["input_ids"][0])

    def _message(self, message):
        if isinstance(message["content"], str):
            return {**message, "content": [{"type": "text", "text": message["content"]}]}
        items = []
        for item in message["content"]:
            if item["type"] == "image_url":
                if item["image_url"] is not None:
                    self.stored.setdefault(item["uuid"], item["image_url"]["url"])
                data = base64.b64decode(self.stored[item["uuid"]].partition(",")[2])
                item = {"type": "image", "image": Image.open(io.BytesIO(data))}
            items.append(item)
        return {**message, "content": items}
