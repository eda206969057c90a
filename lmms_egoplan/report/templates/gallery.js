// The gallery: filters and their address, the list of questions, and the open question.

const NONE = "-";
const PAGE = 25;
const TYPING_MS = 250;
const MOST_NAMES = 10;

// Read the index. An answer has the run's number, the task, the letter of its verdict, and perhaps gains.
function readIndex() {
  const data = JSON.parse(byId("index").textContent);
  const items = data.items.map(([key, question, benchmark, coded, verdicts, picture], position) => {
    const facts = new Map();
    for (let i = 0; i < coded.length; i += 2) {
      const [name, values] = data.facts[coded[i]];
      facts.set(name, values[coded[i + 1]]);
    }
    const answers = [];
    data.columns[benchmark].forEach(([run, task], column) => {
      const letter = verdicts[column];
      if (letter !== NONE) answers.push({ column, run, name: data.runs[run], task: data.tasks[task], letter, isDisputed: false });
    });
    return { position, key, question, benchmark: data.benchmarks[benchmark], facts, answers, picture };
  });
  const answerOf = (position, column) => items[position].answers.find((answer) => answer.column === column);
  for (const [position, entries] of Object.entries(data.gains)) {
    for (const [column, gain, margin] of entries) Object.assign(answerOf(position, column), { gain, margin });
  }
  for (const [position, columns] of Object.entries(data.disputed)) {
    for (const column of columns) answerOf(position, column).isDisputed = true;
  }
  const tasksOf = new Map(data.benchmarks.map((benchmark, i) => [benchmark, [...new Set(data.columns[i].map(([, task]) => data.tasks[task]))]]));
  return { ...data, items, tasksOf };
}

// Parse an address of the gallery; null for other addresses. All parts after #gallery are optional:
// #gallery/KEY?text=..&benchmark=..&task=..&run=..&verdict=..&show=..&sort=..&one=..&two=..&fact:NAME=..&page=..&question=..
function parsed(hash) {
  const match = /^#gallery(?:\/([^?]*))?(?:\?(.*))?$/.exec(hash);
  if (!match) return null;
  let key = match[1] || null;
  try { key &&= decodeURIComponent(key); } catch { /* A malformed key is the key of no question. */ }
  return { key, filters: new URLSearchParams(match[2] ?? "") };
}

