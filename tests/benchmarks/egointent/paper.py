"""The paper's Table 3 as printed, as data for tests."""

# Overall; local intent, global intent, next-step plan; indoor, outdoor.
TABLE_3 = {
    "Qwen3.5-plus": (33.31, (32.06, 36.80, 31.06), (32.90, 34.34)),
    "Gemini-3-flash-preview": (32.17, (30.82, 34.33, 31.36), (32.26, 31.95)),
    "Qwen3.5-397B-A17B": (31.68, (30.94, 34.05, 30.06), (31.11, 33.14)),
    "Qwen3-VL-8B-Instruct": (29.38, (26.28, 32.85, 29.02), (29.57, 28.91)),
    "Qwen2.5-VL-7B-Instruct": (26.94, (24.34, 31.56, 24.94), (27.23, 26.22)),
    "Qwen2-VL-7B-Instruct": (25.89, (24.40, 29.28, 23.99), (24.40, 29.70)),
    "InternVL3-8B": (24.95, (22.94, 29.01, 22.90), (25.53, 23.46)),
    "Molmo2-8B": (24.50, (21.67, 28.05, 23.78), (24.19, 25.29)),
    "Molmo2-O-7B": (23.42, (20.89, 26.14, 23.25), (23.38, 23.55)),
    "Kimi-VL-A3B-Thinking-2506-16B": (22.27, (20.95, 25.64, 20.23), (21.72, 23.68)),
    "InternVL2-8B": (20.42, (18.70, 23.30, 19.26), (20.11, 21.21)),
    "LLaVA-Video-7B-Qwen2": (20.30, (19.88, 20.76, 20.27), (20.96, 18.62)),
    "LLaVA-NeXT-Video-7B": (16.23, (14.55, 18.47, 15.65), (14.79, 19.90)),
    "CogVLM2-Video-Llama3-Chat-13B": (15.67, (13.86, 17.93, 15.22), (15.47, 16.19)),
    "DeepSeek-VL-7B-Chat": (9.15, (8.42, 9.43, 9.59), (9.10, 9.27)),
}
# Printed numbers are up to 0.005 off, and so is the mean of three of them.
ROUNDING = 0.01
# Rows whose Overall is another in the last digit than the mean of the printed scores: within the rounding.
LAST_DIGIT = {
    "Qwen2.5-VL-7B-Instruct": "26.95",
    "Molmo2-O-7B": "23.43",
    "LLaVA-NeXT-Video-7B": "16.22",
}
