// The models' answers to an open question: choices, plans, answers in parts, and answers in words.

const VERDICTS = { r: ["\u2713", "right"], w: ["\u2717", "wrong"], p: ["\u00bd", "partly"], u: ["?", "unscored"] };
const COLOURS = 7; // Number of classes "model-1" and so on.

// A model's number in its colour.
const chip = (run) => make("span", { class: `chip model-${run % COLOURS + 1}` }, String(run + 1));

// A model's number and the verdict on its answer.
function mark({ run, letter }, title) {
  return make("span", { class: `mark ${letter}`, title }, chip(run), make("span", { "aria-hidden": "true" }, VERDICTS[letter][0]));
}

// The verdict on an answer, as sign and word.
const verdictOf = ({ letter }) => make("span", { class: `verdict ${letter}` }, `${VERDICTS[letter][0]} ${VERDICTS[letter][1]}`);

const badge = (text, letter = "") => make("span", { class: `badge ${letter}` }, text);
const signed = (value) => `${value > 0 ? "+" : ""}${value.toFixed(2).replace("-", "\u2212")}`;
const letterOf = (position) => String.fromCharCode(65 + position);
const tokensOf = ({ tokens }) => (tokens ? `${tokens[0].toLocaleString("en")} tokens in, ${tokens[1].toLocaleString("en")} out` : null);
const note = (text) => (text === null ? null : make("span", { class: "note" }, text));
const scrolling = (label, ...children) => make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

function modelHead(answer, tag = "th", attributes = { scope: "row" }) {
  return make(tag, { class: "model", ...attributes }, chip(answer.run), " ", make("bdi", { class: "name" }, answer.name), note(tokensOf(answer)));
}

// Return the answers in the form of their kind.
function answersIn(details, answers) {
  if (details.choices.length) {
    const written = answers.filter((answer) => answer.logprobs === undefined);
    return [choices(details, answers), ...(written.length ? [rated(written, [])] : [])];
  }
  if (answers.some((answer) => answer.steps)) return plans(details, answers);
  if (answers.some((answer) => answer.parts)) return [parts(details, answers)];
  return [rated(answers, details.references)];
}

// The choices: the right one, which model chose which, and log-probabilities as bars.
function choices(details, answers) {
  const ranked = answers.filter((answer) => answer.logprobs);
  const head = ranked.map((answer) => make("th", { scope: "col", class: "model" }, mark(answer, VERDICTS[answer.letter][1]), " ", make("bdi", { class: "name" }, answer.name), note(tokensOf(answer)),
    answer.gain === undefined ? null : note(`video adds ${signed(answer.gain)} nats, to the margin ${signed(answer.margin)}`)));
  const rows = details.choices.map((text, position) => {
    const isRight = position === details.gold;
    const chosen = answers.filter((answer) => answer.chosen === position);
    return make("tr", { class: isRight ? "right" : null }, make("th", { scope: "row" }, `${letterOf(position)}. `, make("bdi", {}, text ?? ""), ...(isRight ? [" ", badge("right answer", "r")] : []),
      chosen.length ? make("span", { class: "chosen" }, make("span", { class: "spoken" }, "chosen by "), ...chosen.flatMap((answer) => [make("span", { title: `chosen by ${answer.name}` }, chip(answer.run)), " "])) : null),
    ...ranked.map((answer) => logProbability(answer, position)));
  });
  const caption = ranked.length ? "Mean log-probability per token, in nats. A bar is the probability per token relative to the model\u2019s most likely choice. The number of a model is next to its choice." : "The number of a model is next to its choice.";
  return scrolling("Choices", make("table", { class: "choices" }, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Choice"), ...head)), make("tbody", {}, ...rows)));
}

function logProbability(answer, position) {
  const value = answer.logprobs[position];
  if (value === null || value === undefined) return make("td", {}, make("span", { class: "narrow", "aria-hidden": "true" }, chip(answer.run)), make("span", { class: "missing", title: "no value" }, "\u2013"));
  const best = Math.max(...answer.logprobs.filter((other) => other !== null));
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--length", `${100 * Math.exp(value - best)}%`);
  const isChosen = position === answer.chosen;
  return make("td", { class: isChosen ? "taken" : null }, make("span", { class: "narrow", "aria-hidden": "true" }, chip(answer.run)), value.toFixed(3).replace("-", "\u2212"), isChosen ? make("span", { class: "spoken" }, " chosen") : null, bar);
}

// A table of answers: the reference once, then each model's rating and the judge's words.
function rated(answers, references) {
  const hasJudge = answers.some((answer) => answer.judgement !== undefined);
  const titles = ["Model", "Answer", ...(references.length ? [references.length > 1 ? "References" : references[0][0]] : []), "Rating", ...(hasJudge ? ["The judge"] : [])];
  const rows = answers.map((answer, i) => make("tr", {}, modelHead(answer), make("td", { class: "answer" }, ...words(answer)),
    references.length && i === 0 ? make("td", { class: "reference", rowspan: answers.length, "data-title": titles[2] }, ...references.map(([name, text]) => reference(name, text, references.length > 1))) : null,
    make("td", { class: "rating" }, ...rating(answer)),
    hasJudge ? make("td", { class: "judgement", "data-title": "The judge" }, answer.judgement === undefined ? "" : make("p", { dir: "auto", tabindex: "0" }, answer.judgement)) : null));
  return make("table", { class: "rated" }, make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)))), make("tbody", {}, ...rows));
}

