"""Base of this package's lm-eval tasks: prepared data, requests that fit them, and answers scored together."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from datasets import Dataset, Image
from lm_eval.api.instance import Instance
from lm_eval.api.task import ConfigurableTask
from loguru import logger
from pyarrow import compute

from lmms_egoplan import __version__
from lmms_egoplan.errors import LmmsEgoplanError
from lmms_egoplan.harnesses.lm_eval.checkpoint import token_counter
from lmms_egoplan.harnesses.lm_eval.lazy_images import IMAGE_PLACEHOLDER
from lmms_egoplan.harnesses.lm_eval.shown_answer import IMAGES, clean_answer, media_of
from lmms_egoplan.judging.judge import announce_judge
from lmms_egoplan.judging.settings import JudgeSettings, judge_settings
from lmms_egoplan.processes import num_processes
from lmms_egoplan.ranking.chat_templates import has_system_turn
from lmms_egoplan.ranking.loglikelihood import Loglikelihood, LoglikelihoodText
from lmms_egoplan.storage import PreparedData

_REASONING_TAGS = (("<think>", "</think>"), ("<analysis>", "</analysis>"))


class PreparedTask(ConfigurableTask):
    """A task on a prepared split, which its YAML names as ``class`` and, in ``test_split``, as the split.

    Each document has more columns than the prepared ones: ``data``, the split's fingerprint, and ``shown``, entries
    of the task's ``metadata`` that `SETTINGS` and `COUNTS`, whole numbers of at least 1, name. So ``--metadata
    num_frames=6`` reaches what builds a request. A third, ``version``, is that of task and package.
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
            DataMissingError: it is not prepared.
            LmmsEgoplanError: a setting is absent or wrong.
        """
        split = self.config.test_split
        metadata = self.config.metadata = self.settled(self.config.metadata or {})
        settings, counts = self.shown_names(metadata)
        names = (*settings, *counts)
        absent = [name for name in names if name not in metadata]
        if absent:
            raise LmmsEgoplanError(f"{self.config.task}: its metadata must have {', '.join(absent)}")
        for name in counts:
            value = metadata[name]
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise LmmsEgoplanError(f"{self.config.task}: --metadata {name}={value}: a whole number of at least 1")
        documents = self.documents(self.PREPARED.load(split))
        columns: dict[str, Any] = {
            "data": self.PREPARED.fingerprint(split),
            "version": f"{metadata.get('version')}, {__version__}",
        }
        if names:
            columns["shown"] = {name: metadata[name] for name in names}
        for column, value in columns.items():
            documents = documents.add_column(column, [value] * len(documents))
        self.dataset = {split: documents}

    def shown_names(self, _metadata: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the names of settings and of counts in the metadata on which requests depend."""
        return self.SETTINGS, self.COUNTS

    def settled(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the task's metadata with what depends on the model decided; results contain it."""
        return metadata

    def documents(self, rows: Dataset) -> Dataset:
        """Return the prepared rows for lm-eval; it keeps all of them in memory, so without images."""
        return rows

    def fewshot_docs(self) -> None:
        """Return no examples: the protocols are zero-shot."""

    def prepare_scoring(self) -> None:
        """Load and try what the scoring needs, before the model is asked; not called for ``--predict_only``."""

    def build_all_requests(self, *, cache_requests: bool = False, **kwargs: Any) -> None:
        """Build requests as lm-eval, and again if its request cache has those of other data or settings.

        lm-eval files cached requests under the task's name, without regard to data, ``--metadata``, ``--gen_kwargs``,
        ``--samples``, and what a newer version of the task asks.
        """
        if self._scores:
            self.prepare_scoring()
        super().build_all_requests(cache_requests=cache_requests, **kwargs)
        if cache_requests and not self._fits(kwargs):
            logger.warning(
                f"{self.task_name}: the request cache holds other data or settings; building the requests anew"
            )
            super().build_all_requests(**kwargs | {"cache_requests": True, "rewrite_requests_cache": True})
            if not self._fits(kwargs):
                super().build_all_requests(cache_requests=False, **kwargs)

    def override_metric(self, metric_name: str) -> None:
        """Do not score: called for ``--predict_only``."""
        self._scores = False
        super().override_metric(metric_name)

    def process_results(self, doc: dict[str, Any], results: Sequence[Any]) -> dict[str, Any]:
        """Return the document's values; none for ``--predict_only``.

        On several processes None stands for a metric that the document does not have: lm-eval gathers the first
        process's metrics from all, so that others would be lost, and one that another process lacks is an error.
        """
        if not self._scores:
            return {}
        values = super().process_results(doc, results)
        return values if num_processes() == 1 else dict.fromkeys(self._aggregation_list) | values

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], Any]]:
        """Aggregate over the documents that have the metric; NaN if none has."""
        return {name: partial(_of_present, function) for name, function in super().aggregation().items()}

    def _fits(self, chosen: Mapping[str, Any]) -> bool:
        """Return whether the requests are of the evaluated documents, and the first one's what would be asked now."""
        names = ("rank", "limit", "world_size", "samples")
        documents = dict(self.doc_iterator(**{name: chosen[name] for name in names if name in chosen}))
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
        return [instance.args for instance in self.instances[: len(fresh)]] == [instance.args for instance in fresh]


