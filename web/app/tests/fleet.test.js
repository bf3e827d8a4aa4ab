// The real fleet: a server that starts without a model; one is launched from the form, watched, talked to and stopped.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { check, fits } from './checks.js';
import { launch, models, open, Server } from './server.js';

const kLoad = { timeout: 60_000 };
let server;
let browser;
before(async () => {
  server = await Server.start([], '--stop-workers');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('a server that launches nothing says so in the form', async () => {
  const other = await Server.start([models.embed], '--no-fleet');
  const page = await open(browser, other, {}, '/#/launch?model=smollm2');
  await page.getByTestId('estimate').waitFor();
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: /fleet|launch/ }).or(page.getByTestId('unavailable')).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
  await other.stop();
});

test('a model is launched, watched, talked to and stopped', async () => {
  const page = await open(browser, server, {}, '/#/chat');
  await page.getByText('No chat model is running').waitFor();
  await page.goto(`${server.url}/#/launch`);
  await page.getByLabel('Model name').fill(models.chat);
  await page.getByLabel('Name for clients').fill('tide');
  await page.getByLabel('Context').fill('256');
  await page.getByLabel('Requests at once').fill('2');
  await page.getByRole('button', { name: 'Launch', exact: true }).click();
  await page.getByRole('heading', { name: 'tide', exact: true }).waitFor();
  const first = page.getByRole('region', { name: 'tide-0' });
  await first.getByText('ready').waitFor(kLoad);
  assert.match(await first.locator('dd').allTextContents().then((all) => all.join(' ')), /\d+ .*MiB/);
  await check(page, 'replicas');

  await page.getByRole('button', { name: 'Add a replica' }).click();
  const second = page.getByRole('region', { name: 'tide-1' });
  await second.getByText('ready').waitFor(kLoad);
  await second.getByRole('button', { name: 'Log' }).click();
  await page.locator('pre.log').filter({ hasText: /listening/ }).waitFor();
  assert.equal(await page.getByLabel('Replica', { exact: true }).inputValue(), 'tide-1');
  await check(page, 'log');
  await page.getByRole('tab', { name: 'Replicas' }).click();
  await second.getByRole('button', { name: 'Stop' }).click();
  await second.waitFor({ state: 'detached', ...kLoad });

  await page.getByRole('link', { name: 'Running models', exact: true }).click();
  await page.getByRole('link', { name: 'Try tide' }).click();
  await page.getByTestId('settings').click();
  await page.getByLabel('Longest answer (tokens)').fill('16');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Escape');
  // The charts look at the model while it answers.
  const charts = await open(browser, server, {}, '/#/models/tide');
  await charts.getByRole('tab', { name: 'Charts' }).click();
  await charts.locator('figure').first().waitFor();
  const told = (title) => charts.locator('figure', { hasText: title }).locator('dd').first();
  await charts.waitForFunction(() => /^0/.test(document.querySelector('figure dd')?.textContent ?? ''));
  await page.bringToFront();
  await page.getByTestId('prompt').fill('Say hello.');
  await page.getByTestId('prompt').press('Enter');
  await page.locator('article[data-role=assistant]').last().waitFor();
  await page.locator('.chat[data-running=false]').waitFor(kLoad);
  assert.ok((await page.locator('article[data-role=assistant]').textContent()).trim().length > 0);
  await charts.bringToFront();
  await charts.waitForFunction(() => [...document.querySelectorAll('figure')].some((each) => /first token/.test(each.textContent) && /p50\s*[\d.]+/.test(each.textContent)), undefined, kLoad);
  assert.match(await told('Requests').textContent(), /^\d/);
  await check(charts, 'charts of a model');
  assert.deepEqual(charts.faults, []);
  await charts.context().close();

  await page.goto(`${server.url}/#/models/tide`);
  await page.getByRole('button', { name: 'Unload' }).click();
  await page.getByText('unloaded; the next request loads it').waitFor(kLoad);
  await page.goto(`${server.url}/#/chat/tide`);
  await page.getByTestId('prompt').fill('Once more.');
  await page.getByTestId('prompt').press('Enter');
  await page.locator('article[data-role=assistant]').last().waitFor();
  await page.locator('.chat[data-running=false]').waitFor(kLoad);
  assert.equal(await page.locator('article[data-role=error]').count(), 0);

  await page.goto(`${server.url}/#/models/tide`);
  await page.getByRole('tab', { name: 'Events' }).click();
  await page.getByRole('cell', { name: 'ready' }).first().waitFor();
  await check(page, 'events');
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
