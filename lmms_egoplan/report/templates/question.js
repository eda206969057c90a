// An open question, and its JSON.

function opened(item, details, shownTask) {
  const logged = new Map(details.answers);
  const answers = item.answers.map((answer) => ({ ...logged.get(answer.column), ...answer }));
  const tasks = [...new Set([shownTask, ...answers.map((answer) => answer.task)])].filter(Boolean);
  const named = details.video === null ? item.facts : new Map([...item.facts, ["video", details.video]]);
  const facts = [...named].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto" }, value)));
  const demo = answers.filter((answer) => answer.demo);
  return [
    make("p", { class: "asked", dir: "auto" }, details.question),
    facts.length ? make("dl", { class: "facts-list" }, ...facts) : null,
    demo.length ? make("p", { class: "note" }, `Demo: the verdicts and ratings ${demo.length < answers.length ? `of ${[...new Set(demo.map((answer) => answer.name))].join(", ")} ` : ""}mean nothing.`) : null,
    details.strip ? frames(details.strip) : null,
    details.choices.length && details.references.length ? context(details) : null,
    ...tasks.flatMap((task, i) => inTask(details, answers.filter((answer) => answer.task === task), task, tasks.length > 1, i === 0)),
    details.prompts?.length ? prompts(details, answers) : null,
    answers.length ? null : make("p", { class: "empty" }, "No model answered this question."),
  ].filter(Boolean);
}

// Show the answers in one task. Of several tasks, only the first is unfolded.
function inTask(details, answers, task, isFolded, isOpen) {
  const content = answersIn(details, answers);
  if (!isFolded) return content;
  return [make("details", { class: "task", ...(isOpen ? { open: "" } : {}) },
    make("summary", {}, make("span", { class: "muted" }, "Task "), make("b", { class: "name" }, task), " ", ...answers.map((answer) => mark(answer, `${answer.name}: ${VERDICTS[answer.letter][1]}`))), ...content)];
}

// Show what the question refers to, such as the goal and the past actions.
function context(details) {
  return make("dl", { class: "references" }, ...details.references.map(([name, text]) => make("div", {}, make("dt", {}, name), make("dd", { dir: "auto", tabindex: "0" }, text))));
}

// Show the prompts as sent. If they differ, name the models and tasks of each.
function prompts({ prompts: sent }, answers) {
  const label = (answer) => (new Set(answers.map((other) => other.task)).size > 1 ? `${answer.name} (${answer.task})` : answer.name);
  return make("details", {}, make("summary", {}, sent.length > 1 ? "Prompts as sent" : "Prompt as sent"), ...sent.map((text, position) => make("div", {},
    sent.length > 1 ? make("strong", { class: "name" }, answers.filter((answer) => answer.prompt === position).map(label).join(", ")) : null,
    make("p", { class: "prompt", dir: "auto", tabindex: "0" }, text))));
}

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

// Return a question and the models' answers with the names of docs/report-json.md. Missing values are null.
function asJson(item, details, title) {
  const tasks = details.tasks.map(([name, version]) => ({ name, version }));
  const answerOf = new Map(item.answers.map((answer) => [answer.column, answer]));
  return {
    schema: 1, key: item.key, benchmark: item.benchmark, title, tasks, video: details.video, question: details.question,
    choices: details.choices, gold: details.gold, references: Object.fromEntries(details.references), gold_plans: Object.fromEntries(details.golds), facts: Object.fromEntries(item.facts),
    prompts: details.prompts,
    runs: details.answers.map(([column, answer]) => ({
      name: answerOf.get(column).name, task: tasks[answer.task]?.name ?? null, version: tasks[answer.task]?.version ?? null, prompt: answer.prompt ?? null,
      answer: answer.text ?? null, reply: answer.reply ?? null, chosen: answer.chosen ?? null, log_probabilities: answer.logprobs ?? null, gain: answer.gain?.[0] ?? null, margin_gain: answer.gain?.[1] ?? null,
      verdict: VERDICTS[answerOf.get(column).letter][1], rating: answer.rating ?? null, reason: answer.judgement ?? null, parts: answer.parts ?? [], steps: answer.steps ?? [], alignments: answer.alignments ?? [],
      people: answer.people ?? null, is_disputed: answer.disputed ?? false, is_demo: answer.demo ?? false,
      input_tokens: answer.tokens?.[0] ?? null, output_tokens: answer.tokens?.[1] ?? null,
    })),
  };
}

function download(name, content) {
  const url = URL.createObjectURL(new Blob([`${JSON.stringify(content, null, 1)}\n`], { type: "application/json" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}
