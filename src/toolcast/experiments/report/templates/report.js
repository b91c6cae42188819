// The charts and the choice of runs of a report. Without this script the page has the same charts as pictures.
"use strict";
{
  const all = JSON.parse(document.getElementById("runs")?.textContent ?? "[]"); // name, slug and colour of each run
  const chosen = new Set(all.map((run) => run.slug));
  const listeners = [];

  const make = (tag, className = "", text = "") => {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  };

  const swatch = (colour) => {
    const made = make("span", "swatch");
    made.style.background = colour;
    return made;
  };

  // What the pointer, or the keyboard, is at.
  const tip = make("div", "tip");
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);

  const hideTip = () => {
    tip.hidden = true;
  };

  const number = (value, digits) => {
    const form = { maximumFractionDigits: digits, minimumFractionDigits: digits, signDisplay: "negative" };
    return value.toLocaleString("en-US", form);
  };

  const showTip = (fields, datum, x, y) => {
    const lines = fields
      .filter(([field]) => datum[field] !== undefined && datum[field] !== null)
      .map(([field, name, digits, colour]) => {
        const line = make("div");
        const value = make("b", "", digits === null ? String(datum[field]) : number(datum[field], digits));
        const label = make("span", "", name);
        if (colour) label.prepend(swatch(colour));
        line.append(label, value);
        return line;
      });
    tip.replaceChildren(...lines);
    tip.hidden = lines.length === 0;
    const { width, height } = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth - width - 4;
    tip.style.left = `${Math.max(4, Math.min(x + 14, right))}px`;
    tip.style.top = `${y + 18 + height > window.innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
  };

  const faint = "var(--faint)";
  const font = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
  const config = {
    aria: false,
    background: null,
    font,
    axis: {
      domainColor: faint, gridColor: "var(--line)", labelColor: faint, labelFontSize: 11, tickColor: faint,
      titleColor: faint, titleFontSize: 11, titleFontWeight: "normal",
    },
    axisX: { grid: false },
    bar: { color: faint },
    legend: { labelColor: faint, titleColor: faint },
    title: { anchor: "start", color: "var(--words)", fontSize: 13, frame: "group" },
    view: { stroke: null },
  };
  const quiet = vega.logger(vega.Error);
  const largest = 560; // of a square

  const fitted = (panel, width) =>
    panel.height === null ? [Math.min(width, largest), Math.min(width, largest)] : [width, panel.height];

  const shownIn = (chart) => all.flatMap((run) => {
    const at = chart.runs.indexOf(run.name);
    return at >= 0 && chosen.has(run.slug) ? [`r${at}`] : [];
  });

  // The marks of a panel that have values, row by row: Vega orders them anew when others are shown.
  const marks = (box) => [...box.querySelectorAll(".band_marks path")].sort(
    ({ __data__: one }, { __data__: other }) => one.y - other.y || one.x - other.x,
  );

  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };

  const plot = (chart, panel, box) => {
    const [width, height] = fitted(panel, box.clientWidth);
    const title = { ...config.title, limit: width };
    const spec = { ...panel.spec, config: { ...config, title }, width, autosize: { type: "fit-x", contains: "padding" } };
    if (panel.height === null) spec.autosize.type = "fit";
    if (panel.height !== 0) spec.height = height;
    const compiled = vegaLite.compile(spec, { logger: quiet }).spec;
    const view = new vega.View(vega.parse(compiled, null, { ast: true }), {
      bind: document.createElement("div"), // a specification has no controls; without it, an empty form is added
      container: box,
      expr: vegaInterpreter,
      hover: true,
      logger: quiet,
      renderer: "svg",
    });
    box.setAttribute("role", "group");
    box.querySelector("svg").setAttribute("aria-hidden", "true"); // the box has its description and steps through it
    const at = (event, item) => {
      if (item?.datum) showTip(panel.fields, item.datum, event.clientX, event.clientY);
      else hideTip();
    };
    view.addEventListener("pointermove", at);
    view.addEventListener("pointerdown", at);
    box.addEventListener("pointerleave", hideTip);

    let near = null;
    const leave = () => {
      near?.classList.remove("near");
      near = null;
      hideTip();
    };
    box.addEventListener("blur", leave);
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") leave();
      if (!(event.key in step)) return;
      event.preventDefault();
      const found = marks(box);
      if (found.length === 0) return;
      const from = near ? found.indexOf(near) : step[event.key] > 0 ? -1 : found.length;
      const next = found[Math.max(0, Math.min(found.length - 1, from + step[event.key]))];
      leave();
      near = next;
      near.classList.add("near");
      const { left, top, width: wide, height: high } = near.getBoundingClientRect();
      showTip(panel.fields, near.__data__.datum, left + wide / 2, top + Math.min(high / 2, 60));
    });

    const update = () => {
      leave();
      if (chart.runs.length) view.signal("shown", shownIn(chart));
      view.runAsync();
    };
    if (chart.runs.length) listeners.push(update);
    update();
    new ResizeObserver(() => {
      const [wide, high] = fitted(panel, box.clientWidth);
      if (box.clientWidth === 0 || view.width() === wide) return; // on paper there is the picture
      view.width(wide);
      if (panel.height === null) view.height(high);
      view.runAsync();
    }).observe(box);
  };

  const draw = (figure) => {
    const chart = JSON.parse(figure.querySelector("script").textContent);
    const picture = figure.querySelector("svg");
    const plots = make("div", "plots");
    if (chart.title) plots.append(make("p", "plot-title note", chart.title));
    if (chart.key.length) {
      const key = make("ul", "key");
      key.append(...chart.key.map(([name, colour]) => {
        const line = make("li");
        line.append(swatch(colour), name);
        return line;
      }));
      plots.append(key);
    }
    figure.append(plots);
    figure.classList.add("drawn");
    for (const panel of chart.panels) {
      const box = make("div", "plot");
      box.tabIndex = 0;
      box.setAttribute("aria-label", `${picture.getAttribute("aria-label")} Arrow keys show the values.`);
      plots.append(box);
    }
    chart.panels.forEach((panel, at) => plot(chart, panel, plots.querySelectorAll(".plot")[at]));
  };

  const drawing = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      drawing.unobserve(target);
      try {
        draw(target);
      } catch (error) {
        target.classList.remove("drawn"); // the picture stays
        target.querySelector(".plots")?.remove();
        console.error(error);
      }
    }
  }, { rootMargin: "500px" });

  // The choice of runs. It is kept in the address: #SECTION&runs=SLUG,SLUG; all runs without it.
  const [sectionOf, runsOf] = ["section", "runs"].map((part) => (hash) => {
    const [section, runs] = hash.replace(/^#/, "").split(/&?runs=/);
    return part === "section" ? section : runs;
  });

  const hashFor = (section) => {
    const some = chosen.size < all.length;
    const runs = `runs=${all.map((run) => run.slug).filter((slug) => chosen.has(slug)).join(",")}`;
    return `#${[section, ...(some ? [runs] : [])].filter(Boolean).join("&")}`;
  };

  const boxes = new Map();

  const showChosen = () => {
    for (const element of document.querySelectorAll("[data-run]")) {
      element.hidden = !chosen.has(element.dataset.run);
    }
    for (const [slug, box] of boxes) box.checked = chosen.has(slug);
    for (const link of document.querySelectorAll('a[href^="#"]')) link.href = hashFor(sectionOf(link.hash));
    for (const listener of listeners) listener();
  };

  const choose = (slugs) => {
    chosen.clear();
    for (const slug of slugs) chosen.add(slug);
    history.replaceState(null, "", hashFor(sectionOf(location.hash)));
    showChosen();
  };

  const read = () => {
    const runs = runsOf(location.hash)?.split(",");
    chosen.clear();
    for (const { slug } of all) if (!runs || runs.includes(slug)) chosen.add(slug);
    showChosen();
  };

  const goTo = (hash) => {
    const section = sectionOf(hash);
    if (section) document.getElementById(section)?.scrollIntoView();
  };

  if (all.length > 1) {
    const picker = make("fieldset", "picker");
    picker.append(make("legend", "", "Runs shown"));
    for (const { name, slug, colour } of all) {
      const label = make("label");
      const box = make("input");
      box.type = "checkbox";
      box.addEventListener("change", () => {
        const slugs = all.map((run) => run.slug).filter((each) => (each === slug ? box.checked : chosen.has(each)));
        choose(slugs);
      });
      boxes.set(slug, box);
      label.append(box, swatch(colour), make("span", "", name));
      picker.append(label);
    }
    for (const [text, slugs] of [["All", all.map((run) => run.slug)], ["None", []]]) {
      const button = make("button", "", text);
      button.type = "button";
      button.addEventListener("click", () => choose(slugs));
      picker.append(button);
    }
    document.getElementById("comparison").after(picker);
    new ResizeObserver(() => {
      document.documentElement.style.scrollPaddingTop = `${picker.offsetHeight + 8}px`; // what is jumped to is below it
    }).observe(picker);
    addEventListener("hashchange", () => {
      read();
      goTo(location.hash);
    });
    document.addEventListener("click", (event) => {
      const link = event.target.closest?.('a[href^="#"]');
      if (link && link.hash === location.hash) goTo(link.hash);
    });
    read();
    if (runsOf(location.hash)) goTo(location.hash);
  }

  for (const figure of document.querySelectorAll("figure.chart")) drawing.observe(figure);
}
