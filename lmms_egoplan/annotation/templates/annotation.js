// Keyboard shortcuts, time measurement, dependent fields, drafts, and the cut of a clip. Forms also save labels without
// this script.

const form = document.getElementById("label");

// Seconds in which the page was in view.
const clock = {
  seconds: 0,
  since: document.hidden ? null : performance.now(),
  elapsed() { return this.seconds + (this.since === null ? 0 : (performance.now() - this.since) / 1000); },
  stop() { this.seconds = this.elapsed(); this.since = null; },
  start() { this.since ??= performance.now(); },
};

function timed() {
  document.addEventListener("visibilitychange", () => { if (document.hidden) clock.stop(); else clock.start(); });
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) { event.preventDefault(); return; }
    clock.stop();
    form.elements.seconds.value = clock.elapsed().toFixed(1);
    form.dataset.sent = "yes";
  });
  // After going back in the history, the form may be sent again.
  window.addEventListener("pageshow", () => { delete form.dataset.sent; clock.start(); });
}

function dependent() {
  const fields = [...form.querySelectorAll("fieldset[data-applies]")];
  const update = () => fields.forEach((field) => {
    const chosen = form.querySelector(`[name="${field.dataset.applies}"]:checked`);
    field.hidden = !chosen || chosen.closest("fieldset").disabled || !field.dataset.values.split(" ").includes(chosen.value);
    field.disabled = field.hidden;
  });
  form.addEventListener("change", update);
  update();
}

function marks() {
  form.querySelectorAll("details.marks").forEach((details) => {
    const boxes = [...details.querySelectorAll("input")];
    const update = () => {
      const steps = boxes.filter((box) => box.checked).map((box) => box.value.split(":").at(-1)).map((step) => (step === "0" ? "whole plan" : step));
      details.querySelector(".count").textContent = steps.join(", ");
    };
    details.addEventListener("change", update);
    details.addEventListener("keydown", (event) => {
      const index = boxes.indexOf(event.target);
      const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (index < 0 || !move) return;
      event.preventDefault();
      boxes[(index + move + boxes.length) % boxes.length].focus();
    });
    update();
  });
}

function candidates() {
  form.querySelectorAll("button[data-text]").forEach((button) => {
    const area = button.closest("fieldset").querySelector("textarea");
    const update = () => { button.parentElement.hidden = area.value.trim() === button.dataset.text; };
    area.addEventListener("input", update);
    button.addEventListener("click", () => { area.value = button.dataset.text; area.focus(); area.dispatchEvent(new Event("input", { bubbles: true })); });
    update();
  });
}

// The clip plays by itself, unless the person prefers reduced motion, at the speed of the clip before.
const speeds = [0.25, 0.5, 1, 1.5, 2];
function playback() {
  const video = document.querySelector("video");
  if (!video) return;
  const output = document.querySelector(".speed output");
  const set = (speed) => {
    video.playbackRate = speed;
    output.textContent = `${speed}\u00d7`;
    localStorage.setItem("speed", speed);
  };
  document.querySelectorAll("button[data-faster]").forEach((button) => button.addEventListener("click", () => {
    const index = speeds.indexOf(video.playbackRate) + Number(button.dataset.faster);
    set(speeds[Math.min(speeds.length - 1, Math.max(0, index))]);
  }));
  const speed = Number(localStorage.getItem("speed"));
  set(speeds.includes(speed) ? speed : 1);
  // Browsers may refuse. The controls still play the clip.
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) video.play().catch(() => {});
}

