"""Requests to an engine, their order, and the scores from its answers, with a table as engine."""

import math

import pytest
from PIL import Image

from lmms_egoplan.ranking import CandidateRanker, ContextTooLongError, PathError, RankingError
from lmms_egoplan.ranking.engine.ranker import EngineRanker
from lmms_egoplan.ranking.engine.requests import (
    EngineError,
    EngineQuestion,
    EngineResponse,
    NotForcedError,
    token_question,
)
from lmms_egoplan.ranking.engine.schedule import Schedule
from lmms_egoplan.ranking.loglikelihood import END_OF_ANSWER
from lmms_egoplan.ranking.methods import FORCED, PROMPT_LOGPROBS
from lmms_egoplan.ranking.question import CandidateTokens
from ranking.engine.table import expected, logprob
from ranking.reference import user_turn
from zoo import build

IMAGE = Image.new("RGB", (60, 40), "red")


class TableEngine:
    """An engine that answers from `logprob`, at most `batch` requests at a time, oldest first.

    wrong: IDs of questions in which the forced tokens of the longer candidate are 0.5 nats too
    likely.
    """

    is_float32 = True
    forces, how_to_force = True, "switch it on"
    to_question = staticmethod(token_question)

    def __init__(self, limit=1000, batch=3, wrong=(), replies=None):
        self.limit, self.batch, self.wrong, self.replies = limit, batch, wrong, replies
        self.waiting, self.log, self.aborted = [], [], None

    def submit(self, name, question, request):
        self.waiting.append((name, question, request))
        self.log.append(name)

    def poll(self):
        assert self.waiting, "nothing to wait for"
        taken, self.waiting = self.waiting[: self.batch], self.waiting[self.batch :]
        return [(name, self.answer(name, question, request)) for name, question, request in taken]

    def answer(self, name, question, request):
        if self.replies and (reply := self.replies(name, request)):
            return reply
        prompt = request.prompt
        off = 0.5 if question.question_id in self.wrong and len(request.forced) > 1 else 0.0
        if request.takes_prompt_logprobs:
            start = len(question.prefix)
            read = [logprob(prompt[:k], prompt[k]) for k in range(start, len(prompt))]
            return EngineResponse(len(prompt), prompt[start:], read)
        forced = [
            logprob(prompt + request.forced[:k], token) for k, token in enumerate(request.forced)
        ]
        return EngineResponse(
            len(prompt), request.forced, [(value + off, rank) for value, rank in forced]
        )

    def abort(self, names):
        self.aborted = list(names)


def question(number, prefix=20, media=()):
    candidates = [CandidateTokens([number, 7, 8], first=1), CandidateTokens([number], first=0)]
    return EngineQuestion(
        f"q{number}", [*range(prefix - 1), number], candidates, {kind: [None] for kind in media}
    )


def ranker(engine, method="auto", in_flight=4):
    return EngineRanker(engine, build("llava")[1], method=method, in_flight=in_flight)


@pytest.mark.parametrize(
    "is_first",
    [lambda name: True, lambda name: "prompt" in name, lambda name: "prompt" not in name],
)
def test_a_question_ends_in_whichever_order_refusals_of_forced_tokens_come(is_first):
    class Shuffled(TableEngine):
        def poll(self):
            self.waiting.sort(key=lambda item: not is_first(item[0]))
            return super().poll()

    def refuse(name, request):
        return (
            NotForcedError("q")
            if request.candidate is not None and not request.takes_prompt_logprobs
            else None
        )

    questions = [question(number) for number in range(3)]
    rows = list(ranker(Shuffled(batch=1, replies=refuse)).scores(questions))
    assert [[score.token_logprobs for score in row] for row in rows] == list(
        map(expected, questions)
    )
    assert {row[0].use.path for row in rows} == {PROMPT_LOGPROBS}


@pytest.mark.parametrize("method", ["auto", FORCED, PROMPT_LOGPROBS])
@pytest.mark.parametrize("in_flight", [1, 5])
def test_scores_are_those_of_the_candidates_tokens_in_order(method, in_flight):
    questions = [question(number, media=["image"] if number % 3 else []) for number in range(40)]
    engine = TableEngine()
    scores = list(ranker(engine, method, in_flight).scores(questions))
    assert [[score.token_logprobs for score in row] for row in scores] == list(
        map(expected, questions)
    )
    assert engine.aborted == []


