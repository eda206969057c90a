"""Run encoder-decoder models: the encoder once, then all candidates in one decoder batch."""

from collections.abc import Mapping, Sequence

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from lmms_egoplan.ranking.methods import SHARED
from lmms_egoplan.ranking.question import CandidateTokens, EncodedQuestion, RankingError
from lmms_egoplan.ranking.scores import CandidateScore, Passes, ScoringFunction, score_from_logits


def encoder_decoder_of(model: PreTrainedModel) -> PreTrainedModel | None:
    """Return the encoder-decoder: the model itself or the one inside; None without one.

    BLIP-2 and similar models contain one.
    """
    for candidate in (getattr(model, "language_model", None), model):
        if candidate is not None and getattr(candidate.config, "is_encoder_decoder", False):
            return candidate
    return None


def _decoder_start_token(model: PreTrainedModel) -> int:
    """Return the token that starts the decoder, before an answer's first one, like ``generate``.

    It is the decoder_start_token_id of the model's or of the generation configuration, or else the
    bos_token_id.

    Raises:
        RankingError: None of them is set.
    """
    generation = model.generation_config
    start = getattr(model.config, "decoder_start_token_id", None)
    tokens = (start, generation.decoder_start_token_id, generation.bos_token_id)
    start_token = next((token for token in tokens if token is not None), None)
    if start_token is None:
        raise RankingError(
            f"{model.name_or_path or type(model).__name__}: its configuration has neither "
            "decoder_start_token_id nor bos_token_id, so nothing precedes an answer; add one to "
            "generation_config.json"
        )
    return int(start_token)


class EncoderDecoderPasses(Passes):
    """Score a question with an encoder-decoder model in one of two ways.

    shared: Vision and text encoder run once. The candidates are a batch of decoder rows over an
        expanded view of the encoder's output, which is not copied per candidate.
    full: One independent pass per candidate.
    """

    def __init__(self, model: PreTrainedModel, seq2seq: PreTrainedModel) -> None:
        self._model = model
        self._seq2seq = seq2seq
        self._start = _decoder_start_token(seq2seq)

    @property
    def fast_paths(self) -> Mapping[str, ScoringFunction]:
        """The path on which the encoder runs once."""
        return {SHARED: self.shared}

    def shared(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Score all candidates after one encoder pass."""
        return [
            score_from_logits(candidate, logits)
            for candidate, logits in zip(
                question.candidates, self.shared_logits(question), strict=True
            )
        ]

    def shared_logits(self, question: EncodedQuestion) -> list[torch.Tensor]:
        """Return the logits of each candidate's scored tokens, shape (tokens, vocabulary).

        The encoder runs once for all candidates.
        """
        count = len(question.candidates)
        states = self._encode(question).expand(count, -1, -1)
        mask = question.inputs["attention_mask"].expand(count, -1)
        return self._decode(states, mask, question.candidates)

    def batch_logits(
        self, inputs: dict[str, torch.Tensor], candidates: Sequence[Sequence[CandidateTokens]]
    ) -> list[list[torch.Tensor]]:
        """Return the same as `shared_logits` for each question of a padded batch.

        Args:
            inputs: Inputs of the encoder with one row per question.
            candidates: The candidates, by question.
        """
        counts = torch.tensor([len(choices) for choices in candidates])
        flat = [candidate for choices in candidates for candidate in choices]
        states = self._encode(EncodedQuestion(inputs, flat, "batch"))
        counts = counts.to(states.device)
        logits = self._decode(
            states.repeat_interleave(counts, dim=0),
            inputs["attention_mask"].repeat_interleave(counts, dim=0),
            flat,
        )
        rows = iter(logits)
        return [[next(rows) for _ in choices] for choices in candidates]

    def _decode(
        self, states: torch.Tensor, mask: torch.Tensor, candidates: Sequence[CandidateTokens]
    ) -> list[torch.Tensor]:
        """Return the logits of each candidate's scored tokens over its row of encoder states."""
        started = [self._after_start(candidate) for candidate in candidates]
        rows = [self._decoder_inputs(candidate, states.device)[0] for candidate in started]
        output = self._seq2seq(
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=pad_sequence(rows, batch_first=True, padding_value=self._start),
            use_cache=False,
        )
        return [
            logits[candidate.first : len(candidate.tokens)]
            for candidate, logits in zip(started, output.logits, strict=True)
        ]

    def full_logits(
        self, question: EncodedQuestion, candidate: CandidateTokens, padding: Sequence[int] = ()
    ) -> torch.Tensor:
        """Return the logits of a candidate's scored tokens from one pass of the whole model.

        Padding follows the context in the encoder.
        """
        model = self._model if question.has_visuals else self._seq2seq
        candidate = self._after_start(candidate)
        decoder_inputs = self._decoder_inputs(candidate, question.inputs["input_ids"].device)
        inputs = question.model_inputs
        if padding:
            ids = inputs["input_ids"].new_tensor([padding])
            inputs["input_ids"] = torch.cat([inputs["input_ids"], ids], dim=1)
            inputs["attention_mask"] = torch.cat(
                [inputs["attention_mask"], torch.zeros_like(ids)], dim=1
            )
        logits = model(**inputs, decoder_input_ids=decoder_inputs, use_cache=False).logits[0]
        return logits[candidate.first :]

    def _after_start(self, candidate: CandidateTokens) -> CandidateTokens:
        """Remove a token that repeats the start.

        T5Gemma 2's tokenizer puts it before every text.
        """
        if candidate.first and candidate.tokens[0] == self._start:
            return CandidateTokens(candidate.tokens[1:], candidate.first - 1)
        return candidate

    def _decoder_inputs(self, candidate: CandidateTokens, device: torch.device) -> torch.Tensor:
        return torch.tensor([[self._start, *candidate.tokens[:-1]]], device=device)

    def _encode(self, question: EncodedQuestion) -> torch.Tensor:
        """Return the encoder's output, shape (rows, tokens, hidden)."""
        ids = question.inputs["input_ids"]
        mask = question.inputs["attention_mask"]
        if not question.has_visuals:
            return self._seq2seq.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
        start = torch.tensor([[self._start]] * len(ids), device=ids.device)
        output = self._model(**question.model_inputs, decoder_input_ids=start, use_cache=False)
        inner = getattr(output, "language_model_outputs", None) or output
        return inner.encoder_last_hidden_state
