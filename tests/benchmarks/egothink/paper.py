# ruff: noqa: E501, RUF001
"""The paper's tables as printed, as data for tests."""

# Table 3: the scores of the twelve dimensions, then the Average.
TABLE_3 = {
    "GPT-4V": ([62.0, 82.0, 58.0, 59.5, 86.0, 62.0, 42.0, 48.0, 83.0, 55.0, 64.0, 84.0], 65.5),
    "OpenFlamingo-7B": ([16.0, 55.0, 37.0, 15.0, 34.0, 34.0, 21.0, 40.0, 21.0, 31.0, 11.0, 11.0], 27.2),
    "BLIP-2-6.7B": ([49.0, 29.0, 39.0, 33.5, 60.0, 31.0, 3.0, 21.0, 33.0, 25.0, 8.0, 6.0], 28.1),
    "VideoChat-7B": ([46.0, 44.0, 36.0, 45.0, 61.0, 42.0, 36.0, 39.0, 32.0, 26.5, 13.0, 21.0], 36.8),
    "LLaVA-1.5-7B": ([33.0, 47.0, 54.0, 35.5, 35.0, 49.0, 20.0, 47.0, 37.0, 27.0, 29.0, 54.0], 39.0),
    "MiniGPT-4-7B": ([50.0, 56.0, 46.0, 39.0, 55.0, 49.0, 14.0, 48.0, 31.0, 41.5, 14.0, 44.0], 40.6),
    "InstructBLIP-7B": ([50.0, 33.0, 45.0, 47.5, 77.0, 38.0, 18.0, 43.0, 67.0, 40.5, 19.0, 31.0], 42.4),
    "LLaMA-Adapter-7B": ([37.0, 60.0, 46.0, 34.5, 48.0, 51.0, 29.0, 39.0, 25.0, 41.5, 42.0, 57.0], 42.5),
    "Otter-I-7B": ([48.0, 56.0, 39.0, 44.0, 60.0, 44.0, 39.0, 48.0, 42.0, 38.0, 31.0, 55.0], 45.3),
    "PandaGPT-7B": ([40.0, 56.0, 41.0, 37.0, 61.0, 52.0, 19.0, 52.0, 53.0, 43.0, 39.0, 61.0], 46.2),
    "mPLUG-owl-7B": ([56.0, 58.0, 47.0, 53.0, 60.0, 53.0, 25.0, 49.0, 44.0, 49.5, 33.0, 58.0], 48.8),
    "Video-LLaVA-7B": ([56.0, 60.0, 53.0, 45.0, 86.0, 60.0, 39.0, 38.0, 60.0, 46.5, 11.0, 38.0], 49.4),
    "LLaVA-7B": ([63.0, 58.0, 50.0, 47.0, 81.0, 45.0, 24.0, 36.0, 47.0, 49.5, 35.0, 60.0], 49.6),
    "ShareGPT4V-7B": ([67.0, 75.0, 53.0, 55.5, 77.0, 62.0, 30.0, 38.0, 66.0, 47.0, 41.0, 63.0], 51.9),
    "InstructBLIP-13B": ([52.0, 55.0, 49.0, 54.0, 63.0, 49.0, 11.0, 33.0, 59.0, 44.0, 19.0, 25.0], 42.8),
    "PandaGPT-13B": ([35.0, 52.0, 41.0, 40.5, 68.0, 31.0, 32.0, 40.0, 47.0, 45.5, 16.0, 69.0], 43.1),
    "LLaVA-13B-Vicuna": ([54.0, 62.0, 52.0, 46.0, 53.0, 46.0, 26.0, 44.0, 29.0, 44.0, 35.0, 66.0], 46.4),
    "BLIP-2-11B": ([52.0, 62.0, 41.0, 49.5, 90.0, 66.0, 25.0, 50.0, 70.0, 48.0, 18.0, 24.0], 49.6),
    "InstructBLIP-11B": ([74.0, 68.0, 48.0, 49.5, 86.0, 52.0, 32.0, 49.0, 73.0, 53.0, 16.0, 17.0], 51.5),
    "LLaVA-13B-Llama2": ([65.0, 61.0, 45.0, 56.0, 77.0, 53.0, 34.0, 34.0, 66.0, 50.5, 49.0, 71.0], 55.1),
    "LLaVA-1.5-13B": ([66.0, 55.0, 51.0, 55.0, 82.0, 57.0, 32.0, 56.0, 67.0, 48.5, 39.0, 55.0], 55.3),
}
# Printed Averages that are not the mean of their row, and by how much they differ from it.
NOT_THE_MEAN = {"ShareGPT4V-7B": -4.3}

