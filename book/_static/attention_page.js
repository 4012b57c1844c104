// Attention, by hand: a query and three keys in the plane, and two heads on six words.
// Plain JavaScript, no library, no network. tests/site/test_attention_page.py compares its
// arithmetic with sab.ops.attention.
"use strict";

const sabAttention = (() => {
  const dot = (a, b) => a.reduce((sum, v, i) => sum + v * b[i], 0);

  // Softmax over the entries that are allowed; the others get exactly 0.
  function softmax(scores, allowed = scores.map(() => true)) {
    const kept = scores.filter((_, i) => allowed[i]);
    if (!kept.length) throw new Error("nothing may be read");
    const top = Math.max(...kept);
    const e = scores.map((s, i) => (allowed[i] ? Math.exp(s - top) : 0));
    const total = e.reduce((a, b) => a + b, 0);
    return e.map((v) => v / total);
  }

  // One query (width d) over keys that are values too.
  function read(query, keys, scaled) {
    const divisor = scaled ? Math.sqrt(query.length) : 1;
    const scores = keys.map((k) => dot(k, query) / divisor);
    const weights = softmax(scores);
    const output = query.map((_, d) => weights.reduce((s, w, n) => s + w * keys[n][d], 0));
    return { scores, weights, output };
  }

  const times = (x, w) => x.map((row) => w[0].map((_, j) => dot(row, w.map((line) => line[j]))));

  // Scaled dot-product self-attention weights of X (N x D) under Wq and Wk (D x d).
  function selfAttention(x, wq, wk, causal) {
    const q = times(x, wq), k = times(x, wk), root = Math.sqrt(wq[0].length);
    return q.map((row, m) =>
      softmax(k.map((key) => dot(row, key) / root), k.map((_, n) => !causal || n <= m)));
  }

  // A word's first two numbers say its kind, the other two where it stands (an angle).
  const STEP = 0.9;
  const KINDS = { article: [1, 0], noun: [0, 1], verb: [-1, 0], preposition: [0, -1] };
  const words = ["the", "cat", "sat", "on", "the", "mat"];
  const kinds = ["article", "noun", "verb", "preposition", "article", "noun"];
  const x = kinds.map((kind, n) => [...KINDS[kind], Math.cos(STEP * n), Math.sin(STEP * n)]);
  const c = Math.cos(STEP), s = Math.sin(STEP);
  const heads = [
    { wq: [[3, 0], [0, 3], [0, 0], [0, 0]], wk: [[1, 0], [0, 1], [0, 0], [0, 0]] },
    // The query is turned back by one step, so it points where the word before stands.
    { wq: [[0, 0], [0, 0], [5 * c, -5 * s], [5 * s, 5 * c]], wk: [[0, 0], [0, 0], [1, 0], [0, 1]] },
  ];

  const START = { q: [1, 0], x1: [2, 0], x2: [0, 2], x3: [1, 1] };
  const state = { points: structuredClone(START), scaled: false, head: 0, causal: false };

  // Drawing ---------------------------------------------------------------------------------
  const LIMIT = 3, UNIT = 60, CENTRE = 180;
  const id = (name) => document.getElementById(name);
  const toScreen = ([a, b]) => [CENTRE + UNIT * a, CENTRE - UNIT * b];
  const clamp = (v) => Math.max(-LIMIT, Math.min(LIMIT, v));
  const spoken = { q: "query", x1: "key 1", x2: "key 2", x3: "key 3" };

  function drawPlane() {
    const { q, x1, x2, x3 } = state.points;
    const found = read(q, [x1, x2, x3], state.scaled);
    for (const [name, point] of Object.entries(state.points)) {
      const [a, b] = toScreen(point);
      id(`point-${name}`).setAttribute("transform", `translate(${a} ${b})`);
      id(`point-${name}`).setAttribute("aria-label",
        `${spoken[name]} at ${point.map((v) => v.toFixed(1)).join(", ")}`);
      id(`arm-${name}`).setAttribute("x2", a);
      id(`arm-${name}`).setAttribute("y2", b);
    }
    found.weights.forEach((w, n) => {
      id(`score-${n + 1}`).textContent = found.scores[n].toFixed(3);
      id(`weight-${n + 1}`).textContent = w.toFixed(3);
      id(`bar-${n + 1}`).style.width = `${100 * w}%`;
      id(`arm-x${n + 1}`).style.strokeWidth = 1 + 5 * w;
    });
    const [a, b] = toScreen(found.output);
    id("output").setAttribute("cx", a);
    id("output").setAttribute("cy", b);
    id("label-output").setAttribute("x", a + 9);
    id("label-output").setAttribute("y", b - 4);
    id("hull").setAttribute("points", [x1, x2, x3].map((p) => toScreen(p).join(",")).join(" "));
    found.output.forEach((v, d) => { id(`output-${d + 1}`).textContent = v.toFixed(3); });
  }

  function drawMatrix() {
    const { wq, wk } = heads[state.head];
    const weights = selfAttention(x, wq, wk, state.causal);
    const cell = (tag, text, style = "") => {
      const made = document.createElement(tag);
      made.textContent = text;
      made.style.cssText = style;
      return made;
    };
    const line = (parts) => {
      const row = document.createElement("tr");
      row.append(...parts);
      return row;
    };
    id("matrix").replaceChildren(
      line([cell("th", ""), ...words.map((word) => cell("th", word))]),
      ...weights.map((row, m) => line([cell("th", words[m]), ...row.map((w) => cell(
        "td", w === 0 ? "" : w.toFixed(2),
        `background:color-mix(in srgb, var(--key) ${Math.round(60 * w)}%, var(--ground))`))])));
  }

  function move(name, to) {
    state.points[name] = to.map(clamp);
    drawPlane();
  }

  function listen() {
    const plane = id("plane");
    const where = (event) => {
      const box = plane.getBoundingClientRect(), scale = 360 / box.width;
      return [((event.clientX - box.left) * scale - CENTRE) / UNIT,
        (CENTRE - (event.clientY - box.top) * scale) / UNIT];
    };
    for (const name of Object.keys(state.points)) {
      const point = id(`point-${name}`);
      point.addEventListener("pointerdown", (event) => {
        point.setPointerCapture(event.pointerId);
        event.preventDefault();
        point.focus();
      });
      point.addEventListener("pointermove", (event) => {
        if (point.hasPointerCapture(event.pointerId)) move(name, where(event));
      });
      point.addEventListener("keydown", (event) => {
        const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
        if (!(event.key in way)) return;
        event.preventDefault();
        const step = event.shiftKey ? 0.5 : 0.1;
        move(name, state.points[name].map((v, d) =>
          Math.round(1000 * (v + step * way[event.key][d])) / 1000));
      });
    }
    id("scaled").addEventListener("change", (event) => {
      state.scaled = event.target.checked;
      drawPlane();
    });
    id("reset").addEventListener("click", () => {
      state.points = structuredClone(START);
      state.scaled = id("scaled").checked = false;
      drawPlane();
    });
    id("causal").addEventListener("change", (event) => {
      state.causal = event.target.checked;
      drawMatrix();
    });
    for (const choice of document.querySelectorAll("input[name=head]")) {
      choice.addEventListener("change", () => {
        state.head = Number(choice.value);
        drawMatrix();
      });
    }
  }

  // By night where the page around the frame, or else the reader's system, is dark.
  function followTheme() {
    const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
    let host = null;
    try {
      host = parent === window ? null : parent.document.documentElement;
    } catch { /* a page from elsewhere keeps its theme to itself */ }
    const take = () => {
      root.dataset.theme = (host && host.dataset.theme) || (system.matches ? "dark" : "light");
    };
    if (host) new MutationObserver(take).observe(host, { attributeFilter: ["data-theme"] });
    system.addEventListener("change", take);
    take();
  }

  followTheme();
  listen();
  drawPlane();
  drawMatrix();
  return { softmax, read, selfAttention, x, heads, state, move };
})();
