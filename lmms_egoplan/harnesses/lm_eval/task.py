"""Share code of this package's lm-eval tasks.

They prepare data, build matching requests, and score all answers together.
"""

import functools
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from datasets import Dataset
from lm_eval import evaluator
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from loguru import logger

from lmms_egoplan import __version__
from lmms_egoplan.benchmarks.presets import reject_former_variable
from lmms_egoplan.benchmarks.subset import mark
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses import record
from lmms_egoplan.harnesses.lm_eval.checkpoint import token_counter
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER
from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, clean_answer, media_of, truncated_of
from lmms_egoplan.judging.judge import announce_requests
from lmms_egoplan.judging.probe import announce_judge
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.processes import num_processes
from lmms_egoplan.ranking.chat_templates import has_system_turn
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.storage import PreparedData


def _plain_text(lm: Any, arguments: Mapping[str, Any]) -> str | None:
    """Return the mark of a run without a chat template.

    The harness applies a template only if asked to.
    """
    # inside lm-eval's cache; properties could load something
    attributes = vars(getattr(lm, "lm", lm))
    exists = any(
        getattr(attributes.get(name), "chat_template", None) for name in ("processor", "tokenizer")
    )
    return record.plain_text(is_applied=bool(arguments.get("apply_chat_template")), exists=exists)


_evaluate = evaluator.evaluate
_evaluate_and_record = record.recorded(_evaluate, _plain_text)


