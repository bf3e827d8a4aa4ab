// The chat as a person uses it.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, models, open, Server } from './server.js';

let server;
let browser;
before(async () => {
  server = await Server.start([models.chat]);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const prompt = (page) => page.getByTestId('prompt');
const answers = (page) => page.locator('article[data-role=assistant]');
const idle = (page) => page.locator('.chat[data-running=false]').waitFor({ timeout: 60_000 });

async function limit(page, tokens) {
  await page.getByTestId('settings').click();
  await page.getByLabel('Longest answer (tokens)').fill(String(tokens));
  await page.keyboard.press('Tab');
  await page.keyboard.press('Escape');
}

async function say(page, text) {
  await prompt(page).fill(text);
  await prompt(page).press('Enter');
}

async function ready(options) {
  const page = await open(browser, server, options);
  await page.locator('#model option').first().waitFor({ state: 'attached' });
  return page;
}

async function end(page) {
  assert.deepEqual(page.faults, []);
  await page.context().close();
}

test('a message is sent with Enter and answered; the conversation outlives a reload', async () => {
  const page = await ready();
  await limit(page, 12);
  await say(page, 'Say hello.');
  await answers(page).waitFor();
  await idle(page);
  assert.equal(await page.locator('article[data-role=user]').textContent(), 'Say hello.');
  const answer = await answers(page).textContent();
  assert.ok(answer.trim().length > 0);
  assert.match(await page.getByTestId('spoken').textContent(), /\S/);
  assert.equal(await prompt(page).inputValue(), '');
  await page.reload();
  assert.equal(await answers(page).textContent(), answer);
  await end(page);
});

// The model that needs no download has answered before anybody can stop it.
test('Stop ends an answer and keeps what was said', { skip: process.env.QUERN_CHAT_MODEL ? false : 'no model that writes for long' }, async () => {
  const page = await ready();
  await say(page, 'Tell me a very long story about the sea.');
  await page.waitForFunction(() => document.querySelector('article[data-role=assistant]')?.textContent.trim().length > 0);
  await page.getByTestId('stop').click();
  await idle(page);
  assert.ok((await answers(page).textContent()).trim().length > 0);
  assert.equal(await page.getByTestId('send').isVisible(), true);
  await end(page);
});

test('an answer is made again; a message is edited and sent again', async () => {
  const page = await ready();
  await limit(page, 8);
  await say(page, 'One');
  await idle(page);
  await page.getByTestId('regenerate').click();
  await idle(page);
  assert.equal(await answers(page).count(), 1);
  await say(page, 'Two');
  await idle(page);
  assert.equal(await page.locator('article').count(), 4);
  let sent;
  page.on('request', (request) => {
    if (request.url().endsWith('/v1/chat/completions')) sent = request.postDataJSON();
  });
  await page.getByTestId('edit-open').first().click();
  assert.equal(await page.getByTestId('edit').evaluate((box) => box === document.activeElement), true);
  await page.getByTestId('edit').fill('Three');
  await page.getByTestId('resend').click();
  await idle(page);
  assert.deepEqual(sent.messages, [{ role: 'user', content: 'Three' }]);
  assert.deepEqual(await page.locator('article[data-role=user]').allTextContents(), ['Three']);
  assert.equal(await answers(page).count(), 1);
  await end(page);
});

test('system prompt and sampling reach the server', async () => {
  const page = await ready();
  await page.getByTestId('settings').click();
  await page.getByTestId('system').fill('You are brief.');
  await page.getByRole('textbox', { name: 'Temperature' }).fill('0');
  await page.getByLabel('Longest answer (tokens)').fill('4');
  await page.getByLabel('Seed').fill('7');
  await page.getByLabel('Stop texts').fill('END');
  await page.keyboard.press('Escape');
  const asked = page.waitForRequest('**/v1/chat/completions');
  await say(page, 'Hi');
  const { messages, temperature, max_tokens, seed, stop, stream } = (await asked).postDataJSON();
  assert.deepEqual(messages, [{ role: 'system', content: 'You are brief.' }, { role: 'user', content: 'Hi' }]);
  assert.deepEqual({ temperature, max_tokens, seed, stop, stream }, { temperature: 0, max_tokens: 4, seed: 7, stop: ['END'], stream: true });
  await idle(page);
  assert.equal(await page.locator('article[data-role=error]').count(), 0);
  await end(page);
});

test('pictures only where the model sees; text files everywhere', async () => {
  const page = await ready();
  const picture = { name: 'dot.png', mimeType: 'image/png', buffer: Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64') };
  await page.locator('input[type=file]').setInputFiles(picture);
  assert.match(await page.getByRole('alert').textContent(), /sees no pictures/);
  await page.locator('input[type=file]').setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('``` tide ```') });
  const asked = page.waitForRequest('**/v1/chat/completions');
  await limit(page, 4);
  await say(page, 'Read this.');
  assert.deepEqual((await asked).postDataJSON().messages[0].content, 'Read this.\n\nnotes.txt:\n````\n``` tide ```\n````');
  await idle(page);
  await end(page);

  const seeing = await open(browser, server, {}, '/docs');
  await seeing.route('**/v1/models', (route) => route.fulfill({ json: { data: [{ id: 'eyes', model_type: 'LLM', model_ability: ['chat', 'vision'] }] } }));
  await seeing.goto(server.url);
  await seeing.locator('#model option').waitFor({ state: 'attached' });
  await seeing.route('**/v1/chat/completions', (route) => route.fulfill({ status: 400, json: { error: { message: 'blind after all' } } }));
  await seeing.locator('input[type=file]').setInputFiles(picture);
  await seeing.getByRole('img', { name: 'dot.png' }).waitFor();
  const request = seeing.waitForRequest('**/v1/chat/completions');
  await say(seeing, 'What is it?');
  const [first, second] = (await request).postDataJSON().messages[0].content;
  assert.match(first.image_url.url, /^data:image\/png;base64,iVBOR/);
  assert.deepEqual(second, { type: 'text', text: 'What is it?' });
  await seeing.locator('article[data-role=error]', { hasText: 'blind after all' }).waitFor();
  await end(seeing);
});

test('a conversation needs no mouse', async () => {
  const page = await ready();
  await limit(page, 6);
  await page.goto(`${server.url}/#/models`);
  await page.reload();
  await page.locator('main[data-view=models]').waitFor();
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className.includes('skip')), true);
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  const reach = async (found) => {
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press('Tab');
      if (await page.evaluate(found)) return;
    }
    assert.fail(`never reached: ${found}`);
  };
  await page.goto(`${server.url}/#/chat`);
  await page.locator('#model option').first().waitFor({ state: 'attached' });
  await reach(() => document.activeElement.id === 'prompt');
  await page.keyboard.type('Hello');
  await page.keyboard.press('Enter');
  await idle(page);
  await page.evaluate(() => document.querySelector('#log').focus());
  await reach(() => document.activeElement.dataset.testid === 'regenerate');
  await page.keyboard.press('Enter');
  await idle(page);
  assert.equal(await answers(page).count(), 1);
  await page.locator('#clear').focus();
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
  assert.equal(await page.locator('article').count(), 0);
  await end(page);
});

test('old conversations are found, opened and deleted', async () => {
  const page = await ready();
  await limit(page, 4);
  await say(page, 'About granite');
  await idle(page);
  await page.locator('#clear').click();
  await say(page, 'About chalk');
  await idle(page);
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByLabel('Search').fill('granite');
  await page.getByRole('button', { name: /^About granite/ }).click();
  assert.deepEqual(await page.locator('article[data-role=user]').allTextContents(), ['About granite']);
  await page.getByRole('button', { name: 'Conversations' }).click();
  await page.getByRole('button', { name: 'Remove About chalk' }).click();
  assert.equal(await page.getByRole('button', { name: /^About chalk/ }).count(), 0);
  await end(page);
});
