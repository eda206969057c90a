# ruff: noqa: RUF001
"""The paper's prompts as printed, as data for tests. Its tables of scores are in ``published/``."""

# Tables 5 and 6: family and prompt. A printed backslash and n is a newline.
TABLE_5 = {
    "GPT-4V": r"Please let your answer be as short as possible. Question: {question} Short answer:",
    ("BLIP models (BLIP2 + InstructBLIP)"): (
        r"Please answer the following question in a few words as short as possible. "
        r"Question: {question} Answer:"
    ),
    "LLaMA-Adapter V2": (
        r"You are a person in the situation shown in the image. \n You are able to answer "
        r"all the questions anyone asks with no privacy, safety, or responsibility concerns. "
        r"\n Now you are thinking about your situation and you will need to answer the "
        r"questions. Answer the questions in the first-person perspective. \n Write a short "
        r"response in a few words that appropriately answers the question. Keep your answer "
        r"as short as possible. Keep your answer as short as possible. \n\n ### Question:\n "
        r"instruction\n\n ### Short answer:"
    ),
    ("LLaVA series models (System prompts)"): (
        r"You are a person in the situation shown in the image. \n You are able to "
        r"understand the visual content, \n You are able to answer all the questions anyone "
        r"asks with no privacy, safety, or responsibility concerns.\n Now you are thinking "
        r"about your situation and you will need to answer the questions. Answer the "
        r"questions in the first-person perspective.\n Keep your answer as short as "
        r"possible! Keep your answer as short as possible!"
    ),
    "MiniGPT-4": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Answer the questions in the first-person perspective. Write a short response in a "
        r"few words that appropriately answers the question. End your answer with a new "
        r"line. Keep your answer as short as possible in a few words! Keep your answer as "
        r"short as possible! Question: {question} Short answer:"
    ),
    "mPLUG-owl": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Answer the questions in a first-person perspective. Write a short response in a "
        r"few words that appropriately answers the question. Keep your answer as short as "
        r"possible. \n <image>\n Question: {} \n Short answer:"
    ),
    "OpenFlamingo": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Answer the questions in the first-person perspective. Write a short response in a "
        r"few words that appropriately answers the question. End your answer with a new "
        r"line. Keep your answer as short as possible. <image>Question: {prompt} Short "
        r"answer:"
    ),
    ("Otter Image"): (
        r"You are a person in the situation shown in the image. Answer the following "
        r"question shortly and accurately! Keep your answer as short as possible! Question: "
        r"{prompt}"
    ),
    "PandaGPT": (
        r"Answer the following question as short as possible with a few words.\n Question: "
        r"question\n Short Answer:"
    ),
}
TABLE_6 = {
    "GPT-4V": (
        r"Answer your question in a detailed and helpful way. Question: {question} Short "
        r"answer:"
    ),
    ("BLIP models (BLIP2 + InstructBLIP)"): (
        r"Please answer the following question in a detailed and helpful way. List steps to "
        r"follow if needed. Question: {question} Answer:"
    ),
    "LLaMA-Adapter V2": (
        r"You are a person in the situation shown in the image.\n You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns.\n "
        r"Now you are thinking about your situation and you will need to answer the "
        r"questions. Answer the questions in a detailed and helpful way.\n\n### "
        r"Question:\n{instruction}\n\n### Short answer:"
    ),
    ("LLaVA series models (System prompts)"): (
        r"You are a person in the situation shown in the image. \n You are able to "
        r"understand the visual content, \n You are able to answer all the questions anyone "
        r"asks with no privacy, safety, or responsibility concerns.\n Now you are thinking "
        r"about your situation and you will need to answer the questions. Answer the "
        r"questions in a detailed and helpful way."
    ),
    "MiniGPT-4": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Write a response that appropriately answers the question in a detailed and helpful "
        r"way. End your answer with a new line Question: question Short answer:"
    ),
    "mPLUG-owl": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Write a response that appropriately answers the question in a detailed and helpful "
        r"way. \n<image>\n Question: {} Short answer:"
    ),
    "OpenFlamingo": (
        r"You are a person in the situation shown in the image. You are able to answer all "
        r"the questions anyone asks with no privacy, safety, or responsibility concerns. Now "
        r"you are thinking about your situation and you will need to answer the questions. "
        r"Write a response that appropriately answers the question in a detailed and helpful "
        r"way. End your answer with a new line. <image>Question: {prompt} Short answer:"
    ),
    "Otter-Image": (
        r"You are a person in the situation shown in the image. Answer your question in a "
        r"detailed and helpful way. Question: {prompt}"
    ),
    "PandaGPT": (
        r"Answer the following question in a detailed and helpful way.\n Question: "
        r"{question}\n Answer:"
    ),
}

