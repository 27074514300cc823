// The colours of the nine sources, measured: any two can be told apart, also by people who do not
// see one of the primary colours, in both themes, and each stands out from what is behind it.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { SOURCES } from "./mock_data.mjs";

const CSS = readFileSync(new URL("../../gateway/dashboard/web/src/style/tokens.css",
  import.meta.url), "utf8");
// Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB.
const SIGHT = {
  full: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
    [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
    [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
    [0.004733, 0.691367, 0.3039]],
};
const DISTANCE_MIN = 0.065; // in OKLab; the widely used nine of Paul Tol come to 0.052
const CONTRAST_MIN = 3; // WCAG 1.4.11

function themeOf(begin) {
  const from = CSS.indexOf(begin);
  const text = CSS.slice(from, CSS.indexOf("}", from));
  return Object.fromEntries([...text.matchAll(/--([\w]+): (#[0-9a-f]{6});/g)]
    .map(([, name, value]) => [name, value]));
}

const linear = (hex) => [1, 3, 5].map((at) => {
  const value = parseInt(hex.slice(at, at + 2), 16) / 255;
  return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
});
const times = (matrix, v) => matrix.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]);
const lightness = (v) => 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2];

function oklab(rgb) {
  const v = rgb.map((part) => Math.min(1, Math.max(0, part)));
  const lms = times([[0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]], v)
    .map(Math.cbrt);
  return times([[0.2104542553, 0.793617785, -0.0040720468],
    [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]], lms);
}

for (const [name, begin] of [["light", ":root {"], ["dark", ':root[data-theme="dark"] {'],
  ["the system's dark", ":root:not([data-theme]) {"]]) {
  test(`in ${name}, sources differ for every kind of sight`, () => {
    const theme = themeOf(begin);
    for (const [sight, matrix] of Object.entries(SIGHT)) {
      const seen = SOURCES.map((source) => oklab(times(matrix, linear(theme[source]))));
      for (let i = 0; i < seen.length; ++i) {
        for (let j = 0; j < i; ++j) {
          const distance = Math.hypot(...seen[i].map((part, k) => part - seen[j][k]));
          assert.ok(distance >= DISTANCE_MIN,
            `${SOURCES[i]} and ${SOURCES[j]} with ${sight}: ${distance.toFixed(3)}`);
        }
      }
    }
    const behind = lightness(linear(theme.surface));
    for (const source of [...SOURCES, "mass"]) {
      const own = lightness(linear(theme[source]));
      const contrast = (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05);
      assert.ok(contrast >= CONTRAST_MIN, `${source}: ${contrast.toFixed(2)} : 1`);
    }
  });
}

test("both ways into the dark theme have the same colours", () => {
  assert.deepEqual(themeOf(":root:not([data-theme]) {"), themeOf(':root[data-theme="dark"] {'));
});
