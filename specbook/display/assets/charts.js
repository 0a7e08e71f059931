// Draws every chart of a page with the Vega bundle beside this file, and draws it again when the theme changes.
(() => {
  "use strict";
  const views = (window.specbookViews = []);

  const isDark = () => document.documentElement.dataset.theme === "dark";

  const look = () => {
    const ink = isDark() ? "#d6d9de" : "#24292f";
    const grid = isDark() ? "#5a6068" : "#d0d4da";
    const axis = { labelColor: ink, titleColor: ink, gridColor: grid, domainColor: grid, tickColor: grid };
    return {
      axis,
      legend: { labelColor: ink, titleColor: ink },
      title: { color: ink, subtitleColor: ink },
      text: { color: ink },
    };
  };

  const merged = (base, over) => {
    const out = { ...base };
    for (const [key, value] of Object.entries(over)) {
      out[key] = value && typeof value === "object" && !Array.isArray(value) ? merged(out[key] ?? {}, value) : value;
    }
    return out;
  };

  // Sliders and menus keep their place when a chart is drawn again.
  const withSettings = (spec, view) => {
    if (!view) return spec;
    const params = (spec.params ?? []).map((p) => ({ ...p, value: view.signal(p.name) }));
    return params.length ? { ...spec, params } : spec;
  };

  const draw = async (figure, index) => {
    delete figure.dataset.ready;
    if (figure.clientWidth === 0) {
      figure.dataset.ready = "when opened"; // inside something folded: it has no width yet
      return;
    }
    const spec = JSON.parse(figure.querySelector("script").textContent);
    const fitted = { ...spec, width: "container", autosize: { type: "fit", contains: "padding" } };
    const started = withSettings({ ...fitted, config: merged(spec.config ?? {}, look()) }, views[index]);
    views[index]?.finalize();
    const frame = figure.querySelector("div.specbook-view");
    const { view } = await window.vegaEmbed(frame, started, { actions: false, renderer: "svg", mode: "vega-lite" });
    views[index] = view;
    figure.dataset.ready = "true";
  };

  const figures = () => [...document.querySelectorAll("figure.specbook-chart")];
  const drawAll = () => Promise.all(figures().map(draw));
  const drawInside = (box) => figures().forEach((figure, index) => box.contains(figure) && draw(figure, index));

  // Not before the style sheets are there: a chart takes the width that its column has at that moment.
  window.addEventListener("load", () => {
    drawAll();
    document.querySelectorAll("details").forEach((box) => box.addEventListener("toggle", () => drawInside(box)));
    let theme = document.documentElement.dataset.theme;
    new MutationObserver(() => {
      if (document.documentElement.dataset.theme === theme) return;
      theme = document.documentElement.dataset.theme;
      drawAll();
    }).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  });
})();
