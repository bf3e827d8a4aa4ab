import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export async function violations(page) {
  await page.evaluate(axe);
  const { violations: all } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return all.filter((each) => ['serious', 'critical'].includes(each.impact)).map((each) => [each.id, each.nodes.map((node) => node.html.slice(0, 200))]);
}

// Nothing that keeps somebody from using what is shown.
export async function check(page, what) {
  assert.deepEqual(await violations(page), [], what);
}

export async function fits(page, what) {
  const [width, ...widths] = await page.evaluate(() => [innerWidth, document.documentElement.scrollWidth, document.querySelector('main').scrollWidth]);
  assert.ok(widths.every((each) => each <= width), `${what}: ${widths} at ${width}`);
}