function gallery() {
  const index = readIndex();
  const files = answerFiles(index.items, index.chunk);
  const byKey = new Map(index.items.map((item) => [item.key, item]));
  const form = byId("filters");
  const field = form.elements;
  const list = byId("items");
  const dialog = byId("item");
  const savedButtons = [...byId("saved").querySelectorAll("button")];
  const several = index.benchmarks.length > 1;
  let matches = index.items;
  let page = 0;
  let current = null; // The open question, and its details when they have been read.
  let details = null;
  let search = 0; // Number of the last search. A search with another number is stale.
  let typing = 0; // The timer that starts a search when nothing was typed for a moment.
  let isBusy = false;
  let missing = []; // Files that the last search could not read.
  let counted = {}; // Benchmark and task, and in them the number of questions of each saved filter.
  let unread = []; // Names in the address that are no filters.
  let remarks = []; // Further problems of the address.
  let edited = null; // The field of the last change, and true if its change came from the keyboard.
  let isKeyed = false;
  let isLeaving = false; // True while the browser steps back from a closed question to the list.

  const titleOf = (benchmark) => byId(`${benchmark}-title`)?.textContent ?? benchmark;
  const factSelects = () => [...byId("facts").querySelectorAll("select")];
  const sorts = { gain: ["gain", -1], "gain-up": ["gain", 1], margin: ["margin", -1], "margin-up": ["margin", 1] }; // Field of an answer, and sign.
  const quoted = (text) => ["\u201c", make("bdi", {}, text), "\u201d"];

  function fill(select, options, value) {
    select.replaceChildren(...options.map(([code, text]) => make("option", { value: code }, text)));
    if (options.some(([code]) => code === value)) select.value = value;
  }

  // Choose an option. A value that this report lacks becomes an option without questions.
  function choose(select, value) {
    if (value && ![...select.options].some((option) => option.value === value)) {
      const text = select.dataset.fact === undefined ? value : value.slice(1);
      select.append(make("option", { value, "data-unknown": text }, `${text} (no questions)`));
    }
    if (value) select.value = value;
    else select.selectedIndex = 0;
  }

  // Return the answers in the chosen task. Without a task, it is the first one with an answer, of the chosen model if there is one.
  function answersOf(item, task = field.task.value, run = field.run.value) {
    const first = item.answers.find((answer) => !run || answer.name === run) ?? item.answers[0];
    return item.answers.filter((answer) => answer.task === (task || first.task));
  }

  const scored = (answers) => answers.filter((answer) => answer.letter !== "u");
  const isWrong = (answers) => scored(answers).length > 0 && scored(answers).every((answer) => answer.letter === "w");

  // True if two models have different verdicts: any two, or the chosen ones.
  function isSplit(answers, one = "", two = "") {
    const [firsts, seconds] = [one, two].map((name) => scored(answers).filter((answer) => !name || answer.name === name));
    return firsts.some((first) => seconds.some((second) => first.letter !== second.letter));
  }

  const saved = {
    wrong: isWrong,
    differ: isSplit,
    disputed: (answers) => answers.some((answer) => answer.isDisputed),
  };

  // The available models, tasks and facts depend on the benchmark. Without a benchmark, only the given facts are available.
  function offer(names = []) {
    const benchmark = index.benchmarks.includes(field.benchmark.value) ? field.benchmark.value : "";
    const items = index.items.filter((item) => !benchmark || item.benchmark === benchmark);
    const columns = index.columns.filter((_, i) => !benchmark || index.benchmarks[i] === benchmark).flat();
    const numbers = new Set(columns.map(([run]) => run));
    const available = index.runs.filter((_, run) => numbers.has(run));
    const options = available.map((name) => [name, name]);
    const tasks = benchmark ? index.tasksOf.get(benchmark) : [...new Set([...index.tasksOf.values()].flat())];
    const hasOthers = benchmark ? tasks.length > 1 : tasks.length > index.benchmarks.length;
    fill(field.task, [["", benchmark ? `main task (${tasks[0]})` : "main tasks"], ...tasks.map((name) => [name, name])], field.task.value);
    field.task.parentElement.hidden = !hasOthers;
    fill(field.run, [["", "any model"], ...options], field.run.value);
    for (const name of ["one", "two"]) fill(field[name], [["", "any model"], ...options], field[name].value);
    byId("legend").replaceChildren(...available.map((name) => make("li", {}, chip(index.runs.indexOf(name)), " ", make("bdi", { class: "name" }, name))));
    const known = index.facts.map(([name]) => name).filter((name) => benchmark || names.includes(name));
    byId("facts").replaceChildren(...[...new Set([...known, ...names])].flatMap((name) => {
      const used = new Set(items.map((item) => item.facts.get(name)).filter((value) => value !== undefined));
      if (!used.size && !names.includes(name)) return [];
      const select = make("select", { "data-fact": name });
      fill(select, [["", "any"], ...[...used].sort(collator.compare).map((value) => [`=${value}`, value])], "");
      return [make("label", {}, `${name} `, select)];
    }));
  }

  function active() {
    const filters = new URLSearchParams();
    const add = (name, value) => { if (value) filters.set(name, value); };
    add("text", field.text.value.trim());
    for (const name of ["benchmark", "task", "run", "verdict", "show", "sort"]) add(name, field[name].value);
    if (field.show.value === "differ") for (const name of ["one", "two"]) add(name, field[name].value);
    for (const select of factSelects()) if (select.value) filters.set(`fact:${select.dataset.fact}`, select.value.slice(1));
    if (!several && [...filters].length === 1) filters.delete("benchmark"); // The only one, and no choice.
    return filters;
  }

  function addressOf(item, filters = active()) {
    if (!item && page) filters.set("page", page + 1);
    const path = item ? `/${item.key.split("/").map(encodeURIComponent).join("/")}` : "";
    return `#gallery${path}${String(filters) && `?${filters}`}`;
  }

  // Set the form to an address.
  function apply(filters) {
    const rest = new Map(filters);
    const take = (name) => { const value = rest.get(name) ?? ""; rest.delete(name); return value; };
    field.text.value = take("text");
    for (const name of ["task", "run", "one", "two"]) field[name].replaceChildren();
    choose(field.benchmark, take("benchmark"));
    offer([...rest.keys()].filter((name) => name.startsWith("fact:")).map((name) => name.slice(5)));
    for (const name of ["task", "run", "verdict", "show", "sort"]) choose(field[name], take(name));
    field.task.parentElement.hidden &&= !field.task.value;
    for (const name of ["one", "two"]) {
      const value = take(name);
      if (value && field.show.value === "differ") choose(field[name], value);
    }
    for (const select of factSelects()) {
      const name = `fact:${select.dataset.fact}`;
      if (rest.has(name)) choose(select, `=${take(name)}`);
    }
    for (const name of ["page", "question"]) rest.delete(name);
    unread = [...rest.keys()];
  }

  function test() {
    const facts = factSelects().filter((select) => select.value);
    const [benchmark, task, run, verdict, show, one, two] = ["benchmark", "task", "run", "verdict", "show", "one", "two"].map((name) => field[name].value);
    const isNone = unread.length || [field.show, field.sort].some((select) => select.selectedOptions[0].dataset.unknown !== undefined);
    return (item) => {
      if (isNone || (benchmark && item.benchmark !== benchmark)) return false;
      const answers = answersOf(item, task, run);
      const own = answers.filter((answer) => !run || answer.name === run);
      if (!own.length || (verdict && !own.some((answer) => answer.letter === verdict))) return false;
      if (facts.some((select) => `=${item.facts.get(select.dataset.fact)}` !== select.value)) return false;
      return !show || saved[show](answers, one, two);
    };
  }

  // Return the mean gain of the chosen model, or of all models that have one; undefined if there is none.
  function gainOf(item, name = "gain") {
    const run = field.run.value;
    const gains = item.answers.filter((answer) => answer[name] !== undefined && (!run || answer.name === run)).map((answer) => answer[name]);
    return gains.length ? gains.reduce((sum, gain) => sum + gain, 0) / gains.length : undefined;
  }

  // Sort questions by the gain. Questions without one come last.
  function sorted(items) {
    const [name, sign] = sorts[field.sort.value] ?? [];
    if (!name) return items;
    const gains = new Map(items.map((item) => [item, gainOf(item, name)]));
    return [...items].sort((one, two) => {
      const [a, b] = [gains.get(one), gains.get(two)];
      return a === undefined || b === undefined ? (a === undefined) - (b === undefined) : sign * (a - b);
    });
  }

  // Show that the count of an earlier search is not valid anymore.
  function wait() {
    isBusy = true;
    list.setAttribute("aria-busy", "true");
    byId("count").textContent = "Searching\u2026";
    byId("before").disabled = byId("after").disabled = true;
  }

  // List the questions that pass the filters. A search reads the files with answers that it needs.
  async function filter(wanted = 0) {
    const number = ++search;
    clearTimeout(typing);
    typing = 0;
    for (const option of form.querySelectorAll("option[data-unknown]:not(:checked)")) option.remove();
    for (const label of form.querySelectorAll(".pair")) label.hidden = field.show.value !== "differ";
    const words = field.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (item) => words.every((word) => files.textOf(item).includes(word));
    const candidates = index.items.filter(test());
    const unsearched = candidates.filter((item) => !item.isComplete && !has(item));
    missing = [];
    if (unsearched.length) {
      wait();
      const bar = byId("searched");
      bar.value = 0;
      bar.hidden = false;
      const names = await files.readAll(unsearched, () => number !== search, (share) => { if (number === search) bar.value = share; });
      if (number !== search) return;
      missing = names;
    }
    matches = sorted(candidates.filter(has));
    page = current && matches.includes(current) ? Math.floor(matches.indexOf(current) / PAGE) : wanted;
    showPage();
  }

  // Show a page that the address asks for.
  function showPage() {
    if (page * PAGE >= Math.max(matches.length, 1)) remarks.push(["The list does not have the page in the address. This is its last page."]);
    show();
  }

  function row(item, filters) {
    const gain = gainOf(item);
    const answers = answersOf(item);
    const marks = answers.map((answer) => mark(answer, `${answer.name}: ${VERDICTS[answer.letter][1]}`));
    const spoken = answers.map((answer) => `${answer.name} ${VERDICTS[answer.letter][1]}`).join(", ");
    const isOther = !field.task.value && answers.length && answers[0].task !== index.tasksOf.get(item.benchmark)[0];
    const picture = item.picture ? make("img", { src: `gallery/images/${item.picture}`, alt: "", loading: "lazy" }) : "no picture";
    return make("li", {}, make("a", { href: addressOf(item, filters) },
      list.classList.contains("plain") ? null : make("span", { class: "thumb" }, picture),
      make("div", {}, make("p", { class: "question", dir: "auto" }, item.question),
        gain === undefined ? null : make("p", { class: "about gain" }, `${field.run.value || item.answers.filter((answer) => answer.gain !== undefined).length < 2 ? "" : "mean "}gain ${signed(gain)}, margin ${signed(gainOf(item, "margin"))} nats`),
        make("p", { class: "about" }, make("b", {}, item.key), [...(isOther ? [["task", answers[0].task]] : []), ...item.facts].map(([name, value]) => `${name}: ${value}`).join(" \u00b7 "))),
      make("span", { class: "marks", "aria-hidden": "true" }, ...marks), make("span", { class: "spoken" }, spoken)));
  }

  function show() {
    const last = Math.max(0, Math.ceil(matches.length / PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const visible = matches.slice(page * PAGE, (page + 1) * PAGE);
    const filters = active();
    isBusy = false;
    list.removeAttribute("aria-busy");
    byId("searched").hidden = true;
    list.classList.toggle("plain", !visible.some((item) => item.picture));
    list.replaceChildren(...visible.map((item) => row(item, filters)));
    const count = `${matches.length.toLocaleString("en")} of ${index.items.length.toLocaleString("en")} questions`;
    byId("count").textContent = missing.length ? `${count} (incomplete)` : count;
    byId("page").textContent = `Page ${page + 1} of ${last + 1}`;
    byId("before").disabled = page === 0;
    byId("after").disabled = page === last;
    byId("pages").hidden = last === 0;
    if (current) locate();
    offerSaved();
    notify();
  }

  // Count the questions of each saved filter in the chosen benchmark and task.
  function offerSaved() {
    const [benchmark, task] = [field.benchmark.value, field.task.value];
    if (counted.benchmark !== benchmark || counted.task !== task) {
      const items = index.items.filter((item) => !benchmark || item.benchmark === benchmark);
      const answers = items.map((item) => answersOf(item, task, ""));
      counted = { benchmark, task, counts: new Map(Object.entries(saved).map(([show, has]) => [show, answers.filter((of) => has(of)).length])) };
    }
    for (const button of savedButtons) {
      const { show } = button.dataset;
      const count = counted.counts.get(show);
      button.querySelector(".count").textContent = count.toLocaleString("en");
      button.disabled = !count && field.show.value !== show;
      button.setAttribute("aria-pressed", String(field.show.value === show));
    }
  }

  // Set the filters to a saved one, or clear it. Benchmark and task stay.
  function applySaved(button) {
    const filters = new URLSearchParams();
    for (const name of ["benchmark", "task"]) if (field[name].value) filters.set(name, field[name].value);
    if (button.getAttribute("aria-pressed") !== "true") filters.set("show", button.dataset.show);
    apply(filters);
    changed(button);
  }

  // Show what the address asks for and this report lacks, and what the search could not read.
  function notify() {
    const title = index.benchmarks.includes(field.benchmark.value) ? titleOf(field.benchmark.value) : "this report";
    const phrases = { benchmark: "belongs to the benchmark", task: "has an answer in the task", run: "has an answer of the model", one: "has an answer of the model", two: "has an answer of the model", verdict: "has the verdict", show: "is listed by the filter", sort: "is in the order" };
    const lines = [...form.querySelectorAll("option[data-unknown]:checked")].map((option) => {
      const select = option.parentElement;
      return [`No question of ${title} ${phrases[select.name] ?? `has the ${select.dataset.fact}`} `, ...quoted(option.dataset.unknown), "."];
    });
    if (unread.length) lines.push(["The address has unknown filters: ", ...unread.flatMap((name, i) => [i ? ", " : "", ...quoted(name)]), ". Clear the filters to see all questions."]);
    if (missing.length) {
      const more = missing.length > MOST_NAMES ? ` and ${missing.length - MOST_NAMES} more` : "";
      lines.push([`Not searched: ${missing.slice(0, MOST_NAMES).join(", ")}${more} could not be read. The folder \u201cgallery\u201d must be next to this page.`]);
    }
    const parts = [...lines, ...remarks].map((line) => make("p", {}, ...line));
    const notice = byId("notice");
    notice.hidden = !parts.length;
    if (notice.textContent !== parts.map((part) => part.textContent).join("")) notice.replaceChildren(...parts);
  }

  // Write an address. While the browser steps back, the address is written after the step.
  function visit(address, method) {
    if (isLeaving || address === location.hash) return;
    history[method](method === "pushState" ? { gallery: address } : { ...history.state, gallery: address }, "", address);
  }

  // Apply a change of the form. Changes of one field by typing, or by arrow keys, are one entry in the history.
  function changed(target) {
    const isStep = target === edited && (target === field.text || isKeyed);
    edited = target;
    page = 0;
    unread = [];
    remarks = [];
    filter();
    visit(addressOf(current), isStep || current ? "replaceState" : "pushState");
  }

  function turn(by) {
    if (isBusy) return;
    page += by;
    remarks = [];
    show();
    byId("found").scrollIntoView({ block: "start" });
  }

  // Move the focus by one question, across pages, too.
  function move(by) {
    const links = [...list.querySelectorAll("a")];
    const next = links.indexOf(document.activeElement) + by;
    if (!links.includes(document.activeElement)) return links[0]?.focus();
    if (links[next]) return links[next].focus();
    const target = page + by;
    if (isBusy || target < 0 || target * PAGE >= matches.length) return undefined;
    turn(by);
    visit(addressOf(), "replaceState");
    return list.querySelector(by > 0 ? "li:first-child a" : "li:last-child a").focus();
  }

  // Show the open question's position in the list.
  function locate() {
    const position = matches.indexOf(current);
    byId("item-place").textContent = position < 0 ? "not among the filtered questions" : `${(position + 1).toLocaleString("en")} of ${matches.length.toLocaleString("en")}`;
    byId("item-before").disabled = !matches[position - 1];
    byId("item-after").disabled = position < 0 || !matches[position + 1];
  }

  function open(item) {
    current = item;
    details = null;
    locate();
    byId("item-key").textContent = `${titleOf(item.benchmark)}: ${item.key}`;
    byId("item-address").hidden = true;
    byId("item-copied").textContent = "";
    byId("item-link").disabled = byId("item-json").disabled = true;
    const body = byId("item-body");
    body.replaceChildren(make("p", { class: "asked", dir: "auto" }, item.question));
    body.setAttribute("aria-busy", "true");
    if (!dialog.open) dialog.showModal();
    body.scrollTop = 0;
    body.focus();
    files.detailsOf(item).then((read) => {
      if (current !== item) return;
      details = read;
      byId("item-json").disabled = false;
      body.replaceChildren(...opened(item, details, answersOf(item)[0]?.task));
    }, (file) => {
      if (current === item) body.append(make("p", { class: "remarks" }, `${file} could not be read. The folder \u201cgallery\u201d must be next to this page.`));
    }).finally(() => {
      if (current !== item) return;
      byId("item-link").disabled = false;
      body.removeAttribute("aria-busy");
    });
  }

  // Find the question of a link, and open it. Other data may use the same key, but not the same identity.
  async function seek(key, identity) {
    const { hash } = location;
    let item = byKey.get(key);
    if (identity) {
      const stem = (text) => text.replace(/( \([^()]*\))+$/, "");
      const family = index.items.filter((other) => other !== item && stem(other.key) === stem(key));
      const identities = await Promise.all([item, ...family].filter(Boolean).map((other) => files.detailsOf(other).then(
        (read) => [other, read.identity || identity], () => [other, other === item ? identity : null])));
      if (location.hash !== hash) return;
      item = identities.find(([, of]) => of === identity)?.[0];
    }
    if (item) {
      if (item.key !== key) visit(addressOf(item), "replaceState");
      return open(item);
    }
    if (dialog.open) dialog.close();
    remarks.push(byKey.has(key) ? ["The question ", ...quoted(key), " of this report has other data than the question of the link."] : ["This report has no question ", ...quoted(key), "."]);
    return notify();
  }

  function leaf(by) {
    const next = matches[matches.indexOf(current) + by];
    if (!next) return;
    visit(addressOf(next), "replaceState");
    open(next);
  }

  // Scroll to the gallery. The focus is then on its heading, so that the keyboard and a screen reader continue there.
  function land(isLoading) {
    const scroll = () => byId("gallery").scrollIntoView({ behavior: "instant" });
    byId("gallery-title").focus({ preventScroll: true });
    scroll();
    if (isLoading) requestAnimationFrame(() => requestAnimationFrame(scroll)); // The size of tables above was not final.
  }

  // Follow the address. Each entry in the history stores the gallery's address, also if its own is another part of the page.
  function route(isLoading) {
    const here = parsed(location.hash);
    if (isLeaving) {
      isLeaving = false;
      history.replaceState({ ...history.state, gallery: addressOf() }, "", here ? addressOf() : location.hash);
      return;
    }
    const stored = history.state?.gallery;
    const wanted = here ?? parsed(stored ?? "");
    edited = null;
    if (wanted) {
      const number = Number(wanted.filters.get("page") ?? 1);
      const target = Number.isInteger(number) && number > 0 ? number - 1 : Infinity;
      const filters = new URLSearchParams(wanted.filters);
      for (const name of ["page", "question"]) filters.delete(name);
      const isSame = !unread.length && !isBusy && String(filters) === String(active());
      remarks = [];
      if (!isSame) {
        apply(wanted.filters);
        filter(target);
      } else if (target !== page && !wanted.key) {
        page = target;
        showPage();
      } else notify();
    }
    history.replaceState({ ...history.state, gallery: here ? location.hash : stored ?? addressOf() }, "");
    if (here && !stored) land(isLoading);
    if (here?.key) seek(here.key, here.filters.get("question"));
    else if (dialog.open) dialog.close();
  }

  // This event fires shortly after the dialog was closed. Another question may already be loading.
  dialog.addEventListener("close", () => {
    const here = parsed(location.hash);
    if (dialog.open) return;
    const closed = current;
    current = null;
    if (!here || (here.key && here.key !== closed?.key)) return;
    const position = isBusy ? -1 : matches.indexOf(closed);
    if (position >= 0) {
      if (Math.floor(position / PAGE) !== page) { page = Math.floor(position / PAGE); show(); }
      list.children[position % PAGE].querySelector("a").focus();
    }
    if (here.key && history.state?.isOverList) {
      isLeaving = true;
      history.back();
    } else if (here.key || !remarks.length) visit(addressOf(), "replaceState");
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  byId("item-close").addEventListener("click", () => dialog.close());
  byId("item-before").addEventListener("click", () => leaf(-1));
  byId("item-after").addEventListener("click", () => leaf(1));
  byId("item-json").addEventListener("click", () => download(`${current.key.replace(/[^\w.-]+/g, "_")}.json`, asJson(current, details, titleOf(current.benchmark))));
  byId("item-link").addEventListener("click", async () => {
    const box = byId("item-address");
    const identity = details?.identity ? { question: details.identity } : {};
    box.value = new URL(addressOf(current, new URLSearchParams(identity)), location.href).href;
    box.hidden = false;
    box.focus();
    box.select();
    let isCopied = document.execCommand("copy"); // Pages from disk may lack the permission for the clipboard's newer interface.
    if (!isCopied) isCopied = await navigator.clipboard?.writeText(box.value).then(() => true, () => false);
    byId("item-copied").textContent = isCopied ? "Copied." : "Copy the selected address.";
  });
  for (const [id, by] of [["before", -1], ["after", 1]]) byId(id).addEventListener("click", () => { turn(by); visit(addressOf(), "pushState"); });
  // Follow links to the gallery. The browser's own scrolling would continue after the list has changed.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#gallery']");
    if (!link || !parsed(link.hash) || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const isRow = list.contains(link);
    const follow = () => {
      if (isRow) {
        history.pushState({ gallery: link.hash, isOverList: true }, "", link.hash);
        open(byKey.get(parsed(link.hash).key));
      } else if (link.hash === location.hash) land(false);
      else {
        history.pushState(null, "", link.hash);
        route(false);
      }
    };
    if (isLeaving) window.addEventListener("hashchange", follow, { once: true });
    else follow();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); if (typing) changed(field.text); });
  form.addEventListener("keydown", () => { isKeyed = true; });
  form.addEventListener("pointerdown", () => { isKeyed = false; });
  form.addEventListener("input", ({ target }) => {
    if (target === field.benchmark) offer();
    if (target !== field.text) return changed(target);
    search += 1;
    clearTimeout(typing);
    typing = setTimeout(() => changed(field.text), TYPING_MS);
    return wait();
  });
  form.addEventListener("reset", () => setTimeout(() => { offer(); changed(form); }));
  window.addEventListener("hashchange", () => route(false));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
    const across = { j: 1, ArrowRight: 1, k: -1, ArrowLeft: -1 }[event.key];
    if (dialog.open) {
      if (across && !event.target.closest(".scroll")) { event.preventDefault(); leaf(across); }
    } else if (event.key === "/") {
      event.preventDefault();
      field.text.focus();
      field.text.select();
    } else if (by && (event.key.length === 1 || list.contains(event.target))) {
      event.preventDefault();
      move(by);
    }
  });

  for (const button of savedButtons) button.addEventListener("click", () => applySaved(button));
  const hasGains = Object.keys(index.gains).length > 0;
  field.sort.parentElement.hidden = !hasGains;
  if (!hasGains) field.sort.replaceChildren(field.sort.options[0]);
  fill(field.benchmark, [...(several ? [["", "all benchmarks"]] : []), ...index.benchmarks.map((key) => [key, titleOf(key)])], "");
  fill(field.verdict, [["", "any verdict"], ...Object.entries(VERDICTS).map(([letter, [sign, word]]) => [letter, `${sign} ${word}`])], "");
  const isDisputed = Object.keys(index.disputed).length > 0;
  if (!isDisputed) field.show.querySelector("[value=disputed]").remove();
  for (const button of savedButtons) button.hidden = button.dataset.show === "disputed" && !isDisputed;
  byId("disputed-rule").hidden = !isDisputed;
  for (const id of ["filters", "saved", "found", "legend"]) byId(id).hidden = false;
  offer();
  filter();
  route(true);
}

if (byId("index")) gallery();