function reference(name, text, isNamed) {
  return make("div", {}, isNamed ? make("strong", {}, name) : null, make("p", { class: "words", dir: "auto", tabindex: "0" }, text));
}

function words(answer) {
  const texts = [];
  if (answer.text) texts.push(make("p", { class: "words", dir: "auto", tabindex: "0" }, answer.text));
  else if (answer.chosen === undefined) texts.push(make("p", { class: "none" }, answer.text === "" ? "The answer is empty." : "The answer was not logged."));
  if (answer.reply !== undefined && answer.reply !== answer.text) texts.push(completeReply(answer));
  return texts;
}

const completeReply = (answer) => make("details", {}, make("summary", {}, "Complete reply"), make("p", { class: "prompt", dir: "auto", tabindex: "0" }, answer.reply));

// The verdict, the judge's rating and people's rating.
function rating(answer) {
  const lines = [verdictOf(answer)];
  if (answer.rating !== undefined) lines.push(note(answer.rating));
  if (answer.people !== undefined) lines.push(make("span", { class: "note" }, `people: ${answer.people}`, answer.disputed ? badge("disagree", "w") : ""));
  return lines;
}

// Answers in parts: for each part the reference, then each model's answer and rating.
function parts(details, answers) {
  const references = new Map(details.references);
  const split = answers.filter((answer) => answer.parts);
  const hasJudge = split.some((answer) => answer.parts.some((part) => part.judgement !== null));
  const width = hasJudge ? 4 : 3;
  const bodies = split[0].parts.map(({ name }, position) => make("tbody", {},
    make("tr", {}, make("th", { scope: "rowgroup", colspan: width, class: "part" }, name)),
    references.has(name) ? make("tr", { class: "reference" }, make("th", { scope: "row" }, "Reference"), make("td", { colspan: width - 1, dir: "auto" }, references.get(name))) : null,
    ...split.map((answer) => {
      const part = answer.parts[position];
      return make("tr", {}, modelHead({ run: answer.run, name: answer.name }), part.text === null ? make("td", { class: "none" }, "missing") : make("td", { class: "answer", dir: "auto" }, part.text),
        make("td", { class: "rating" }, part.rating), hasJudge ? make("td", { class: "judgement" }, part.judgement === null ? "" : make("p", { dir: "auto", tabindex: "0" }, part.judgement)) : null);
    })));
  const overall = make("tbody", {}, make("tr", {}, make("th", { scope: "rowgroup", colspan: width, class: "part" }, "Mean of the parts")),
    ...answers.map((answer) => make("tr", {}, modelHead(answer), make("td", { class: "answer" }, ...(answer.parts ? [] : words(answer)), ...(answer.reply === undefined ? [] : [completeReply(answer)])),
      make("td", { class: "rating", colspan: width - 2 }, ...rating(answer)))));
  return make("table", { class: "rated in-parts" }, make("thead", {}, make("tr", {}, ...["Model", "Answer", "Rating", ...(hasJudge ? ["The judge"] : [])].map((title) => make("th", { scope: "col" }, title)))), ...bodies, overall);
}