// The clip plays up to the cut, stops at the last frame before it for half a second, and repeats. The frame at the cut
// itself is not shown. While the cut moves, the clip shows the last frame before it.
function moments() {
  const video = document.querySelector("video");
  form.querySelectorAll("input[data-times]").forEach((input) => {
    const times = input.dataset.times.split(" ").map(Number);
    const output = input.closest("fieldset").querySelector("output");
    const nearest = () => times.reduce((best, time, index) => (Math.abs(time - input.value) < Math.abs(times[best] - input.value) ? index : best), 0);
    const last = () => Math.max(0, input.value - input.dataset.start - input.dataset.step / 2);
    let rewinding;
    const show = () => {
      clearTimeout(rewinding);
      output.textContent = `${Number(input.value).toFixed(3)} s`;
      input.setAttribute("aria-valuetext", output.textContent);
      if (!video) return;
      video.pause();
      video.currentTime = last();
    };
    const repeat = () => {
      if (video.paused) return;
      // The next check is about 1/60 s later, and the clip may play on for some frames of the screen after it.
      if (video.currentTime + video.playbackRate / 15 < last()) {
        requestAnimationFrame(repeat);
        return;
      }
      video.pause();
      video.currentTime = last();
      rewinding = setTimeout(() => { video.currentTime = 0; video.play(); }, 500);
    };
    video?.addEventListener("play", () => {
      clearTimeout(rewinding);
      if (video.currentTime >= last() - input.dataset.step / 4) video.currentTime = 0;
      requestAnimationFrame(repeat);
    });
    input.addEventListener("input", () => { input.value = times[nearest()]; show(); });
    input.closest("fieldset").querySelectorAll("button[data-move]").forEach((button) => button.addEventListener("click", () => {
      input.value = times[Math.min(times.length - 1, Math.max(0, nearest() + Number(button.dataset.move)))];
      show();
    }));
    output.textContent = `${Number(input.value).toFixed(3)} s`;
  });
}

function keys() {
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    // Ignore key repetition: holding a key down would open or save one item after another.
    if (event.repeat && event.key !== "," && event.key !== ".") return;
    const isText = target.matches("textarea, input:not([type=radio], [type=checkbox], [type=range])");
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form) { event.preventDefault(); form.requestSubmit(); return; }
    if (isText) { if (event.key === "Escape") target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.toLowerCase();
    const guide = document.getElementById("guide");
    const video = document.querySelector("video");
    if (key === "z") document.getElementById("mine")?.click();
    else if (key === "g" && guide) guide.open = !guide.open;
    else if ((key === "-" || key === "+") && video) document.querySelector(`button[data-faster="${key === "-" ? -1 : 1}"]`).click();
    else if (!form) return;
    else if (key === "n") form.elements.comment.focus();
    else if (key === "enter" && !target.matches("button, a, summary, video")) form.requestSubmit();
    else if (key === " " && video && !target.matches("button, a, summary, video, input[type=checkbox], input[type=radio]:not(:checked)")) { if (video.paused) video.play(); else video.pause(); }
    else if ((key === "," || key === ".") && form.querySelector("button[data-move]")) form.querySelector(`button[data-move="${key === "," ? -1 : 1}"]`).click();
    else {
      const chosen = [...form.querySelectorAll("[data-key]")].find((option) => option.dataset.key === key && !option.closest("fieldset").disabled);
      if (!chosen) return;
      if (chosen.matches("summary")) {
        const details = chosen.closest("details");
        details.open = true;
        details.querySelector("input").focus();
      } else { chosen.click(); chosen.focus(); }
    }
    event.preventDefault();
  });
}

// Keep unsaved input and its time in this tab until the next item, even if the page is reloaded or saving fails.
function draft() {
  const name = `draft ${form.dataset.draft}`;
  const fields = [...form.elements].filter((field) => field.name && field.type !== "hidden");
  const draft = JSON.parse(sessionStorage.getItem(name) ?? "null");
  sessionStorage.clear();
  const values = () => fields.map((field) => (/radio|checkbox/.test(field.type) ? field.checked : field.value));
  const keep = () => sessionStorage.setItem(name, JSON.stringify({ values: values(), seconds: clock.elapsed() }));
  if (draft?.values?.length === fields.length) {
    fields.forEach((field, index) => { if (typeof draft.values[index] === "boolean") field.checked = draft.values[index]; else field.value = draft.values[index]; });
    clock.seconds += draft.seconds;
    keep();
  }
  window.addEventListener("pagehide", () => { if (!form.dataset.sent) keep(); });
  form.addEventListener("input", keep);
  form.addEventListener("change", keep);
}

keys();
if (form) { draft(); timed(); dependent(); marks(); candidates(); moments(); }
else sessionStorage.clear();
playback();