@functools.wraps(_evaluate)
def _evaluate_model(lm: Any, task_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
    """Evaluate like lm-eval, and add the record to results with this package's tasks."""
    tasks = task_dict.get("tasks", task_dict)
    if any(isinstance(task, PreparedTask) for task in tasks.values()):
        return _evaluate_and_record(lm, task_dict, *args, **kwargs)
    return _evaluate(lm, task_dict, *args, **kwargs)


evaluator.evaluate = _evaluate_model

_REASONING_TAGS = (("<think>", "</think>"), ("<analysis>", "</analysis>"))


class PreparedTask(ConfigurableTask):
    """A task on a prepared split.

    Its YAML has this class as ``class`` and the split as ``test_split``.

    Documents have three columns in addition to the prepared ones:

    - ``data``: The split's fingerprint.
    - ``shown``: The entries of the task's ``metadata`` listed in `SETTINGS` and `COUNTS` (integers
      of at least 1). This passes ``--metadata num_frames=6`` to the functions that build a request.
    - ``version``: The versions of the task and the package.
    """

    PREPARED: ClassVar[PreparedData]
    SETTINGS: ClassVar[tuple[str, ...]] = ()
    COUNTS: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._scores = True
        super().__init__(config={name: value for name, value in config.items() if name != "class"})

    def download(self, *_: Any) -> None:
        """Load the prepared split.

        Raises:
            DataMissingError: The split is not prepared.
            LmmsEgoplanError: A setting is missing or invalid, or `reject_former_variable` refuses.
        """
        reject_former_variable()
        split = self.config.test_split
        metadata = self.config.metadata = self.resolve_metadata(self.config.metadata or {})
        settings, counts = self.shown_names(metadata)
        names = (*settings, *counts)
        missing = [name for name in names if name not in metadata]
        if missing:
            raise LmmsEgoplanError(
                f"{self.config.task}: metadata lacks {', '.join(missing)}; add it in the YAML file"
            )
        for name in counts:
            value = metadata[name]
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise LmmsEgoplanError(
                    f"{self.config.task}: --metadata {name}={value}: must be an integer "
                    "of at least 1"
                )
        process = self.config.process_docs or (lambda rows: rows)
        # Before `mark`: a compact run shows the partners of a full one.
        documents = process(self.documents(self.PREPARED.load(split)))
        documents = mark(documents, self.PREPARED.benchmark, split, only=True)
        columns: dict[str, Any] = {
            "data": self.PREPARED.fingerprint(split),
            "version": f"{metadata.get('version')}, {__version__}",
        }
        if names:
            columns["shown"] = {name: metadata[name] for name in names}
        for column, value in columns.items():
            documents = documents.add_column(column, [value] * len(documents))
        self.dataset = {split: documents}

    def test_docs(self) -> Dataset:
        """Return the documents; `download` has applied ``process_docs``."""
        return self.dataset[self.config.test_split]

    def shown_names(self, _metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of the settings and counts in the metadata that affect requests."""
        return self.SETTINGS, self.COUNTS

    def resolve_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the task's metadata after resolving entries that depend on the model.

        The results contain it.
        """
        return metadata

    def documents(self, rows: Dataset) -> Dataset:
        """Return the prepared rows without images, since lm-eval keeps all rows in memory."""
        return rows

    def fewshot_docs(self) -> None:
        """Return no examples: the protocols are zero-shot."""

    def prepare_scoring(self) -> None:
        """Load and test the scorers before the model runs. Not called for ``--predict_only``."""

    def build_all_requests(self, *, cache_requests: bool = False, **kwargs: Any) -> None:
        """Build requests like lm-eval.

        Rebuild them if its request cache has different data or settings.

        lm-eval's cache depends only on the task's name, not on the data, ``--metadata``,
        ``--gen_kwargs``, ``--samples`` or the version of the task.
        """
        if self._scores:
            self.prepare_scoring()
        super().build_all_requests(cache_requests=cache_requests, **kwargs)
        if cache_requests and not self._fits(kwargs):
            logger.warning(
                f"{self.task_name}: the request cache contains other data or settings; "
                "rebuilding the requests"
            )
            super().build_all_requests(
                **kwargs | {"cache_requests": True, "rewrite_requests_cache": True}
            )
            if not self._fits(kwargs):
                super().build_all_requests(cache_requests=False, **kwargs)
        instruction = kwargs.get("system_instruction")
        for instance in self.instances:
            record.note(
                instance,
                images=lambda doc=instance.doc: self.doc_to_text(doc).count(IMAGE_PLACEHOLDER),
                asked=lambda doc=instance.doc: self._asked(doc, instruction),
            )

    def _asked(self, doc: dict[str, Any], instruction: str | None) -> str:
        """Return a document's prompt before the chat template.

        lmms-eval logs every prompt in this form.
        """
        return str(self.fewshot_context(doc, 0, system_instruction=instruction))

    def override_metric(self, metric_name: str) -> None:
        """Disable scoring; called for ``--predict_only``."""
        self._scores = False
        super().override_metric(metric_name)

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Return the document's values; empty for ``--predict_only``.

        With several processes, missing metrics are None. lm-eval gathers the first process's
        metrics from all processes: further metrics would be lost, and a metric missing in another
        process would be an error.
        """
        if not self._scores:
            return {}
        values = super().process_results(doc, results)
        return values if num_processes() == 1 else dict.fromkeys(self._aggregation_list) | values

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], Any]]:
        """Aggregate over the documents that have the metric; NaN without any."""
        return {
            name: partial(_aggregate_present, function)
            for name, function in super().aggregation().items()
        }

    def _fits(self, chosen: Mapping[str, Any]) -> bool:
        """Return whether the requests match the evaluated documents.

        The first one must also match a newly built request.
        """
        names = ("rank", "limit", "world_size", "samples")
        documents = dict(
            self.doc_iterator(**{name: chosen[name] for name in names if name in chosen})
        )
        if {instance.doc_id: instance.doc for instance in self.instances} != documents:
            return False
        first = self.instances[0]
        template = {name: chosen.get(name) for name in ("apply_chat_template", "chat_template")}
        context = self.fewshot_context(
            first.doc,
            self.config.num_fewshot or 0,
            system_instruction=chosen.get("system_instruction"),
            fewshot_as_multiturn=chosen.get("fewshot_as_multiturn", False),
            gen_prefix=self.doc_to_prefix(first.doc),
            **template,
        )
        metadata = (first.task_name, first.doc_id, first.repeats)
        fresh = self.construct_requests(doc=first.doc, ctx=context, metadata=metadata, **template)
        fresh = fresh if isinstance(fresh, list) else [fresh]
        return [instance.args for instance in self.instances[: len(fresh)]] == [
            instance.args for instance in fresh
        ]


def without_reasoning(text: str) -> str:
    """Remove blocks of reasoning and surrounding white space, as lmms-eval does for every answer.

    If the prompt starts a block, the answer has only its end tag; everything before the last end
    tag is then removed. A block without an end tag is kept.
    """
    for begin, end in _REASONING_TAGS:
        start = text.find(begin)
        stop = text.find(end, start)
        while start >= 0 and stop >= 0:
            text = text[:start] + text[stop + len(end) :]
            start = text.find(begin)
            stop = text.find(end, start)
        if begin not in text:
            text = text.rpartition(end)[2]
    return text.strip()


class RankedTask(PreparedTask):
    """A ``multiple_choice`` task that also compares candidates by mean log-probability.

    lm-eval's model classes return the sum of a candidate's log-probabilities. ``hf-vlm-ranker``
    also returns the number of tokens. For other classes, tokens are counted with the tokenizer of
    the model on the command line.
    """

    def prepare_scoring(self) -> None:
        """Load the tokenizer; warn if it is missing."""
        self._counter = token_counter(self.config.metadata or {})
        if self._counter is None:
            logger.warning(
                f"{self.task_name}: the tokenizer of this model is unknown. Unless the model class "
                "counts tokens, candidates are compared only by the sum of their "
                "log-probabilities, not by the mean per token. Set the tokenizer with --metadata "
                "tokenizer=NAME"
            )

    def apply_filters(self) -> None:
        """Convert each response to the form expected by the scoring."""
        if not self._scores:
            return super().apply_filters()
        for instance in self.instances:
            response = instance.resps[0]
            num_tokens = getattr(response, "num_tokens", None)
            if num_tokens is None and self._counter is not None:
                num_tokens = self._counter.count(*instance.args[:2])
            use = getattr(response, "use", None)
            logprob, is_greedy = response
            likelihood = Loglikelihood(None, num_tokens, is_greedy, logprob, use)
            instance.filtered_resps["none"] = LoglikelihoodText.from_score(likelihood)
        return None


class SystemPromptTask(PreparedTask):
    """A task that has a system prompt for some models.

    If the model's chat template has a system turn, the prompt goes there. ``doc_to_text`` then gets
    the document with `SYSTEM_TURN` and omits the prompt. Otherwise, that function includes it in
    the text.

    Attributes:
        used_system_turn: Whether the requests were built with a system turn.
    """

    SYSTEM_TURN: ClassVar[str] = "system_turn"

    used_system_turn = False

    @abstractmethod
    def system_prompt(self, doc: Mapping[str, Any]) -> str | None:
        """Return the system prompt; None if the model has none."""

    def fewshot_context(
        self,
        doc: dict[str, Any],
        num_fewshot: int,
        *,
        system_instruction: str | None = None,
        apply_chat_template: bool = False,
        chat_template: Callable[..., str] | None = None,
        **kwargs: Any,
    ) -> str | list[str]:
        """Build the context like lm-eval.

        The task's system prompt follows ``--system_instruction``.
        """
        prompt = self.system_prompt(doc)
        if prompt is not None and apply_chat_template and chat_template is not None:

            def render(messages: Sequence[Mapping[str, Any]]) -> str:
                return str(chat_template([dict(message) for message in messages]))

            self.used_system_turn = has_system_turn(render, f"{IMAGE_PLACEHOLDER}?")
            if self.used_system_turn:
                doc = doc | {self.SYSTEM_TURN: True}
                instructions = [] if system_instruction is None else [system_instruction]
                system_instruction = self.config.fewshot_delimiter.join([*instructions, prompt])
        return super().fewshot_context(
            doc,
            num_fewshot,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            chat_template=chat_template,
            **kwargs,
        )


@dataclass(frozen=True, slots=True)
class Answered:
    """A document and the model's answer.

    Attributes:
        doc: The document.
        text: The answer, without reasoning and surrounding white space.
        media: Form of the visual input (`media_of`).
        truncated: Whether the limit on new tokens ended the answer; None if unknown
            (`truncated_of`).
    """

    doc: dict[str, Any]
    text: str
    media: str = IMAGES
    truncated: bool | None = None

    @classmethod
    def from_instance(cls, instance: Instance) -> "Answered":
        """Strip an answer as lmms-eval does. An API's answer without text becomes empty."""
        response = instance.resps[0]
        return cls(
            instance.doc,
            without_reasoning(response or ""),
            media_of(response),
            truncated_of(response),
        )


class TogetherScoredTask(PreparedTask):
    """A task that scores all answers together before aggregation.

    Attributes:
        FILTER: Filter name of the metrics, as in lmms-eval.
    """

    FILTER: ClassVar[str]

    @abstractmethod
    def score(self, answers: Sequence[Answered]) -> list[str]:
        """Return the input of ``process_results`` for each answer."""

    def apply_filters(self) -> None:
        """Score all answers instead of filtering each.

        Clean them first, so that the harness can log them.
        """
        for instance in self.instances:
            instance.resps = [
                clean_answer(resp) if isinstance(resp, str) else resp for resp in instance.resps
            ]
        if not self._scores:
            return super().apply_filters()
        answers = [Answered.from_instance(instance) for instance in self.instances]
        without_text = sum(instance.resps[0] is None for instance in self.instances)
        if without_text:
            logger.warning(
                f"{self.task_name}: {without_text} of {len(answers)} replies have no "
                "text; they count as empty"
            )
        for instance, text in zip(self.instances, self.score(answers), strict=True):
            instance.filtered_resps[self.FILTER] = text
        return None


class JudgedTask(TogetherScoredTask):
    """A task whose answers a judge model rates. The judge is tested before the model runs.

    Attributes:
        DEFAULT_JUDGE: As in `announce_judge`.
        OTHERWISE: As in `announce_judge`.
        PROBE_FORM: As in `announce_judge`.
        REQUESTS: Number of requests to the judge for an answer.
    """

    FILTER = "judged"
    DEFAULT_JUDGE: ClassVar[str]
    OTHERWISE: ClassVar[str] = ""
    PROBE_FORM: ClassVar[Any] = None
    REQUESTS: ClassVar[int] = 1

    def prepare_scoring(self) -> None:
        """Test the judge.

        Raises:
            JudgeError, LmmsEgoplanError: See `announce_judge`.
        """
        announce_judge(self.DEFAULT_JUDGE, self.OTHERWISE, self.PROBE_FORM)

    def build_all_requests(self, **kwargs: Any) -> None:
        """Build requests, and announce those to the judge."""
        super().build_all_requests(**kwargs)
        if self._scores:
            announce_requests(
                self.task_name, self.REQUESTS * len(self.instances), self.DEFAULT_JUDGE
            )

    def judge(self) -> JudgeSettings | None:
        """Return the configured judge, with this process's share of the concurrency."""
        settings = judge_settings(self.DEFAULT_JUDGE)
        return settings and settings.shared_by(num_processes())


def _aggregate_present(aggregate: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    present = [value for value in values if value is not None]
    return aggregate(present) if present else math.nan
