"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const plots = [];

  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const press = (buttons, chosen) =>
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(chosen(button))));

  // Buttons are disabled in the page itself: a click is never lost while it loads.
  const enable = (buttons) => buttons.forEach((button) => { button.disabled = false; });

  function theme() {
    const ink = colour("--ink"), grid = colour("--rule");
    const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: ink };
    const axis = { gridcolor: grid, linecolor: grid, zerolinecolor: grid, color: ink };
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font,
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("--soft"), activecolor: ink },
      hoverlabel: { bgcolor: colour("--card"), bordercolor: grid, align: "left", font },
      axis,
    };
  }

  const ends = (curves, axis) =>
    curves.map((curve) => curve.x[axis].at(-1)).filter((end) => end > 0);
  const suited = (curves, axis) => {
    const all = ends(curves, axis);
    return Math.max(...all) > data.far * Math.min(...all) ? "log" : "linear";
  };

  function hover(group) {
    const what = group.measure === "gap" ? "gap" : "KKT residual";
    return `<b>%{fullData.name}</b><br>${what} %{y:.2e}<br>` +
      "rounds %{customdata[0]:,.0f} · %{customdata[3]:.3g} s<br>" +
      "∇f, prox g %{customdata[1]:,.0f} · A, Aᵀ, prox h* %{customdata[2]:,.0f}<extra></extra>";
  }

  function trace(curve, axis, group) {
    const columns = [curve.x.rounds, curve.x.local, curve.x.coupling, curve.x.seconds];
    return {
      type: "scatter", name: curve.name, x: curve.x[axis], y: curve.y,
      mode: curve.symbol ? "lines+markers" : "lines",
      line: { color: curve.colour, dash: curve.dash, width: curve.width },
      marker: { symbol: curve.symbol || "circle", size: curve.symbol === "star" ? 10 : 7, maxdisplayed: 8, color: curve.colour },
      customdata: curve.y.map((_, row) => columns.map((column) => column[row])),
      hovertemplate: hover(group),
    };
  }

  // From where the shortest curve gets going to where the longest ends.
  function extent(plot) {
    const all = ends(plot.group.curves, plot.axis);
    const low = Math.min(...all) / data.shortest, high = Math.max(...all);
    return plot.scale === "log"
      ? [Math.log10(low), Math.log10(high) + 0.05]
      : [-0.02 * high, 1.03 * high];
  }

  function layout(plot) {
    const { axis, ...look } = theme();
    const zoom = { uirevision: `${plot.axis} ${plot.scale}` }; // outlasts the hiding of a curve
    const narrow = plot.canvas.clientWidth < 560;
    const tops = plot.group.curves.map((curve) => Math.max(...curve.y.filter((y) => y <= 100)));
    const lows = plot.group.curves.map((curve) => Math.min(...curve.y));
    return {
      ...look, height: narrow ? 340 : 460, showlegend: false, hovermode: "closest",
      margin: { l: narrow ? 52 : 68, r: 14, t: 30, b: 56 },
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
      xaxis: {
        ...axis, ...zoom, type: plot.scale, exponentformat: "SI", range: extent(plot),
        title: { text: data.axes[plot.axis], standoff: 10 },
      },
      yaxis: {
        ...axis, ...zoom, type: "log", exponentformat: "power", dtick: narrow ? 2 : "auto",
        range: [Math.log10(Math.min(...lows)) - 0.3, Math.log10(Math.max(...tops)) + 0.3],
        title: { text: narrow ? "" : plot.group.label, standoff: 8 },
      },
    };
  }

  function draw(plot) {
    const traces = plot.group.curves.map((curve, position) => ({
      ...trace(curve, plot.axis, plot.group), visible: !plot.hidden.has(position),
    }));
    const order = (position) => plot.group.curves[position].order; // later traces lie on top
    const positions = [...traces.keys()].sort((one, two) => order(one) - order(two));
    const curves = positions.map((position) => traces[position]);
    const config = {
      responsive: true, displaylogo: false, displayModeBar: true, plotlyServerURL: "",
      modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
      toImageButtonOptions: { filename: plot.name, scale: 2 },
    };
    Plotly.react(plot.canvas, curves, layout(plot), config);
    press(plot.axes, (button) => button.dataset.axis === plot.axis);
    press(plot.scales, (button) => button.dataset.scale === plot.scale);
    press(plot.legend, (button) => !plot.hidden.has(Number(button.dataset.curve)));
  }

  function costs(plot) {
    const section = plot.box.closest("section"), heading = section.querySelector(".axis-name");
    if (heading) heading.textContent = data.axes[plot.axis];
    section.querySelectorAll(".cost").forEach((cell) => {
      cell.textContent = cell.dataset[plot.axis];
    });
  }

  function listen(plot) {
    plot.axes.forEach((button) => button.addEventListener("click", () => {
      plot.axis = button.dataset.axis;
      plot.scale = suited(plot.group.curves, plot.axis);
      draw(plot);
      costs(plot);
    }));
    plot.scales.forEach((button) => button.addEventListener("click", () => {
      plot.scale = button.dataset.scale;
      draw(plot);
    }));
    plot.legend.forEach((button) => button.addEventListener("click", () => {
      const position = Number(button.dataset.curve);
      if (!plot.hidden.delete(position)) plot.hidden.add(position);
      draw(plot);
    }));
    plot.box.querySelector(".all").addEventListener("click", () => {
      plot.hidden.clear();
      draw(plot);
    });
  }

  document.querySelectorAll(".plot").forEach((box) => {
    const all = (selector) => [...box.querySelectorAll(selector)];
    const name = box.dataset.group, group = data.groups[name];
    const plot = {
      box, name, group, canvas: box.querySelector(".canvas"), hidden: new Set(),
      axes: all("[data-axis]"), scales: all("[data-scale]"), legend: all("[data-curve]"),
      axis: "rounds", scale: suited(group.curves, "rounds"),
    };
    plots.push(plot);
    plot.canvas.replaceChildren();
    listen(plot);
    draw(plot);
    enable(box.querySelectorAll("button"));
  });

  const system = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const dark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const repaint = () => {
    button.textContent = dark() ? "Light" : "Dark";
    plots.forEach(draw);
  };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    repaint();
  });
  system.addEventListener("change", repaint);
  button.textContent = dark() ? "Light" : "Dark";
  enable([button]);

  // On paper: light, measurements unfolded, other details as they are.
  let before = [];
  addEventListener("beforeprint", () => {
    before = [root.dataset.theme, [...document.querySelectorAll("#claims details:not([open])")]];
    root.dataset.theme = "light";
    before[1].forEach((part) => { part.open = true; });
    repaint();
  });
  addEventListener("afterprint", () => {
    if (before[0]) root.dataset.theme = before[0]; else delete root.dataset.theme;
    before[1].forEach((part) => { part.open = false; });
    repaint();
  });
})();
