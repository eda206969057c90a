// The gallery: filters, the list of questions, and the open question.

const NONE = "-";
const PAGE = 25;

// Load the runs' answers in files of a hundred questions. A page from disk cannot fetch files, but can run scripts.
function chunks(size) {
  const loading = new Map();
  const arrived = new Map();
  window.reportChunk = (number, details) => arrived.set(number, details);
  return (position) => {
    const number = Math.floor(position / size);
    if (!loading.has(number)) {
      loading.set(number, new Promise((done, failed) => {
        const script = make("script", { src: `gallery/${number}.js` });
        script.onload = () => (arrived.has(number) ? done(arrived.get(number)) : failed(script.src));
        script.onerror = () => { loading.delete(number); failed(script.src); };
        document.head.append(script);
      }));
    }
    return loading.get(number).then((details) => details[position % size]);
  };
}

function readIndex() {
  const data = JSON.parse(byId("index").textContent);
  const items = data.items.map(([key, question, benchmark, coded, verdicts, picture], position) => {
    const facts = new Map();
    for (let i = 0; i < coded.length; i += 2) {
      const [name, values] = data.facts[coded[i]];
      facts.set(name, values[coded[i + 1]]);
    }
    return { position, key, question, benchmark: data.benchmarks[benchmark], facts, verdicts, picture };
  });
  return { ...data, items };
}

