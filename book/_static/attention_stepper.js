/* Steps through the attention maps of one training run.

   The page holds <figure class="sab-stepper"> with a static picture and the maps as JSON (made by
   sab.analysis.attention). Where this script runs, the picture gives way to the stepper; where it
   does not, the picture stays. Nothing is fetched. */
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "rect", "path", "line", "circle", "title", "g"].includes(tag);
    const node = svg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  }

  const percent = (value) => `${(100 * value).toFixed(value > 0.995 && value < 1 ? 1 : 0)} %`;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  class Stepper {
    constructor(figure) {
      const data = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
      this.data = data;
      this.rows = data.steps.length;
      this.columns = data.written.length;
      this.now = 0;
      this.chosen = null; // [answer, memory] the reader pointed at
      this.timer = null;
      this.accuracies = data.frames.map((frame) => mean(frame.positions) / data.scale);
      figure.querySelector(".sab-still").hidden = true;
      figure.insertBefore(this.build(), figure.firstChild);
      this.show(data.frames.length - 1);
    }

    build() {
      this.title = make("p", { class: "sab-stepper-title", "aria-live": "polite" });
      this.back = make("button", { type: "button", "aria-label": "one moment back" }, "◀");
      this.play = make("button", { type: "button", "aria-label": "play" }, "play");
      this.forth = make("button", { type: "button", "aria-label": "one moment on" }, "▶");
      this.slider = make("input", {
        type: "range", min: 0, max: this.data.frames.length - 1, step: 1,
        "aria-label": "moment of training",
      });
      this.told = make("output", { class: "sab-stepper-told" });
      this.back.addEventListener("click", () => this.go(-1));
      this.forth.addEventListener("click", () => this.go(1));
      this.play.addEventListener("click", () => this.toggle());
      this.slider.addEventListener("input", () => {
        this.stop();
        this.show(Number(this.slider.value));
      });
      return make("div", { class: "sab-stepper-live" },
        this.title,
        make("div", { class: "sab-stepper-controls" },
          this.back, this.play, this.forth, this.slider),
        this.buildCurve(), this.buildMap(), this.told);
    }

    /* The run's accuracy, with chance, and where we are. Updates run from left to right. */
    buildCurve() {
      const last = this.data.frames.at(-1).update || 1;
      const x = (update) => (1000 * update) / last;
      const y = (accuracy) => 100 - 100 * accuracy;
      const points = this.data.frames.map(
        (frame, i) => `${x(frame.update).toFixed(1)} ${y(this.accuracies[i]).toFixed(1)}`);
      this.here = make("line", { class: "sab-here", y1: 0, y2: 100 });
      this.xOf = x;
      const plot = make("svg", {
        viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": "true",
      },
      make("line", { class: "sab-chance", x1: 0, x2: 1000, y1: y(0.125), y2: y(0.125) }),
      make("path", { class: "sab-curve", d: `M${points.join("L")}` }), this.here);
      plot.addEventListener("pointerdown", (event) => {
        const box = plot.getBoundingClientRect();
        const wanted = (last * (event.clientX - box.left)) / box.width;
        const gaps = this.data.frames.map((frame) => Math.abs(frame.update - wanted));
        this.stop();
        this.show(gaps.indexOf(Math.min(...gaps)));
      });
      return make("div", { class: "sab-stepper-curve" },
        make("span", { class: "sab-label" }, "accuracy, 0 to 100 % (dashes: chance)"), plot);
    }

    buildMap() {
      const { rows, columns, data } = this;
      this.cells = [];
      const svg = make("svg", {
        viewBox: `0 0 ${columns} ${rows}`, preserveAspectRatio: "none", role: "img", tabindex: 0,
      });
      this.map = svg;
      for (let row = 0; row < rows; row += 1) {
        for (let column = 0; column < columns; column += 1) {
          const cell = make("rect", { x: column, y: row, width: 1.02, height: 1.02 });
          this.cells.push(cell);
          svg.append(cell);
        }
      }
      this.frame = make("rect", { class: "sab-chosen", width: 1, height: 1, visibility: "hidden" });
      svg.append(this.frame);
      const point = (event) => {
        const box = svg.getBoundingClientRect();
        const column = Math.floor((columns * (event.clientX - box.left)) / box.width);
        const row = Math.floor((rows * (event.clientY - box.top)) / box.height);
        const inside = (value, count) => Math.max(0, Math.min(count - 1, value));
        this.choose(inside(row, rows), inside(column, columns));
      };
      svg.addEventListener("pointerdown", point);
      svg.addEventListener("pointermove", (event) => {
        if (event.pointerType === "mouse") point(event);
      });
      svg.addEventListener("keydown", (event) => this.key(event));
      const answers = make("div", { class: "sab-stepper-answers", "aria-hidden": "true" },
        ...data.steps.map((_, row) => make("span", {}, String(row + 1))));
      this.scores = data.steps.map(() => make("span", {}));
      const right = make("div", { class: "sab-stepper-right", "aria-hidden": "true" },
        ...this.scores);
      const ticks = make("div", { class: "sab-stepper-ticks", "aria-hidden": "true" },
        ...[0, 0.25, 0.5, 0.75, 1].map((part) =>
          make("span", {}, String(data.written[Math.round(part * (columns - 1))]))));
      const early = data.written.filter((step) => step <= rows).length; // a symbol an answer
      const shown = make("div", { class: "sab-stepper-symbols", "aria-hidden": "true" },
        make("span", { style: `width:${(100 * early) / columns}%` }),
        make("span", {}, "symbols shown"));
      return make("div", { class: "sab-stepper-map" },
        make("span", { class: "sab-label sab-label-answers" }, "answer"), shown,
        make("span", { class: "sab-label sab-label-right" }, "right"),
        answers, svg, right, ticks,
        make("span", { class: "sab-label sab-label-steps" }, "step at which the memory was written"));
    }

    key(event) {
      const [row, column] = this.chosen || [0, 0];
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      const move = moves[event.key];
      if (!move) return;
      event.preventDefault();
      const wrap = (value, count) => (value + count) % count;
      this.choose(wrap(row + move[0], this.rows), wrap(column + move[1], this.columns));
    }

    weight(row, column) {
      return this.data.frames[this.now].weights[row * this.columns + column] / this.data.scale;
    }

    choose(row, column) {
      this.chosen = [row, column];
      this.tell();
    }

    tell() {
      if (!this.chosen) {
        this.told.textContent = "Point at a cell, or move with the arrow keys, to read its weight.";
        return;
      }
      const [row, column] = this.chosen;
      this.frame.setAttribute("x", column);
      this.frame.setAttribute("y", row);
      this.frame.setAttribute("visibility", "visible");
      this.told.textContent = `Answer ${row + 1} reads the memory of step ` +
        `${this.data.written[column]} with weight ${this.weight(row, column).toFixed(3)}.`;
    }

    show(index) {
      const { data } = this;
      this.now = Math.max(0, Math.min(data.frames.length - 1, index));
      const frame = data.frames[this.now];
      this.cells.forEach((cell, i) => cell.setAttribute("fill-opacity", frame.weights[i] / data.scale));
      this.scores.forEach((score, row) => {
        score.textContent = percent(frame.positions[row] / data.scale);
      });
      const text = `update ${frame.update.toLocaleString("en")}: ` +
        `${percent(this.accuracies[this.now])} of the symbols right`;
      this.title.textContent = text;
      this.map.setAttribute("aria-label", `Attention map, ${text}. ${this.words(frame)}`);
      this.slider.value = this.now;
      this.slider.setAttribute("aria-valuetext", text);
      const x = this.xOf(frame.update);
      this.here.setAttribute("x1", x);
      this.here.setAttribute("x2", x);
      this.back.disabled = this.now === 0;
      this.forth.disabled = this.now === data.frames.length - 1;
      this.tell();
    }

    words(frame) {
      const best = this.data.steps.map((_, row) => {
        const weights = frame.weights.slice(row * this.columns, (row + 1) * this.columns);
        return this.data.written[weights.indexOf(Math.max(...weights))];
      });
      return `Most read, answer by answer: the memories of steps ${best.join(", ")}.`;
    }

    go(change) {
      this.stop();
      this.show(this.now + change);
    }

    toggle() {
      if (this.timer) {
        this.stop();
        return;
      }
      if (this.now === this.data.frames.length - 1) this.show(0);
      this.play.textContent = "stop";
      this.play.setAttribute("aria-label", "stop");
      this.timer = setInterval(() => {
        if (this.now === this.data.frames.length - 1) this.stop();
        else this.show(this.now + 1);
      }, 450);
    }

    stop() {
      clearInterval(this.timer);
      this.timer = null;
      this.play.textContent = "play";
      this.play.setAttribute("aria-label", "play");
    }
  }

  function start() {
    for (const figure of document.querySelectorAll("figure.sab-stepper:not([data-live])")) {
      figure.dataset.live = "";
      new Stepper(figure);
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
