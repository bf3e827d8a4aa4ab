// Every view: no serious fault for assistive technology, in both themes and languages, and nothing wider than a phone.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { check, fits, violations } from './checks.js';
import { launch, models, open, Server } from './server.js';

const kViews = ['chat', 'try', 'try/rerank', 'catalog', 'catalog/smollm2', 'launch?model=smollm2', 'models', 'models/bert', 'charts', 'cluster', 'jobs', 'people', 'connect', 'login', 'setup'];

let server;
let browser;
before(async () => {
  server = await Server.start([models.chat, models.embed, models.rerank]);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

async function show(page, view) {
  await page.goto(`${server.url}/#/${view}`);
  await page.locator(`main[data-view=${view.split(/[/?]/)[0]}] h1`).first().waitFor({ state: 'attached' });
  await page.waitForLoadState('networkidle');
}

test('axe sees a fault where there is one', async () => {
  const page = await open(browser, server);
  await page.evaluate(() => document.querySelector('main').append(document.createElement('button'), document.createElement('input')));
  assert.deepEqual((await violations(page)).map(([id]) => id).toSorted(), ['button-name', 'label']);
  await page.context().close();
});

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing serious, ${colorScheme}`, async () => {
    const page = await open(browser, server, { colorScheme });
    for (const view of kViews) {
      await show(page, view);
      await check(page, `${view}, ${colorScheme}`);
    }
    assert.deepEqual(page.faults, []);
    await page.context().close();
  });
}

test('phone width: no view scrolls sideways, in English and Chinese', async () => {
  for (const locale of ['en', 'zh-CN']) {
    const page = await open(browser, server, { locale, viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    assert.equal(await page.evaluate(() => document.documentElement.lang), locale);
    for (const view of kViews) {
      await show(page, view);
      await fits(page, `${view}, ${locale}`);
    }
    await page.getByRole('button', { name: locale === 'en' ? 'Menu' : '菜单' }).click();
    await page.getByRole('dialog').getByRole('link', { name: locale === 'en' ? 'Charts' : '图表' }).click();
    await page.locator('main[data-view=charts]').waitFor();
    assert.equal(await page.getByRole('dialog').count(), 0);
    assert.deepEqual(page.faults, []);
    await page.context().close();
  }
});

test('language and theme are chosen, and kept', async () => {
  const page = await open(browser, server, { colorScheme: 'light' });
  const back = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await back();
  await page.getByTestId('theme').selectOption('dark');
  const dark = await back();
  assert.notEqual(dark, light);
  await page.getByTestId('language').selectOption('zh');
  await page.getByRole('link', { name: '模型目录' }).click();
  await page.getByRole('heading', { name: '模型目录' }).waitFor();
  await page.reload();
  assert.equal(await back(), dark);
  assert.equal(await page.evaluate(() => document.documentElement.lang), 'zh-CN');
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('texts are compared and documents ranked', async () => {
  const page = await open(browser, server, {}, '/#/try');
  await page.getByRole('button', { name: 'Compare' }).click();
  const cells = page.locator('table.matrix tbody td');
  await cells.first().waitFor();
  assert.equal(await cells.count(), 16);
  assert.equal(await cells.first().textContent(), '1.00');
  assert.equal(await cells.nth(1).textContent(), await cells.nth(4).textContent());
  await check(page, 'similarity');
  await page.getByRole('tab', { name: 'Rerank' }).click();
  await page.getByLabel('Model').selectOption('bert_rerank');
  await page.getByRole('button', { name: 'Rank' }).click();
  const scores = (await page.locator('.score').allTextContents().then(async (texts) => (texts.length ? texts : (await page.locator('.score').first().waitFor(), page.locator('.score').allTextContents())))).map(Number);
  assert.equal(scores.length, 4);
  assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
  await check(page, 'ranking');
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('the catalogue is filtered, and a model goes from there into the launch form with its estimate', async () => {
  const page = await open(browser, server, {}, '/#/catalog');
  await page.getByLabel('Search').fill('smollm2');
  await page.getByRole('link', { name: 'smollm2', exact: true }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll('main ul.grid > li').length < 10);
  assert.ok((await page.getByTestId('fits').count()) > 0);
  await page.getByLabel('Kind').selectOption('image');
  await page.getByText('0 models').waitFor();
  await page.getByLabel('Search').fill('');
  await page.getByTestId('fits-not').first().waitFor();
  await page.getByLabel('Only what fits here').click();
  await page.getByText('0 models').waitFor();
  await page.goto(`${server.url}/#/catalog/smollm2`);
  await page.getByRole('link', { name: 'Launch smollm2:360m' }).click();
  await page.getByTestId('estimate').waitFor();
  assert.deepEqual([await page.getByLabel('Model name').inputValue(), await page.locator('#launch-size').inputValue(), await page.getByLabel('Format').inputValue()], ['smollm2', '360m', 'safetensors']);
  const total = () => page.getByRole('meter').getAttribute('aria-valuenow').then(Number);
  const before = await total();
  await page.getByLabel('Requests at once').fill('1');
  await page.waitForFunction((old) => Number(document.querySelector('[role=meter]')?.getAttribute('aria-valuenow') ?? old) < old, before);
  await page.getByLabel('Size').selectOption('135m');
  await page.waitForFunction(() => document.querySelector('#launch-size').value === '135m');
  assert.match(await page.locator('#why-vllm').textContent(), /vllm|^$/);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('charts follow the metrics', async () => {
  const page = await open(browser, server, {}, '/#/charts');
  const asked = fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ messages: [{ role: 'user', content: 'Hi' }], max_tokens: 24, ignore_eos: true, model: (await (await fetch(`${server.url}/v1/models`)).json()).data.find((each) => each.task === 'generate').id }) });
  await page.waitForFunction(() => [...document.querySelectorAll('figure')].some((figure) => /first token/.test(figure.textContent) && /p50\s*[\d.]+/.test(figure.textContent)), undefined, { timeout: 60_000 });
  assert.equal((await asked).status, 200);
  assert.ok((await page.locator('figure path').count()) >= 8);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('a job is started from a file; its results are downloaded', async () => {
  const page = await open(browser, server, {}, '/#/jobs');
  const line = { custom_id: 'a', method: 'POST', url: '/v1/embeddings', body: { model: 'bert', input: 'tide' } };
  await page.getByLabel('File').setInputFiles({ name: 'work.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from(JSON.stringify(line)) });
  if (await page.getByTestId('batches-only').isVisible()) await page.getByLabel('Endpoint').selectOption('/v1/embeddings');
  else await page.getByLabel('Priority').fill('3');
  await page.getByRole('button', { name: 'Start' }).click();
  const results = page.getByRole('button', { name: 'Results' });
  await results.waitFor({ timeout: 60_000 });
  const download = page.waitForEvent('download');
  await results.click();
  assert.match(readFileSync(await (await download).path(), 'utf8'), /"custom_id": ?"a"/);
  await check(page, 'a job');
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('a key is wanted, given and used', async () => {
  const locked = await Server.start([models.embed], '--api-key-file', '/dev/stdin').catch(() => null);
  assert.equal(locked, null, 'an empty file of keys is refused');
  process.env.QUERN_API_KEY = 'sesame';
  const guarded = await Server.start([models.embed]);
  delete process.env.QUERN_API_KEY;
  const page = await open(browser, guarded, {}, '/#/models');
  await page.getByText('This server wants you to sign in.').first().waitFor();
  await page.getByRole('link', { name: 'Sign in' }).first().click();
  await page.getByLabel('API key').fill('wrong');
  await page.getByRole('button', { name: 'Use the key' }).click();
  await page.getByText('That was not right.').waitFor();
  await page.getByLabel('API key').fill('sesame');
  await page.getByRole('button', { name: 'Use the key' }).click();
  await page.locator('main[data-view=chat]').waitFor();
  await page.goto(`${guarded.url}/#/models`);
  await page.getByRole('link', { name: 'bert', exact: true }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
  await guarded.stop();
});
