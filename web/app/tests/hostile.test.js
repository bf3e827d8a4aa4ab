// What a model writes, and what things are called, is text or a known few elements; never more.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, models, open, Server, sse } from './server.js';

let server;
let browser;
before(async () => {
  server = await Server.start([models.embed]);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const kAllowed = new Set('A BLOCKQUOTE BR BUTTON CODE DEL DIV EM H3 H4 H5 H6 HR LI OL P PRE SPAN STRONG TABLE TBODY TD TH THEAD TR UL svg path rect math'.split(' '));

async function answered(text, extra = []) {
  const page = await open(browser, server, {}, '/docs');
  await page.route('**/v1/models', (route) => route.fulfill({ json: { data: [{ id: 'm', task: 'generate' }] } }));
  await page.route('**/v1/chat/completions', (route) => sse(route, [...(text.match(/[\s\S]{1,4096}/g) ?? []).map((content) => ({ content })), ...extra]));
  await page.goto(server.url);
  await page.locator('#model option').waitFor({ state: 'attached' });
  await page.getByTestId('prompt').fill('x');
  await page.getByTestId('prompt').press('Enter');
  await page.locator('.chat[data-running=false] article[data-role=assistant]').waitFor();
  return page;
}

async function names(page) {
  return page.evaluate(() => [...new Set([...document.querySelectorAll('article[data-role=assistant] *')].filter((each) => each.namespaceURI !== 'http://www.w3.org/1998/Math/MathML').map((each) => each.tagName))]);
}

async function end(page) {
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.deepEqual((await names(page)).filter((name) => !kAllowed.has(name)), []);
  const attributes = await page.evaluate(() => [...document.querySelectorAll('article *')].flatMap((each) => each.getAttributeNames()).filter((name) => name.startsWith('on') || name === 'srcdoc' || name === 'src'));
  assert.deepEqual(attributes, []);
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

const article = (page) => page.locator('article[data-role=assistant]');

test('markup stays text', async () => {
  for (const text of ['<img src=x onerror="window.hit=1">', 'a <b>bold</b> <script>window.hit=1</script>', '<svg><script>window.hit=1</script></svg>', '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>', '<a href="javascript:window.hit=1" onclick="window.hit=1">go</a>']) {
    const page = await answered(text);
    assert.equal((await article(page).textContent()).trim(), text);
    await end(page);
  }
});

test('links lead to the web alone', async () => {
  const page = await answered('[a](javascript:window.hit=1) [b](JaVaScRiPt&#58;window.hit=1) [c](data:text/html,<script>1</script>) [d](https://example.org/x "t") [e](//example.org) [f](vbscript:1) ![g](https://example.org/pixel.png) <javascript:alert(1)> [h]: javascript:alert(1)\n\n[h]');
  const links = await article(page).locator('a').evaluateAll((all) => all.map((each) => [each.textContent, each.getAttribute('href'), each.rel]));
  assert.deepEqual(links, [['d', 'https://example.org/x', 'noopener noreferrer nofollow'], ['g', 'https://example.org/pixel.png', 'noopener noreferrer nofollow']]);
  await end(page);
});

test('formulas make no links, pictures or scripts', async () => {
  const page = await answered('$\\href{javascript:window.hit=1}{x}$ $\\includegraphics{https://example.org/a.png}$ $$\\class{a}{\\style{background:url(https://example.org)}{y}}$$ $\\frac{1}{2}$ $\\def\\a{\\a\\a}\\a$');
  await article(page).locator('mfrac').waitFor({ state: 'attached' });
  assert.equal(await article(page).locator('a, img, [href], [style*=url]').count(), 0);
  await end(page);
});

test('fences without end, huge tables and deep nests are shown', async () => {
  const open = await answered('Before\n\n```python\nprint("<b>")\n# never closed');
  assert.match(await article(open).locator('pre').textContent(), /print\("<b>"\)\n# never closed/);
  await end(open);

  const rows = Array.from({ length: 400 }, (_, i) => `| ${Array.from({ length: 12 }, (_, j) => `cell ${i}.${j}`).join(' | ')} |`);
  const table = await answered(`| ${Array.from({ length: 12 }, (_, j) => `h${j}`).join(' | ')} |\n|${'---|'.repeat(12)}\n${rows.join('\n')}`);
  assert.equal(await article(table).locator('tbody tr').count(), 400);
  assert.equal(await table.evaluate(() => document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth), true);
  await end(table);

  for (const text of ['> '.repeat(3000) + 'deep', '- '.repeat(2000) + 'deep', '['.repeat(5000), '*'.repeat(8000) + 'a', '`'.repeat(4001), '$'.repeat(3000), '<'.repeat(5000), '| a '.repeat(4000), 'a'.repeat(300_000)]) {
    const page = await answered(text);
    assert.ok((await article(page).textContent()).length > 0, text.slice(0, 10));
    assert.equal(await page.evaluate(() => document.querySelector('main').scrollWidth <= document.querySelector('main').clientWidth), true, text.slice(0, 10));
    await end(page);
  }
});

test('names of tools, thoughts and errors are text', async () => {
  const hostile = '<img src=x onerror="window.hit=1">';
  const page = await answered('ok', [{ reasoning_content: hostile }, { tool_calls: [{ index: 0, id: hostile, function: { name: hostile, arguments: hostile } }] }]);
  assert.equal(await page.locator('[data-part=reasoning]').textContent(), hostile);
  assert.equal(await page.locator('.call pre').textContent(), hostile);
  assert.match(await page.locator('.call .head').textContent(), /<img/);
  await page.unroute('**/v1/chat/completions');
  await page.route('**/v1/chat/completions', (route) => route.fulfill({ status: 400, json: { error: { message: hostile } } }));
  await page.getByTestId('prompt').fill('again');
  await page.getByTestId('prompt').press('Enter');
  await page.locator('article[data-role=error]').waitFor();
  assert.equal(await page.locator('article[data-role=error]').textContent(), hostile);
  await end(page);
});

test('what lies in the browser’s own store is not trusted either', async () => {
  const page = await open(browser, server);
  for (const value of ['not json', '[1, null, {"id": 3}, {"id": "a", "messages": [null, {"role": "system", "content": "x"}, {"role": "assistant", "content": "<img src=x onerror=\\"window.hit=1\\">", "calls": []}]}]', '{"a": 1}']) {
    await page.evaluate((text) => ['quern.chats', 'quern.settings', 'quern.sampler', 'quern.session'].forEach((key) => localStorage.setItem(key, text)), value);
    await page.goto('about:blank');
    page.faults = page.faults.filter((fault) => !fault.endsWith('about:blank'));
    await page.goto(server.url);
    await page.getByTestId('prompt').waitFor();
  }
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
