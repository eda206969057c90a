// An open question, its JSON, and the signs of verdicts.

const VERDICTS = { r: ["\u2713", "right"], w: ["\u2717", "wrong"], p: ["\u00bd", "partly"], u: ["?", "unscored"] };

function mark(letter, label, title) {
  const [sign, word] = VERDICTS[letter];
  return make("span", { class: `mark ${letter}`, title: title ?? word },
    make("span", { "aria-hidden": "true" }, label, label ? "\u2009" : "", sign), make("span", { class: "word" }, label ? "" : word));
}

const letterOf = (position) => String.fromCharCode(65 + position);

function opened(item, details, runs) {
  const answers = details.answers.map(([position, answer]) => ({ ...answer, run: runs[position], letter: item.verdicts[position] }));
  const ranked = answers.filter((answer) => answer.logprobs);
  const texts = answers.filter((answer) => !answer.logprobs || answer.text !== undefined || answer.judgement !== undefined);
  const named = details.video === null ? item.facts : new Map([...item.facts, ["video", details.video]]);
  const facts = [...named].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value)));
  const references = details.references.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto", tabindex: "0" }, text)));
  return [
    make("p", { class: "asked", dir: "auto" }, details.question),
    facts.length ? make("dl", { class: "facts-list" }, ...facts) : null,
    details.strip ? frames(details.strip) : null,
    ranked.length ? choices(details, ranked) : null,
    !ranked.length && details.choices.length ? options(details) : null,
    references.length ? make("dl", { class: "references" }, ...references) : null,
    details.prompts?.length ? prompts(details, answers) : null,
    texts.length ? make("div", { class: "answers" }, ...texts.map((answer) => words(answer, details))) : null,
    answers.length ? null : make("p", { class: "empty" }, "No run answered this question."),
  ].filter(Boolean);
}

// Show the prompts as sent. If they differ, name the runs of each.
function prompts({ prompts: sent }, answers) {
  return make("details", {}, make("summary", {}, sent.length > 1 ? "Prompts as sent" : "Prompt as sent"), ...sent.map((text, position) => make("div", {},
    sent.length > 1 ? make("strong", { class: "name" }, answers.filter((answer) => answer.prompt === position).map((answer) => answer.run).join(", ")) : null,
    make("p", { class: "prompt", dir: "auto", tabindex: "0" }, text))));
}

const tokensOf = ({ tokens }) => (tokens ? `${tokens[0].toLocaleString("en")} tokens in, ${tokens[1].toLocaleString("en")} out` : null);

// A strip contains the frames side by side. Each picture shows its part of the strip.
function frames({ file, of, frames: sizes }) {
  const src = `gallery/images/${file}`;
  if (sizes.length === 1 && of === 1) {
    const [, width, height] = sizes[0];
    return make("div", { class: "frames" }, make("img", { class: "only", src, width, height, alt: "The models' input" }));
  }
  const whole = sizes.reduce((sum, [, width]) => sum + width, 0);
  let left = 0;
  const figures = sizes.map(([number, width, height]) => {
    const image = make("img", { src, alt: `Image ${number} of ${of}` });
    Object.assign(image.style, { width: `${100 * whole / width}%`, left: `${-100 * left / width}%` });
    left += width;
    const tile = make("span", { class: "tile" }, image);
    tile.style.aspectRatio = `${width} / ${height}`;
    return make("figure", {}, tile, make("figcaption", {}, number === of ? `${number} of ${of}, the last` : `${number} of ${of}`));
  });
  const box = make("div", { class: "frames several" }, ...figures);
  const button = make("button", { type: "button", class: "larger", "aria-pressed": "false" }, "Larger pictures");
  button.addEventListener("click", () => button.setAttribute("aria-pressed", String(box.classList.toggle("large"))));
  return make("div", {}, box, button);
}

const signed = (value) => `${value > 0 ? "+" : ""}${value.toFixed(2).replace("-", "\u2212")}`;

const badge = (text, letter = "") => make("span", { class: `badge ${letter}` }, text);

function choiceOf({ choices: texts, gold }, position) {
  return [`${letterOf(position)}. `, make("bdi", {}, texts[position] ?? ""), ...(position === gold ? [" ", badge("right answer", "r")] : [])];
}