function gallery() {
  const index = readIndex();
  const detailsOf = chunks(index.chunk);
  const byKey = new Map(index.items.map((item) => [item.key, item]));
  const form = byId("filters");
  const field = form.elements;
  const list = byId("items");
  const dialog = byId("item");
  let matches = index.items;
  let page = 0;
  let current = null;

  const titleOf = (benchmark) => byId(`${benchmark}-title`)?.textContent ?? benchmark;
  const scored = (item) => [...item.verdicts].filter((letter) => letter !== NONE && letter !== "u");
  const addressOf = (item) => `#gallery/${item.key.split("/").map(encodeURIComponent).join("/")}`;

  function fill(select, options, value) {
    select.replaceChildren(...options.map(([code, text]) => make("option", { value: code }, text)));
    if (options.some(([code]) => code === value)) select.value = value;
  }

  // The available runs and facts depend on the benchmark.
  function offer() {
    const items = index.items.filter((item) => !field.benchmark.value || item.benchmark === field.benchmark.value);
    const available = index.runs.map((name, i) => [String(i), `${i + 1} ${name}`]).filter(([i]) => items.some((item) => item.verdicts[i] !== NONE));
    fill(field.run, [["", "any run"], ...available], field.run.value);
    fill(field.one, available, field.one.value);
    fill(field.two, available, field.two.value);
    if (field.one.value === field.two.value && available.length > 1) field.two.value = available.find(([i]) => i !== field.one.value)[0];
    field.show.options[2].disabled = available.length < 2;
    byId("legend").replaceChildren(...available.map(([i]) => make("li", {}, make("b", {}, String(Number(i) + 1)), " ", make("bdi", { class: "name" }, index.runs[i]))));
    byId("facts").replaceChildren(...(field.benchmark.value ? index.facts : []).flatMap(([name, values]) => {
      const used = new Set(items.map((item) => item.facts.get(name)).filter((value) => value !== undefined));
      if (!used.size) return [];
      const select = make("select", { "data-fact": name });
      fill(select, [["", "any"], ...[...used].sort(collator.compare).map((value) => [`=${value}`, value])], "");
      return [make("label", {}, `${name} `, select)];
    }));
  }

  function test() {
    const words = field.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const facts = [...byId("facts").querySelectorAll("select")].filter((select) => select.value);
    const [benchmark, run, verdict, show] = [field.benchmark.value, field.run.value, field.verdict.value, field.show.value];
    return (item) => {
      if (benchmark && item.benchmark !== benchmark) return false;
      const letters = run ? item.verdicts[run].replace(NONE, "") : item.verdicts.replaceAll(NONE, "");
      if (!letters && run) return false;
      if (verdict && !letters.includes(verdict)) return false;
      if (facts.some((select) => `=${item.facts.get(select.dataset.fact)}` !== select.value)) return false;
      if (show === "wrong" && !(scored(item).length && scored(item).every((letter) => letter === "w"))) return false;
      if (show === "differ") {
        const pair = [item.verdicts[field.one.value], item.verdicts[field.two.value]];
        if (pair[0] === pair[1] || pair.some((letter) => letter === NONE || letter === "u")) return false;
      }
      item.text ??= [item.key, item.question, ...item.facts.values()].join("\n").toLowerCase();
      return words.every((word) => item.text.includes(word));
    };
  }

  function filter() {
    for (const label of form.querySelectorAll(".pair")) label.hidden = field.show.value !== "differ";
    matches = index.items.filter(test());
    page = 0;
    show();
  }

  function row(item) {
    const marks = [...item.verdicts].map((letter, i) => (letter === NONE ? null : mark(letter, i + 1, `${index.runs[i]}: ${VERDICTS[letter][1]}`)));
    const spoken = [...item.verdicts].map((letter, i) => (letter === NONE ? "" : `run ${i + 1} ${VERDICTS[letter][1]}`)).filter(Boolean).join(", ");
    const picture = item.picture ? make("img", { src: `gallery/images/${item.picture}`, alt: "", loading: "lazy" }) : "no picture";
    return make("li", {}, make("a", { href: addressOf(item) },
      list.classList.contains("plain") ? null : make("span", { class: "thumb" }, picture),
      make("div", {}, make("p", { class: "question", dir: "auto" }, item.question),
        make("p", { class: "about" }, make("b", {}, item.key), [...item.facts].map(([name, value]) => `${name}: ${value}`).join(" \u00b7 "))),
      make("span", { class: "marks", "aria-hidden": "true" }, ...marks), make("span", { class: "spoken" }, spoken)));
  }

  function show() {
    const last = Math.max(0, Math.ceil(matches.length / PAGE) - 1);
    page = Math.min(Math.max(page, 0), last);
    const visible = matches.slice(page * PAGE, (page + 1) * PAGE);
    list.classList.toggle("plain", !visible.some((item) => item.picture));
    list.replaceChildren(...visible.map(row));
    byId("count").textContent = `${matches.length.toLocaleString("en")} of ${index.items.length.toLocaleString("en")} questions`;
    byId("page").textContent = `Page ${page + 1} of ${last + 1}`;
    byId("before").disabled = page === 0;
    byId("after").disabled = page === last;
    byId("pages").hidden = last === 0;
  }

  function turn(by) {
    page += by;
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
    if (target < 0 || target * PAGE >= matches.length) return undefined;
    turn(by);
    return list.querySelector(by > 0 ? "li:first-child a" : "li:last-child a").focus();
  }

  function open(item) {
    current = item;
    const position = matches.indexOf(item);
    byId("item-key").textContent = `${titleOf(item.benchmark)}: ${item.key}`;
    byId("item-place").textContent = position < 0 ? "not among the filtered questions" : `${(position + 1).toLocaleString("en")} of ${matches.length.toLocaleString("en")}`;
    byId("item-before").disabled = !matches[position - 1];
    byId("item-after").disabled = !matches[position + 1];
    const body = byId("item-body");
    body.replaceChildren(make("p", { class: "asked", dir: "auto" }, item.question));
    body.setAttribute("aria-busy", "true");
    if (!dialog.open) dialog.showModal();
    body.scrollTop = 0;
    body.focus();
    detailsOf(item.position).then(
      (details) => { if (current === item) body.replaceChildren(...opened(item, details, index.runs)); },
      (file) => { if (current === item) body.append(make("p", { class: "remarks" }, `${decodeURI(file)} could not be read. The folder \u201cgallery\u201d must be next to this page.`)); },
    ).finally(() => { if (current === item) body.removeAttribute("aria-busy"); });
  }

  function leaf(by) {
    const next = matches[matches.indexOf(current) + by];
    if (!next) return;
    history.replaceState(null, "", addressOf(next));
    open(next);
  }

  // Return the key of the question in the address; undefined if there is none.
  function linked() {
    const key = /^#gallery\/(.+)$/.exec(location.hash)?.[1];
    try { return key && decodeURIComponent(key); } catch { return key; }
  }

  // Apply the filters in the address, which the bars of charts link to: #gallery?benchmark=..&run=..&fact:NAME=VALUE
  function filtered() {
    const query = /^#gallery\?(.*)$/.exec(location.hash)?.[1];
    if (query === undefined) return false;
    const filters = new URLSearchParams(query);
    const positionOf = (name) => { const position = index.runs.indexOf(name); return position < 0 ? "" : String(position); };
    const choose = (select, value) => { if (select && [...select.options].some((option) => option.value === value)) select.value = value; };
    for (const select of [field.run, field.verdict, field.show]) select.selectedIndex = 0;
    field.text.value = filters.get("text") ?? "";
    choose(field.benchmark, filters.get("benchmark") ?? "");
    offer();
    for (const name of ["run", "one", "two"]) if (filters.has(name)) choose(field[name], positionOf(filters.get(name)));
    for (const name of ["verdict", "show"]) if (filters.has(name)) choose(field[name], filters.get(name));
    for (const select of byId("facts").querySelectorAll("select")) {
      const value = filters.get(`fact:${select.dataset.fact}`);
      if (value !== null) choose(select, `=${value}`);
    }
    filter();
    byId("gallery").scrollIntoView();
    return true;
  }

  function route() {
    if (filtered()) return dialog.open && dialog.close();
    const key = linked();
    if (!key) return dialog.open && dialog.close();
    if (byKey.has(key)) return open(byKey.get(key));
    byId("count").textContent = `This report has no question ${key}`;
    return byId("gallery").scrollIntoView();
  }

  // This event fires shortly after the dialog was closed. Another question may already be loading.
  dialog.addEventListener("close", () => {
    if (dialog.open || (linked() && linked() !== current?.key)) return;
    if (linked()) history.replaceState(null, "", "#gallery");
    const position = matches.indexOf(current);
    current = null;
    if (position < 0 || location.hash !== "#gallery") return;
    if (Math.floor(position / PAGE) !== page) { page = Math.floor(position / PAGE); show(); }
    list.children[position % PAGE].querySelector("a").focus();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  byId("item-close").addEventListener("click", () => dialog.close());
  byId("item-before").addEventListener("click", () => leaf(-1));
  byId("item-after").addEventListener("click", () => leaf(1));
  byId("before").addEventListener("click", () => turn(-1));
  byId("after").addEventListener("click", () => turn(1));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => { if (event.target === field.benchmark) offer(); filter(); });
  form.addEventListener("reset", () => setTimeout(() => { offer(); filter(); }));
  window.addEventListener("hashchange", route);
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

  const several = index.benchmarks.length > 1;
  fill(field.benchmark, [...(several ? [["", "all benchmarks"]] : []), ...index.benchmarks.map((key) => [key, titleOf(key)])], "");
  fill(field.verdict, [["", "any verdict"], ...Object.entries(VERDICTS).map(([letter, [sign, word]]) => [letter, `${sign} ${word}`])], "");
  offer();
  filter();
  for (const id of ["filters", "found", "legend"]) byId(id).hidden = false;
  route();
}

if (byId("index")) gallery();
