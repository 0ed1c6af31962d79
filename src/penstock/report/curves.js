// Shows the values of curves at the step under the pointer, or at the one chosen with the arrow keys.
"use strict";
for (const figure of document.querySelectorAll("figure.curve")) {
  const { last, width, curves } = JSON.parse(figure.dataset.curves);
  const svg = figure.querySelector("svg");
  const output = figure.querySelector("output");
  const steps = [...new Set(curves.flatMap((curve) => curve.points.map(([step]) => step)))].sort((a, b) => a - b);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("opacity", "0.5");
  line.style.pointerEvents = "none";
  svg.append(line);
  let at = -1;

  const nearest = (points, step) => points.reduce((best, each) => (Math.abs(each[0] - step) < Math.abs(best[0] - step) ? each : best));
  const number = (value) => (Math.abs(value) >= 1e-3 || value === 0 ? String(Number(value.toPrecision(5))) : value.toExponential(2));

  const show = (index) => {
    at = Math.max(0, Math.min(steps.length - 1, index));
    const step = steps[at];
    const x = last ? (width * step) / last : 0;
    line.setAttribute("d", `M${x} 0V220`);
    const values = curves.map((curve) => {
      const [where, value] = nearest(curve.points, step);
      const place = where === step ? "" : ` (step ${where.toLocaleString("en")})`;
      return `${curve.name} ${number(value)}${place}`;
    });
    output.textContent = `step ${step.toLocaleString("en")}: ${values.join(", ")}`;
  };
  const hide = () => {
    at = -1;
    line.removeAttribute("d");
    output.textContent = "";
  };

  svg.addEventListener("pointermove", (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const wanted = (last * point.x) / width;
    let best = 0;
    for (let i = 1; i < steps.length; i++) if (Math.abs(steps[i] - wanted) < Math.abs(steps[best] - wanted)) best = i;
    show(best);
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: steps.length - 1 };
    if (event.key in moves) {
      event.preventDefault();
      show(moves[event.key]);
    } else if (event.key === "Escape") {
      hide();
    }
  });
}
