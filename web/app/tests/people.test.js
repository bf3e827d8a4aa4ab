// Users of a real server: the one-time link, signing in, keys, users, the audit list.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, models, open, Server } from './server.js';
import { check } from './checks.js';

let server;
let browser;
before(async () => {
  server = await Server.start([models.embed], '--auth', 'on');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

test('from the one-time link to a key that works', async () => {
  const link = /\S*\/setup\?token=\S+/.exec(server.log)?.[0];
  assert.ok(link, server.log);
  const page = await open(browser, server, {}, `/setup?token=${link.split('token=')[1]}`);
  await page.getByRole('heading', { name: 'First admin' }).waitFor();
  assert.equal(new URL(page.url()).search, '');
  await page.getByLabel('User name').fill('ada');
  await page.getByLabel('Password', { exact: true }).fill('a long pass phrase');
  await page.getByLabel('Password again').fill('another');
  await page.getByRole('button', { name: 'Create the admin' }).click();
  await page.getByText('The two passwords differ.').waitFor();
  await page.getByLabel('Password again').fill('a long pass phrase');
  await check(page, 'setup');
  await page.getByRole('button', { name: 'Create the admin' }).click();
  await page.locator('main[data-view=people]').waitFor();

  await page.getByRole('button', { name: 'New key' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('laptop');
  await check(page, 'new key');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  const key = await page.locator('.note.good code').textContent();
  const answer = await fetch(`${server.url}/v1/models`, { headers: { Authorization: `Bearer ${key}` } });
  assert.equal(answer.status, 200);
  await page.getByRole('rowheader', { name: /laptop/ }).waitFor();
  await check(page, 'keys');

  await page.getByRole('tab', { name: 'Users' }).click();
  await page.getByRole('button', { name: 'New user' }).click();
  await page.getByRole('dialog').getByLabel('User name').fill('<b>bob</b>');
  await page.getByRole('dialog').getByLabel('First password').fill('first pass phrase');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await page.getByRole('dialog').getByLabel('User name').fill('bob');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('rowheader', { name: 'bob' }).waitFor();
  await page.getByLabel('Role bob').selectOption('viewer');
  await check(page, 'users');

  await page.getByRole('tab', { name: 'Audit' }).click();
  await page.getByLabel('Action').fill('setup');
  await page.getByRole('cell', { name: 'ada', exact: true }).first().waitFor();
  await check(page, 'audit');

  await page.getByRole('button', { name: /Sign out/ }).click();
  await page.getByRole('link', { name: 'Sign in' }).first().click();
  await page.getByLabel('User name').fill('bob');
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('That was not right.').waitFor();
  await page.getByLabel('Password').fill('first pass phrase');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('Change your password first.').waitFor();
  await page.getByLabel('Old password').fill('first pass phrase');
  await page.getByLabel('New password').fill('second pass phrase');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Change your password first.').waitFor({ state: 'detached' });
  await page.getByRole('tab', { name: 'Users' }).click();
  await page.getByText('You may not see this.').waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