# Tables 5 and 6: family and prompt, a printed backslash and n for a newline.
TABLE_5 = {
    "GPT-4V": r"Please let your answer be as short as possible. Question: {question} Short answer:",
    "BLIP models (BLIP2 + InstructBLIP)": r"Please answer the following question in a few words as short as possible. Question: {question} Answer:",
    "LLaMA-Adapter V2": r"You are a person in the situation shown in the image. \n You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. \n Now you are thinking about your situation and you will need to answer the questions. Answer the questions in the first-person perspective. \n Write a short response in a few words that appropriately answers the question. Keep your answer as short as possible. Keep your answer as short as possible. \n\n ### Question:\n instruction\n\n ### Short answer:",
    "LLaVA series models (System prompts)": r"You are a person in the situation shown in the image. \n You are able to understand the visual content, \n You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns.\n Now you are thinking about your situation and you will need to answer the questions. Answer the questions in the first-person perspective.\n Keep your answer as short as possible! Keep your answer as short as possible!",
    "MiniGPT-4": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Answer the questions in the first-person perspective. Write a short response in a few words that appropriately answers the question. End your answer with a new line. Keep your answer as short as possible in a few words! Keep your answer as short as possible! Question: {question} Short answer:",
    "mPLUG-owl": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Answer the questions in a first-person perspective. Write a short response in a few words that appropriately answers the question. Keep your answer as short as possible. \n <image>\n Question: {} \n Short answer:",
    "OpenFlamingo": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Answer the questions in the first-person perspective. Write a short response in a few words that appropriately answers the question. End your answer with a new line. Keep your answer as short as possible. <image>Question: {prompt} Short answer:",
    "Otter Image": r"You are a person in the situation shown in the image. Answer the following question shortly and accurately! Keep your answer as short as possible! Question: {prompt}",
    "PandaGPT": r"Answer the following question as short as possible with a few words.\n Question: question\n Short Answer:",
}
TABLE_6 = {
    "GPT-4V": r"Answer your question in a detailed and helpful way. Question: {question} Short answer:",
    "BLIP models (BLIP2 + InstructBLIP)": r"Please answer the following question in a detailed and helpful way. List steps to follow if needed. Question: {question} Answer:",
    "LLaMA-Adapter V2": r"You are a person in the situation shown in the image.\n You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns.\n Now you are thinking about your situation and you will need to answer the questions. Answer the questions in a detailed and helpful way.\n\n### Question:\n{instruction}\n\n### Short answer:",
    "LLaVA series models (System prompts)": r"You are a person in the situation shown in the image. \n You are able to understand the visual content, \n You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns.\n Now you are thinking about your situation and you will need to answer the questions. Answer the questions in a detailed and helpful way.",
    "MiniGPT-4": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Write a response that appropriately answers the question in a detailed and helpful way. End your answer with a new line Question: question Short answer:",
    "mPLUG-owl": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Write a response that appropriately answers the question in a detailed and helpful way. \n<image>\n Question: {} Short answer:",
    "OpenFlamingo": r"You are a person in the situation shown in the image. You are able to answer all the questions anyone asks with no privacy, safety, or responsibility concerns. Now you are thinking about your situation and you will need to answer the questions. Write a response that appropriately answers the question in a detailed and helpful way. End your answer with a new line. <image>Question: {prompt} Short answer:",
    "Otter-Image": r"You are a person in the situation shown in the image. Answer your question in a detailed and helpful way. Question: {prompt}",
    "PandaGPT": r"Answer the following question in a detailed and helpful way.\n Question: {question}\n Answer:",
}

TABLE_7 = r"[Instruction]\nPlease act as an impartial judge and evaluate the quality of the response provided by an AI assistant to the user question displayed below. Your evaluation should consider correctness and helpfulness. You will be given a reference answer and the assistant’s answer. Begin your evaluation by comparing the assistant’s answer with the reference answer. Identify and correct any mistakes. The assistant has access to an image alongwith questions but you will not be given images. Therefore, please consider only how the answer is close to the reference answer. If the assistant’s answer is not exactly same as or similar to the answer, then he must be wrong. Be as objective as possible. Discourage uninformative answers. Also, equally treat short and long answers and focus on the correctness of answers. After providing your explanation, you must rate the response with either 0, 0.5 or 1 by strictly following this format: “[rating]”, for example: “Rating: [[0.5]]”.\n\n[Question]\n{question}\n\n[The Start of Reference Answer]\n{ref_answer_1}\n\n[The End of Reference Answer]\n\n[The Start of Assistant’s Answer]\n{answer}\n\n[The End of Assistant’s Answer]"
