// A model launched from the form: replicas, events, log, charts, and its end. Skipped by a server that launches nothing.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { check, fits } from './checks.js';
import { launch, models, open, Server } from './server.js';

let server;
let browser;
let launches = false;
before(async () => {
  server = await Server.start([models.embed], '--fleet').catch(() => Server.start([models.embed]));
  browser = await launch();
  const answer = await fetch(`${server.url}/v1/models`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' });
  launches = answer.status === 400;
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('a server that launches nothing says so in the form', async (context) => {
  if (launches) return context.skip('this server launches models');
  const page = await open(browser, server, {}, '/#/launch?model=smollm2');
  await page.getByTestId('estimate').waitFor();
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByText('This server does not offer: launching models.').waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('a model is launched, watched and stopped', async (context) => {
  if (!launches) return context.skip('this server launches nothing');
  const page = await open(browser, server, {}, '/#/launch');
  await page.getByLabel('Model name').fill(models.chat);
  await page.getByLabel('Name for clients').fill('tide');
  await page.getByLabel('Context').fill('64');
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByRole('heading', { name: 'tide', exact: true }).waitFor();
  await page.getByText('ready').first().waitFor({ timeout: 60_000 });
  await page.getByRole('heading', { name: 'tide-0' }).waitFor();
  await check(page, 'replicas');
  const asked = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ model: 'tide', messages: [{ role: 'user', content: 'x' }], max_tokens: 4 }) });
  assert.equal(asked.status, 200);
  await page.getByRole('tab', { name: 'Events' }).click();
  await page.getByRole('cell', { name: 'ready' }).first().waitFor();
  await check(page, 'events');
  await page.getByRole('tab', { name: 'Log' }).click();
  await page.locator('pre.log').filter({ hasText: /\S/ }).waitFor();
  await check(page, 'log');
  await page.getByRole('tab', { name: 'Charts' }).click();
  await page.locator('figure').first().waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  for (const tab of ['Replicas', 'Events', 'Log', 'Charts', 'Details', 'Connect a client']) {
    await page.getByRole('tab', { name: tab }).click();
    await fits(page, tab);
  }
  page.on('dialog', (dialog) => dialog.accept());
  await page.getByRole('button', { name: 'Stop the model' }).click();
  await page.locator('main[data-view=models] h1', { hasText: 'Running models' }).waitFor();
  await page.getByRole('link', { name: 'tide', exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