function choices(details, ranked) {
  const head = ranked.map((answer) => make("th", { scope: "col" }, make("bdi", { class: "name" }, answer.run), make("br"), mark(answer.letter, ""),
    tokensOf(answer) === null ? null : make("span", { class: "note" }, tokensOf(answer)),
    answer.gain === undefined ? null : make("span", { class: "note" }, `the video adds ${signed(answer.gain[0])} nats to the right answer, ${signed(answer.gain[1])} to its margin`)));
  const rows = details.choices.map((_, position) => make("tr", {}, make("th", { scope: "row" }, ...choiceOf(details, position)),
    ...ranked.map((answer) => {
      const value = answer.logprobs[position];
      if (value === null || value === undefined) return make("td", {}, make("span", { class: "missing", title: "no value" }, "\u2013"));
      const best = Math.max(...answer.logprobs.filter((x) => x !== null));
      const bar = make("span", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--length", `${100 * Math.exp(value - best)}%`);
      const isChosen = position === answer.chosen;
      return make("td", { class: isChosen ? "taken" : null }, value.toFixed(3).replace("-", "\u2212"), ...(isChosen ? [" ", badge("chosen")] : []), bar);
    })));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Choices" }, make("table", { class: "choices" },
    make("caption", {}, "Mean log-probability per token, in nats. A bar is the probability per token relative to the run\u2019s most likely choice."),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Choice"), ...head)), make("tbody", {}, ...rows)));
}

function options(details) {
  return make("ul", { class: "options", "aria-label": "Choices" }, ...details.choices.map((_, position) => make("li", {}, ...choiceOf(details, position))));
}

function words(answer, details) {
  const text = answer.text ?? (answer.chosen === undefined ? "The answer was not logged." : "");
  const chosen = answer.chosen === undefined || answer.logprobs ? null : make("p", { class: "rating" }, `Chosen: ${letterOf(answer.chosen)}. ${details.choices[answer.chosen] ?? ""}`);
  return make("article", { class: "said" },
    make("header", {}, make("h3", { class: "name" }, answer.run), mark(answer.letter, ""), answer.rating === undefined ? null : make("span", { class: "rating" }, answer.rating)),
    chosen,
    text ? make("p", { class: answer.text === undefined ? "words none" : "words", dir: "auto", tabindex: "0" }, text) : answer.text === "" ? make("p", { class: "words none" }, "The answer is empty.") : null,
    answer.reply === undefined || answer.reply === answer.text ? null : make("details", {}, make("summary", {}, "Complete reply"), make("p", { class: "prompt", dir: "auto", tabindex: "0" }, answer.reply)),
    tokensOf(answer) === null ? null : make("p", { class: "rating" }, tokensOf(answer)),
    answer.judgement === undefined ? null : make("div", { class: "judgement" }, make("strong", {}, "The judge:"), make("p", { dir: "auto" }, answer.judgement)));
}

// Return a question and the runs' answers with the names of docs/report-json.md. Missing values are null.
function asJson(item, details, runs, title) {
  const tasks = details.tasks.map(([name, version]) => ({ name, version }));
  return {
    schema: 1, key: item.key, benchmark: item.benchmark, title, tasks, video: details.video, question: details.question,
    choices: details.choices, gold: details.gold, references: Object.fromEntries(details.references), facts: Object.fromEntries(item.facts),
    prompts: details.prompts,
    runs: details.answers.map(([position, answer]) => ({
      name: runs[position], task: tasks[answer.task]?.name ?? null, version: tasks[answer.task]?.version ?? null, prompt: answer.prompt ?? null,
      answer: answer.text ?? null, reply: answer.reply ?? null, chosen: answer.chosen ?? null, log_probabilities: answer.logprobs ?? null, gain: answer.gain?.[0] ?? null, margin_gain: answer.gain?.[1] ?? null,
      verdict: VERDICTS[item.verdicts[position]][1], rating: answer.rating ?? null, reason: answer.judgement ?? null,
      input_tokens: answer.tokens?.[0] ?? null, output_tokens: answer.tokens?.[1] ?? null,
    })),
  };
}

function download(name, content) {
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(content, null, 1)}\n`], { type: "application/json" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