def test_contexts_come_first_and_many_questions_at_once():
    engine = TableEngine()
    list(ranker(engine, FORCED).scores(question(number) for number in range(9)))
    assert engine.log[:4] == ["0-context", "1-context", "2-context", "3-context"]
    assert sorted(engine.log[4:6]) == ["0-candidate-0", "0-candidate-1"]
    for number in range(9):
        indices = [
            engine.log.index(f"{number}-{name}")
            for name in ("context", "candidate-0", "candidate-1")
        ]
        assert indices == sorted(indices)


def test_the_first_question_of_a_kind_is_ranked_by_both_methods_first():
    engine = TableEngine()
    ranked = ranker(engine)
    scores = list(ranked.scores(question(number) for number in range(5)))
    first = [name for name in engine.log if name.startswith("0-")]
    assert engine.log[:5] == first
    assert ranked.methods == {"text": FORCED}
    assert [row[0].use.path for row in scores] == [FORCED] * 5
    audits = [number for number, row in enumerate(scores) if row[0].use.audit is not None]
    assert audits == [0, 1, 3]


def test_inexact_forced_tokens_fall_back_to_prompt_logprobs(warned):
    questions = [question(number) for number in range(4)]
    ranked = ranker(TableEngine(wrong={"q0"}))
    scores = list(ranked.scores(questions))
    assert ranked.methods == {"text": PROMPT_LOGPROBS}
    assert [[score.token_logprobs for score in row] for row in scores] == list(
        map(expected, questions)
    )
    assert scores[0][0].use.rejected == (FORCED,)
    (warning,) = warned
    assert "(text: " in warning


def test_a_failed_audit_ends_the_ranking_after_the_questions_before_it():
    engine = TableEngine(wrong={"q3"})
    scores = ranker(engine).scores(question(number) for number in range(30))
    rows = []
    with pytest.raises(
        PathError, match=r"question q3: .* forced.*method=prompt_logprobs"
    ) as raised:
        rows.extend(row for row in map(rows.append, scores) if row)
    assert len(rows) == 3
    assert raised.value.paths == (FORCED,)
    assert set(engine.aborted) == {name for name, *_ in engine.waiting}


def test_a_question_that_does_not_fit_is_named_with_its_lengths():
    fits = question(0, prefix=97)
    scores = ranker(TableEngine(limit=100), FORCED).scores([fits, question(1, prefix=98)])
    next(scores)
    with pytest.raises(
        ContextTooLongError, match=r"question q1: .* 101 tokens \(98 \+ 3\).*max_model_len.*100"
    ):
        next(scores)


def test_length_checks_include_the_engines_media_tokens():
    def replies(name, request):
        return EngineResponse(99, request.forced, []) if name == "0-context" else None

    with pytest.raises(ContextTooLongError, match=r"102 tokens \(99 \+ 3\)"):
        list(ranker(TableEngine(limit=100, replies=replies), FORCED).scores([question(0)]))


@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        (EngineResponse(20, [0, 7], [(-1.0, 1)] * 2), r"\[0, 7\].*\[0, 7, 8\]"),
        (EngineResponse(20, [0, 7, 9], [(-1.0, 1)] * 3), r"\[0, 7, 9\].*\[0, 7, 8\]"),
        (EngineResponse(20, [0, 7, 8], [(-1.0, 1)] * 2), r"\[0, 7, 8\]"),
        (EngineResponse(20, [0, 7, 8], [(-1.0, 1), (0.5, 1), (-1.0, 1)]), r"0\.5"),
        (EngineResponse(20, [0, 7, 8], [(-1.0, 1), (math.nan, 1), (-1.0, 1)]), "nan"),
    ],
)
def test_invalid_answers_of_an_engine_are_rejected(reply, facts):
    engine = TableEngine(replies=lambda name, request: reply if name == "0-candidate-0" else None)
    with pytest.raises(EngineError, match=f"question q0: .*{facts}"):
        list(ranker(engine, FORCED).scores([question(0)]))


def test_is_greedy_needs_every_token_to_be_the_most_probable():
    def replies(name, request):
        ranks = {"0-candidate-0": [2, 1, 1], "0-candidate-1": [2]}.get(name)
        return ranks and EngineResponse(20, request.forced, [(-1.0, rank) for rank in ranks])

    (row,) = ranker(TableEngine(replies=replies), FORCED).scores([question(0)])
    assert [score.is_greedy for score in row] == [True, False]


def test_a_known_inexact_method_is_not_chosen_again():
    schedule = Schedule("auto", 100)
    schedule.exclude([FORCED])
    (request, _) = schedule.open(0, question(0))
    assert request.takes_prompt_logprobs
    with pytest.raises(ValueError, match=r"method=other.*auto, forced, prompt_logprobs"):
        Schedule("other", 100)


