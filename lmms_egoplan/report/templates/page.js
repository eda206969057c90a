// Helpers, theme, tables and navigation of the page.

const byId = (id) => document.getElementById(id);

// Create an element with attributes and children. Texts never become markup.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function theme() {
  const button = byId("theme");
  const names = ["as the system", "light", "dark"];
  const read = () => { try { return localStorage.getItem("egoplan-report-theme"); } catch { return null; } };
  const show = (name) => {
    if (name === names[0]) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.querySelector(".words").textContent = `Theme: ${name}`;
    button.setAttribute("aria-label", `Theme: ${name}`);
    button.value = name;
  };
  button.hidden = false;
  show(names.includes(read()) ? read() : names[0]);
  button.addEventListener("click", () => {
    show(names[(names.indexOf(button.value) + 1) % names.length]);
    try { localStorage.setItem("egoplan-report-theme", button.value); } catch { /* Without storage, the choice ends with the page. */ }
  });
}

const collator = new Intl.Collator("en", { numeric: true });

function sortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const first = head.dataset.first;
      const second = first === "ascending" ? "descending" : "ascending";
      const order = { [first]: second, [second]: null }[head.getAttribute("aria-sort")];
      sort(column, order === undefined ? first : order);
    });
  });

  // Missing values come last in both orders. Without an order, the original order is restored.
  function sort(column, order) {
    heads.forEach((head, i) => (i === column && order ? head.setAttribute("aria-sort", order) : head.removeAttribute("aria-sort")));
    const isNumber = heads[column].classList.contains("number");
    const values = new Map(original.map((row) => [row, row.cells[column].dataset.value]));
    const sign = order === "ascending" ? 1 : -1;
    const compare = (one, two) => {
      const [a, b] = [values.get(one), values.get(two)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * (isNumber && !isNaN(a) && !isNaN(b) ? a - b : collator.compare(a, b));
    };
    body.append(...(order ? [...original].sort(compare) : original));
  }
}

// Show one attribute at a time, chosen by its name.
function slices(box) {
  const select = box.querySelector("select");
  const parts = [...box.querySelectorAll(".slice")];
  const show = () => parts.forEach((part, i) => { part.hidden = String(i) !== select.value; });
  select.hidden = false;
  for (const part of parts) part.querySelector("h4").hidden = true;
  select.addEventListener("change", show);
  show();
}

// Mark the link of the visible section, and unfold the target of a link.
function navigation() {
  const links = new Map([...document.querySelectorAll(".top nav a")].map((link) => [link.hash.slice(1), link]));
  const sections = [...links.keys()].map(byId).filter(Boolean);
  const mark = () => {
    const above = sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 3);
    const current = above[above.length - 1] ?? sections[0];
    for (const [id, link] of links) {
      if (id === current?.id) {
        if (!link.hasAttribute("aria-current")) { link.setAttribute("aria-current", "true"); link.parentElement.parentElement.parentElement.scrollLeft = link.offsetLeft - 80; }
      } else link.removeAttribute("aria-current");
    }
  };
  let waiting = false;
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; mark(); }); } }, { passive: true });
  mark();
  const unfold = () => {
    const target = /^#[\w-]+$/.test(location.hash) ? byId(location.hash.slice(1)) : null;
    const folded = target?.closest("details:not([open])");
    if (folded) { folded.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
}

// If a table fits, its box does not scroll. The table's head is then visible while the page scrolls.
function fitting(boxes) {
  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const fits = target.firstElementChild.offsetWidth <= target.clientWidth;
      target.classList.toggle("fits", fits);
      const cue = target.parentElement.querySelector(".cue");
      if (cue) cue.hidden = fits;
    }
  });
  boxes.forEach((box) => watch.observe(box));
}

theme();
document.querySelectorAll("table.sortable").forEach(sortable);
fitting(document.querySelectorAll("main > section .scroll"));
document.querySelectorAll(".slices").forEach(slices);
navigation();