// Each model's plan next to the gold plans.
function plans(details, answers) {
  const isLogged = answers.some((answer) => (answer.alignments ?? []).some((alignment) => alignment.pairs));
  return [
    make("p", { class: "rule" }, isLogged
      ? "Marked steps are equal, and in the same order: they are the longest common subsequence that the score counts, in which similar steps are equal. If there are several, the one that ends earliest in the plan is marked."
      : "The runs did not log which steps are equal. Runs of this version do."),
    ...answers.map((answer, i) => make("details", { class: "plan", ...(i < 3 ? { open: "" } : {}) },
      make("summary", {}, mark(answer, VERDICTS[answer.letter][1]), " ", make("bdi", { class: "name" }, answer.name), " ", verdictOf(answer), ...(answer.alignments ?? []).map(({ gold, norm }) => make("span", { class: "muted" }, ` ${gold}: ${norm.toFixed(3)}`))),
      answer.steps ? planColumns(details, answer) : make("div", {}, ...words(answer)))),
  ];
}

function planColumns(details, answer) {
  const pairs = new Map(answer.alignments.map((alignment) => [alignment.gold, alignment.pairs ?? []]));
  const equal = answer.steps.map((_, step) => details.golds.flatMap(([gold], i) => {
    const pair = pairs.get(gold)?.find(([own]) => own === step);
    return pair ? [`= gold ${i + 1}, step ${pair[1] + 1}`] : [];
  }));
  const columns = details.golds.map(([gold, steps]) => {
    const alignment = answer.alignments.find((other) => other.gold === gold);
    const plain = alignment ? `${alignment.length} of ${alignment.steps} steps in order: ${alignment.norm.toFixed(3)}` : "not compared";
    const own = new Map((pairs.get(gold) ?? []).map(([step, position]) => [position, [`= step ${step + 1}`]]));
    return planColumn(gold, plain, steps, steps.map((_, position) => own.get(position) ?? []));
  });
  const read = answer.text.split("\n\nRead as ")[1];
  return make("div", {}, 
    make("div", { class: "columns scroll", tabindex: "0", role: "region", "aria-label": `${answer.name} and the gold plans` },
      planColumn("The model\u2019s plan", answer.steps.length === 1 ? "1 step" : `${answer.steps.length.toLocaleString("en")} steps`, answer.steps, equal), ...columns),
    make("p", { class: "rating" }, [answer.rating, answer.people && `people: ${answer.people}`, tokensOf(answer)].filter(Boolean).join("; "), answer.disputed ? badge("disagree", "w") : ""),
    read === undefined ? null : make("details", {}, make("summary", {}, `Read as ${read.split("\n")[0].replace(":", "")}`), make("p", { class: "prompt", dir: "auto", tabindex: "0" }, read.split("\n").slice(1).join("\n"))));
}

function planColumn(title, subtitle, steps, equal) {
  return make("section", {}, make("h3", {}, title), make("p", { class: "note" }, subtitle), steps.length
    ? make("ol", { class: "steps", tabindex: "0" }, ...steps.map((step, i) => make("li", { class: equal[i].length ? "equal" : null }, step.trim() ? make("bdi", {}, step) : make("span", { class: "none" }, "(blank line)"),
      ...equal[i].flatMap((text) => [" ", make("span", { class: "note" }, text)]))))
    : make("p", { class: "none" }, "The plan is empty."));
}