@pytest.mark.parametrize("name", ["llava", "qwen2_5_vl", "qwen3_vl"])
@pytest.mark.parametrize("score_eos", [False, True])
def test_tokens_are_those_of_the_ranker_on_transformers(name, score_eos):
    model, processor = build(name)
    messages = user_turn("What next?", [IMAGE])
    candidates = ["put mug", "put mug on the counter", "éteindre le four 火"]
    encoded = CandidateRanker(model, processor, score_eos=score_eos).encode(
        messages, candidates, "q"
    )
    marked = [candidate + END_OF_ANSWER * score_eos for candidate in candidates]
    assert (
        CandidateRanker(model, processor).encode(messages, marked, "q").candidates
        == encoded.candidates
    )
    question_for_engine = EngineRanker(TableEngine(), processor).encode(messages, marked, "q")
    assert question_for_engine.candidates == encoded.candidates
    assert question_for_engine.media == {"image": [IMAGE]}
    media = set(encoded.inputs["input_ids"][0].tolist()) & {model.config.image_token_id}
    text = [token for token in encoded.inputs["input_ids"][0].tolist() if token not in media]
    assert [token for token in question_for_engine.prefix if token not in media] == text


def test_clips_become_images_and_this_is_logged(warned):
    frames = [Image.new("RGB", (60, 40), (40 * shade, 0, 0)) for shade in range(4)]
    text = {"type": "text", "text": "What next?"}
    content = [{"type": "video", "video": frames[:3]}, {"type": "image", "image": frames[3]}, text]
    clip = [{"role": "user", "content": content}]
    ranked = EngineRanker(TableEngine(), build("qwen2_5_vl")[1])
    assert ranked.takes_video
    first, second = (ranked.encode(clip, ["put mug"], f"q{number}") for number in range(2))
    assert first.kind == second.kind == "image (clips as images)"
    plain = ranked.encode(user_turn("What next?", frames), ["put mug"], "q2")
    assert plain.kind == "image"
    assert (first.prefix, first.media) == (plain.prefix, plain.media)
    assert len(warned) == 1
    sound = [{"role": "user", "content": [{"type": "audio", "audio": b""}, text]}]
    with pytest.raises(RankingError, match="question q3: "):
        ranked.encode(sound, ["put mug"], "q3")


class Shifted(TableEngine):
    """An engine whose forced tokens are 4e-5 nats off: within the tolerance, but measurable."""

    def answer(self, name, question, request):
        response = super().answer(name, question, request)
        off = 0.0 if request.takes_prompt_logprobs else 4e-5
        shifted = [(value - off, rank) for value, rank in response.logprobs]
        return EngineResponse(response.prompt_length, response.tokens, shifted)


def test_audited_questions_keep_scores_of_forced_tokens_and_the_note():
    questions = [question(number) for number in range(6)]
    ranked = EngineRanker(Shifted(), build("llava")[1], note="never compared")
    scores = list(ranked.scores(questions))
    assert [row[0].use.audit is not None for row in scores] == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    for row, rows in zip(scores, map(expected, questions), strict=True):
        shifted = [tuple(value - 4e-5 for value in values) for values in rows]
        assert [score.token_logprobs for score in row] == shifted
        assert (row[0].use.note, row[0].use.tolerance) == ("never compared", 1e-4)


@pytest.mark.parametrize("is_float32", [True, False])
@pytest.mark.parametrize("method", ["auto", FORCED])
def test_near_ties_use_prompt_logprobs_in_float32(method, is_float32):
    def tied(number):
        candidates = [CandidateTokens([number, 7], first=0)] * 2
        return EngineQuestion(f"q{number}", [*range(19), number], candidates, {})

    engine = Shifted()
    engine.is_float32 = is_float32
    questions = [question(1), question(2), tied(3), tied(4), question(5)]  # the fourth is audited
    scores = list(ranker(engine, method).scores(questions))
    takes_prompts = is_float32 and method == "auto"
    for number, (row, values) in enumerate(zip(scores, map(expected, questions), strict=True)):
        is_tied = number in (2, 3)
        assert row[0].use.near_tie == (is_tied and not takes_prompts)
        reads_prompts = is_tied and takes_prompts
        assert row[0].use.path == (PROMPT_LOGPROBS if reads_prompts else FORCED)
        off = 0 if reads_prompts else 4e-5
        assert [score.token_logprobs for score in row] == [
            tuple(v - off for v in logprobs) for logprobs in values
        ]
