"""Score candidate continuations on the fastest path that is exact for the model."""

import math
from collections.abc import Generator, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from loguru import logger
from transformers import PreTrainedModel

from lmms_egoplan.ranking.audits import Kind, KindFinder
from lmms_egoplan.ranking.chat_templates import uses_template
from lmms_egoplan.ranking.decoder import DecoderPasses, keep_fractions
from lmms_egoplan.ranking.encoder_decoder import EncoderDecoderPasses, encoder_decoder_of
from lmms_egoplan.ranking.encoding import Message, QuestionEncoder, takes_token_types
from lmms_egoplan.ranking.equivalence import PathChecker, PathTrials
from lmms_egoplan.ranking.loglikelihood import PathUse
from lmms_egoplan.ranking.methods import AUTO, FULL
from lmms_egoplan.ranking.question import (
    EncodedQuestion,
    PathError,
    RankingError,
    check_length,
    on_device,
    ready,
)
from lmms_egoplan.ranking.scores import CandidateScore, Passes, float32_logits, is_near_tie
from lmms_egoplan.ranking.thread_copies import ThreadCopies

# Bump when scores may change; part of the cache key.
RANKING_VERSION = 6


class CandidateRanker:
    """Rank candidate continuations of a multimodal context by likelihood.

    Source: arXiv 2312.06722, sec. 3.5.

    Works with every model that ``AutoModelForImageTextToText`` loads. Vision encoder and context
    run once per question:

    - *packed* (decoder-only models with ``sdpa`` or ``eager`` attention: LLaVA, Qwen-VL, InternVL,
      SmolVLM, Gemma 3 and most others): The candidates' tokens run in one row on the context's
      cache, separated by a block attention mask. The context's keys and values exist only once, for
      any number of candidates.
    - *cached* (flash attention, recurrent layers such as Qwen3.5's): Each candidate runs on a copy
      of the cache, one copy at a time.
    - *shared* (encoder-decoder models: BLIP-2 and InstructBLIP with Flan-T5): The candidates are a
      batch of decoder rows over an expanded view of the encoder's output.
    - *full*: One independent pass per candidate, used only if the faster paths are not exact.

    The first question of each kind is computed on every path, also with two probes: candidates of
    ordinary words. The kind gets the fastest path whose mean losses agree with those of full
    passes; if that is *full*, a warning says so. In half precision, four questions decide together,
    and the first three get the scores of full passes. `paths` lists the choices. Audits compare
    later questions with full passes. The modules `lmms_egoplan.ranking.audits` and
    `lmms_egoplan.ranking.equivalence` state the rules.

    Audits never change scores: a question gets the scores of its kind's path whether it is audited
    or not. Two groups of questions get the scores of full passes instead: those after which the
    probes do not fit, and, in float32, those whose best candidate leads by less than twice the
    tolerance. In half precision, full passes are no more exact. A question whose best candidate
    leads by less than the noise is marked as a near tie. In half precision, logits are computed in
    float32.

    Args:
        model: A transformers vision-language model, in eval mode, on its device.
        processor: The model's processor.
        score_eos: Append the token that ends the assistant's turn to every candidate.
        apply_chat_template: Render messages with the chat template of the processor, or else of its
            tokenizer. None: unless there is none, and the model's family never had one
            (`may_lack_template`).
        separate_candidates: Without a chat template: separate text and candidate by a space.
        path: ``auto``, or the path for all questions. A forced path is audited from the first
            question, but a failed audit is only a warning.

    Raises:
        ValueError: The model does not support this path.
        RankingError: The chat template must be applied, but is missing or has no placeholder for
            images.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from PIL import Image
    >>> from transformers import AutoModelForImageTextToText, AutoProcessor
    >>> from lmms_egoplan.demo.checkpoint import write_checkpoint
    >>> with TemporaryDirectory() as folder:  # any checkpoint, or a name on the hub
    ...     write_checkpoint(Path(folder))
    ...     model = AutoModelForImageTextToText.from_pretrained(folder).eval()
    ...     processor = AutoProcessor.from_pretrained(folder)
    >>> image = {"type": "image", "image": Image.new("RGB", (64, 48))}
    >>> text = {"type": "text", "text": "What comes next?"}
    >>> messages = [{"role": "user", "content": [image, text]}]
    >>> ranker = CandidateRanker(model, processor)
    >>> scores = ranker.score(messages, ["open the tap", "dry the cup with a towel"])
    >>> best = min(scores, key=lambda score: score.nll)
    >>> best.nll > 0, best.logprob < 0, best.num_tokens == len(best.token_logprobs)
    (True, True, True)
    >>> ranker.paths
    {'image': 'packed'}
    """

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Any,
        *,
        score_eos: bool = False,
        apply_chat_template: bool | None = None,
        separate_candidates: bool = True,
        path: str = AUTO,
    ) -> None:
        keep_fractions(model)
        self._model = model
        seq2seq = encoder_decoder_of(model)
        self._is_encoder_decoder = seq2seq is not None
        if apply_chat_template is None:
            apply_chat_template = uses_template(model.config.to_dict(), processor)
        self._encoder = QuestionEncoder(
            processor,
            is_encoder_decoder=self._is_encoder_decoder,
            score_eos=score_eos,
            apply_chat_template=apply_chat_template,
            separate_candidates=separate_candidates,
            token_types=takes_token_types(model),
        )
        self._encoders = ThreadCopies(self._encoder)
        self._passes: Passes = (
            DecoderPasses(model) if seq2seq is None else EncoderDecoderPasses(model, seq2seq)
        )
        self._fast_paths = list(self._passes.fast_paths)
        if path not in (AUTO, *self._fast_paths, FULL):
            raise ValueError(
                f"ranking_path={path}: {model.config.model_type} needs one of "
                f"{', '.join((AUTO, *self._fast_paths, FULL))}"
            )
        self._forced = None if path == AUTO else path
        self._checker = PathChecker(model, self._passes, self._encoder.ordinary_tokens)
        self._checkers: dict[str, PathChecker] = {}
        self._kind_finder = KindFinder(model.config.get_text_config(decoder=True))
        self._kinds: dict[str, Kind] = {}
        self._trials: dict[str, PathTrials] = {}

    @property
    def paths(self) -> dict[str, str]:
        """The chosen path of each kind of questions."""
        return {name: kind.path for name, kind in self._kinds.items() if kind.path is not None}

    def exclude(self, paths: Sequence[str]) -> None:
        """Never use these paths, which are known to be inexact for this model."""
        self._fast_paths = [path for path in self._fast_paths if path not in paths]
        self._trials = {}
        self._kinds = {
            name: kind
            for name, kind in self._kinds.items()
            if kind.path not in paths or kind.path == self._forced
        }

    def score(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str = "(unnamed)"
    ) -> list[CandidateScore]:
        """Score each candidate as the assistant's answer to the messages.

        Args:
            messages: Chat messages with ``{"type": "image", "image": PIL.Image}``, ``{"type":
                "video", "video": [PIL.Image]}`` and ``{"type": "text", "text": str}`` items.
            candidates: At least one candidate; none may be empty.
            question_id: ID of the question for error messages.

        Returns:
            One score per candidate, in the same order.

        Raises:
            ContextTooLongError: The context and its longest candidate exceed the model's positions.
            PathError: An audit failed. Do not use scores from that path.
            RankingError: There are no candidates, one is empty or contains a media placeholder, or
                the model cannot be ranked by likelihood or is in training mode.
        """
        return self.score_encoded(self.encode(messages, candidates, question_id))

    def encode(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str = "(unnamed)"
    ) -> EncodedQuestion:
        """Convert images to pixels and text to tokens, on the CPU.

        Thread-safe; raises like `score`.
        """
        with self._encoders.borrow() as encoder:
            question = encoder.encode(messages, candidates, question_id)
        if not self._is_encoder_decoder:
            check_length(
                self._model, question.prefix_length, question.longest_candidate, question_id
            )
        return question

    def encode_ahead(
        self, messages: Sequence[Message], candidates: Sequence[str], question_id: str = "(unnamed)"
    ) -> EncodedQuestion:
        """Encode like `encode`, and prepare the inputs for the device; see `ready`."""
        question = self.encode(messages, candidates, question_id)
        return replace(question, inputs=ready(question.inputs, self._model))

    @torch.inference_mode()
    def score_encoded(self, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question encoded by `encode`."""
        if any(module.training for module in self._model.modules()):
            raise RankingError(
                f"question {question.question_id}: the model is in training mode, so its scores "
                "are random; call model.eval() before ranking"
            )
        with float32_logits(self._model):
            return self._score(replace(question, inputs=on_device(question.inputs, self._model)))

    def scores(
        self, questions: Iterable[EncodedQuestion]
    ) -> Generator[list[CandidateScore], None, None]:
        """Yield the candidates' scores of each question from `encode_ahead`, in order."""
        for question in questions:
            yield self.score_encoded(question)

    def _score(self, question: EncodedQuestion) -> list[CandidateScore]:
        name = self._kind_finder.kind(question)
        if not self._forced and not self._checker.probes(self._room(question)):
            return self._full(name, question)
        kind = self._kinds.setdefault(name, Kind(path=self._forced))
        kind.count += 1
        if kind.path is None:
            return self._choose(name, kind, question)
        if kind.path == FULL:
            return self._full(name, question)
        if kind.needs_audit(question):
            return self._audited(name, kind, question)
        scores = self._passes.score(kind.path, question)
        if self._takes_full_passes(name, scores):
            return self._audited(name, kind, question)
        return self._with_use(scores, PathUse(kind.path, name))

    def _checker_of(self, name: str) -> PathChecker:
        """Return the checker of a kind."""
        if name not in self._checkers:
            self._checkers[name] = self._checker.for_kind()
        return self._checkers[name]

    def _full(self, name: str, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question by full passes."""
        scores = self._passes.full(question)
        checker = self._checker_of(name)
        if checker.noise is None:
            checker.measure_noise(question, scores)
        return self._with_use(scores, PathUse(FULL, name))

    def _choose(self, name: str, kind: Kind, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question by full passes and on every path.

        Choose the kind's path after enough questions.
        """
        checker = self._checker_of(name)
        reference = self._passes.full(question)
        if not all(math.isfinite(score.logprob) for score in reference):
            # infinite and NaN losses cannot be compared
            return self._with_use(reference, PathUse(FULL, name))
        trials = self._trials.setdefault(name, PathTrials())
        probes = checker.probes(self._room(question))
        objections = checker.try_paths(self._fast_paths, question, reference, probes, trials)
        kind.note_comparison(replace(question, candidates=[*question.candidates, *probes]))
        if objections is None:
            return self._with_use(reference, PathUse(FULL, name))
        rejected = tuple(path for path, objection in objections.items() if objection)
        kind.path = next((path for path in self._fast_paths if path not in rejected), FULL)
        del self._trials[name]
        model = self._model.name_or_path or type(self._model).__name__
        logger.info(
            f"{model}: rounding changes a mean loss by up to {checker.noise:.2g} nats ({name})"
        )
        if kind.path == FULL:
            reasons = "; ".join(f"{path}: {objection}" for path, objection in objections.items())
            logger.warning(
                f"{model}: no shared-context path is exact for this model, so ranking runs a full "
                f"pass per candidate ({name}; {reasons or 'the faster paths failed earlier'})"
            )
            return self._with_use(reference, PathUse(FULL, name, rejected=rejected))
        outcomes = trials.outcomes[kind.path]
        scores = outcomes[-2].scores
        assert scores is not None
        largest = max(outcome.difference for outcome in outcomes)
        return self._with_use(scores, PathUse(kind.path, name, largest, rejected), reference)

    def _audited(self, name: str, kind: Kind, question: EncodedQuestion) -> list[CandidateScore]:
        """Score a question on its kind's path, and compare the result with full passes.

        Raises:
            PathError: The scores differ, and the path was not forced.
            RankingError: The path was forced, and failed.
        """
        assert kind.path is not None
        checker = self._checker_of(name)
        reference = self._passes.full(question)
        if checker.noise is None:
            checker.measure_noise(question, reference)
        outcome = checker.compare(kind.path, question, reference)
        if outcome.scores is not None:
            kind.note_comparison(question)
        if not all(math.isfinite(score.logprob) for score in reference):
            return self._with_use(outcome.scores or reference, PathUse(kind.path, name), reference)
        if self._forced and outcome.scores is None:
            raise RankingError(
                f"question {question.question_id}: ranking_path={kind.path}: {outcome.problem}"
            )
        objection = checker.objection([outcome], question, reference)
        if objection and self._forced:
            logger.warning(
                f"question {question.question_id}: ranking_path={kind.path} is not exact for this "
                f"model: {objection}"
            )
        elif objection:
            failed = [kind.path, *self._other_failed_paths(name, kind.path, question, reference)]
            self.exclude(failed)
            raise PathError(failed, name, objection, question.question_id)
        assert outcome.scores is not None
        return self._with_use(
            outcome.scores, PathUse(kind.path, name, outcome.difference), reference
        )

    def _other_failed_paths(
        self, name: str, failed: str, question: EncodedQuestion, reference: Sequence[CandidateScore]
    ) -> list[str]:
        """Return the fast paths, except `failed`, that are inexact for a question."""
        inexact = []
        for path in self._fast_paths:
            if path == failed:
                continue
            outcome = self._checker_of(name).compare(path, question, reference)
            if self._checker_of(name).objection([outcome], question, reference):
                inexact.append(path)
        return inexact

    def _takes_full_passes(self, name: str, scores: Sequence[CandidateScore]) -> bool:
        """Return whether full passes are needed to find the best candidate."""
        if self._forced or self._checker.is_half_precision:
            return False
        return is_near_tie(scores, 2 * self._checker_of(name).tolerance)

    def _with_use(
        self,
        scores: Sequence[CandidateScore],
        use: PathUse,
        reference: Sequence[CandidateScore] | None = None,
    ) -> list[CandidateScore]:
        """Attach `use` to the scores.

        For a near tie in float32, return the reference scores of full passes instead.
        """
        if use.path != FULL and reference is not None and self._takes_full_passes(use.kind, scores):
            scores = reference
            use = replace(use, path=FULL)
        checker = self._checker_of(use.kind)
        near_tie = is_near_tie(scores, checker.noise or 0)
        use = replace(use, tolerance=checker.tolerance, noise=checker.noise, near_tie=near_tie)
        return [replace(score, use=use) for score in scores]

    def _room(self, question: EncodedQuestion) -> int | None:
        """Return the maximum length of a probe after this question, in tokens.

        None if unlimited.
        """
        rooms = [self._kind_finder.room(question)]
        positions = getattr(
            self._model.config.get_text_config(decoder=True), "max_position_embeddings", None
        )
        if positions is not None and not self._is_encoder_decoder:
            rooms.append(positions - question.prefix_length)
        return min((room for room in rooms if room is not None), default=None)