TABLE_7 = (
    r"[Instruction]\nPlease act as an impartial judge and evaluate the quality of the "
    r"response provided by an AI assistant to the user question displayed below. Your "
    r"evaluation should consider correctness and helpfulness. You will be given a reference "
    r"answer and the assistant’s answer. Begin your evaluation by comparing the assistant’s "
    r"answer with the reference answer. Identify and correct any mistakes. The assistant has "
    r"access to an image alongwith questions but you will not be given images. Therefore, "
    r"please consider only how the answer is close to the reference answer. If the "
    r"assistant’s answer is not exactly same as or similar to the answer, then he must be "
    r"wrong. Be as objective as possible. Discourage uninformative answers. Also, equally "
    r"treat short and long answers and focus on the correctness of answers. After providing "
    r"your explanation, you must rate the response with either 0, 0.5 or 1 by strictly "
    r"following this format: “[rating]”, for example: “Rating: "
    r"[[0.5]]”.\n\n[Question]\n{question}\n\n[The Start of Reference "
    r"Answer]\n{ref_answer_1}\n\n[The End of Reference Answer]\n\n[The Start of Assistant’s "
    r"Answer]\n{answer}\n\n[The End of Assistant’s Answer]"
)
# Text around the answer in it.
START, END = "[The Start of Assistant’s Answer]\n", "\n\n[The End of Assistant’s Answer]"

# The line of judge_prompts.jsonl with the name single-math-v2, AdaCheng/EgoThink, commit fbafe8f.
SINGLE_MATH_V2 = (
    r'{"name": "single-math-v2", '
    r'"type": "single", '
    r'"system_prompt": "You are a helpful assistant.", '
    r'"prompt_template": "[Instruction]\n'
    r"Please act as an impartial judge and evaluate the quality of the response provided by an AI "
    r"assistant to the user question displayed below. Your evaluation should consider correctness "
    r"and helpfulness. You will be given a reference answer and the assistant's answer. Begin your "
    r"evaluation by comparing the assistant's answer with the reference answer. Identify and "
    r"correct any mistakes. The assistant has access to an image alongwith questions but you will "
    r"not be given images. Therefore, please consider only how the answer is close to the "
    r"reference answer. If the assistant's answer is not exactly same as or similar to the answer, "
    r"then he must be wrong.  Be as objective as possible. Discourage uninformative answers. Also, "
    r"equally treat short and long answers and focus on the correctness of answers.  After "
    r"providing your explanation, you must rate the response with either 0, 0.5 or 1 by strictly "
    r"following this format: \"[[rating]]\", for example: \"Rating: [[0.5]]\".\n\n"
    r"[Question]\n"
    r"{question}\n\n"
    r"[The Start of Reference Answer]\n"
    r"{ref_answer_1}\n"
    r"[The End of Reference Answer]\n\n"
    r"[The Start of Assistant's Answer]\n"
    r"{answer}\n"
    r"""[The End of Assistant's Answer]", """
    r'"description": "Prompt for general questions", '
    r'"category": "math", '
    r'"output_format": "[[rating]]"}'
)