def without_reasoning(text: str) -> str:
    """Remove blocks of reasoning, and white space around the text, by the rule of lmms-eval for every answer.

    If a block begins in the prompt, so that only its end is in the answer, all before the last end is reasoning. A
    block that does not end stays.
    """
    for begin, end in _REASONING_TAGS:
        while (start := text.find(begin)) >= 0 and (stop := text.find(end, start)) >= 0:
            text = text[:start] + text[stop + len(end) :]
        if begin not in text:
            text = text.rpartition(end)[2]
    return text.strip()


class RankedTask(PreparedTask):
    """A task of type ``multiple_choice`` whose candidates are compared by mean log-probability, too.

    lm-eval's model classes give the sum of a candidate's log-probabilities. Its tokens come with the answers of
    ``hf-vlm-ranker``; for other classes they are counted with the tokenizer of the model that the command line names.
    """

    def prepare_scoring(self) -> None:
        """Load the tokenizer; warn if there is none."""
        self._counter = token_counter(self.config.metadata or {})
        if self._counter is None:
            logger.warning(
                f"{self.task_name}: no tokenizer is known for this model, so candidates are compared by the sum of "
                "their log-probabilities alone, not by the mean per token, unless the model class counts tokens. Name "
                "the tokenizer: --metadata tokenizer=NAME"
            )

    def apply_filters(self) -> None:
        """Give each response the form in which the scoring reads it."""
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
            instance.filtered_resps["none"] = LoglikelihoodText.of(likelihood)
        return None


class SystemPromptTask(PreparedTask):
    """A task that has a system prompt for some models.

    It goes into a system turn where the model's chat template has one. ``doc_to_text`` then gets the document with
    `SYSTEM_TURN` and leaves the prompt out; else that function writes it, too.

    Attributes:
        used_system_turn: whether the requests were built with one.
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
        **others: Any,
    ) -> str | list[str]:
        """Build it as lm-eval; the task's system prompt comes after a ``--system_instruction``."""
        prompt = self.system_prompt(doc)
        if prompt is not None and apply_chat_template and chat_template is not None:

            def render(messages: Sequence[Mapping[str, Any]]) -> str:
                return str(chat_template([dict(message) for message in messages]))

            self.used_system_turn = has_system_turn(render, f"{IMAGE_PLACEHOLDER}?")
            if self.used_system_turn:
                doc = doc | {self.SYSTEM_TURN: True}
                given = [] if system_instruction is None else [system_instruction]
                system_instruction = self.config.fewshot_delimiter.join([*given, prompt])
        return super().fewshot_context(
            doc,
            num_fewshot,
            system_instruction=system_instruction,
            apply_chat_template=apply_chat_template,
            chat_template=chat_template,
            **others,
        )


@dataclass(frozen=True)
class Answered:
    """A document and the model's answer, without its reasoning and without white space around it.

    media: the form of its visual input (`media_of`).
    """

    doc: dict[str, Any]
    text: str
    media: str = IMAGES

    @classmethod
    def of(cls, instance: Instance) -> "Answered":
        """Strip an answer as lmms-eval does; one that an API sent without text is empty."""
        response = instance.resps[0]
        return cls(instance.doc, without_reasoning(response or ""), media_of(response))


class TogetherScoredTask(PreparedTask):
    """A task whose answers are scored all together before any of them is aggregated.

    FILTER: the name that the metrics bear, as in lmms-eval.
    """

    FILTER: ClassVar[str]

    @abstractmethod
    def score(self, answers: Sequence[Answered]) -> list[str]:
        """Return what ``process_results`` reads, for each answer."""

    def apply_filters(self) -> None:
        """Score the answers, instead of filtering each; what the harness logs of them can be written."""
        for instance in self.instances:
            instance.resps = [clean_answer(resp) if isinstance(resp, str) else resp for resp in instance.resps]
        if not self._scores:
            return super().apply_filters()
        answers = [Answered.of(instance) for instance in self.instances]
        if without_text := sum(instance.resps[0] is None for instance in self.instances):
            logger.warning(
                f"{self.task_name}: {without_text} of {len(answers)} replies came without text; they are empty"
            )
        for instance, text in zip(self.instances, self.score(answers), strict=True):
            instance.filtered_resps[self.FILTER] = text
        return None


class JudgedTask(TogetherScoredTask):
    """A task whose answers a judge model rates; the judge is tried before the model is asked.

    DEFAULT_JUDGE, OTHERWISE: as `announce_judge` takes them.
    """

    FILTER = "judged"
    DEFAULT_JUDGE: ClassVar[str]
    OTHERWISE: ClassVar[str] = ""

    def prepare_scoring(self) -> None:
        """Try the judge.

        Raises:
            JudgeError, LmmsEgoplanError: see `announce_judge`.
        """
        announce_judge(self.DEFAULT_JUDGE, self.OTHERWISE)

    def judge(self) -> JudgeSettings | None:
        """Return the judge that is set, with this process's share of the concurrency."""
        settings = judge_settings(self.DEFAULT_JUDGE)
        return settings and settings.shared_by(num_processes())


def _of_present(aggregate: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    present = [value for value in values if value is not None]
    return aggregate(present) if present else math.nan


def without_images(rows: Dataset, column: str) -> Dataset:
    """Replace a column of images by the rows' place in the split, ``row``.

    Lists of images are also replaced by their number, ``num_images``.
    """
    is_list = not isinstance(rows.features[column], Image)
    numbers = compute.list_value_length(rows.data.column(column)).to_pylist() if is_list else []
    rows = rows.remove_columns(column).add_column("row", list(range(len(rows))))
    return rows.add_column("num_images", numbers) if is_list else rows
