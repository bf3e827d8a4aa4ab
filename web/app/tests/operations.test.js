// Jobs and machines, as their routes are described: what the page asks, and what it makes of the answers. The server
// behind is real; these routes alone are answered here, so that every state can be seen.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { check, fits } from './checks.js';
import { launch, models, open, Server } from './server.js';

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

// Answers `${method} ${path}` by `answers`, notes what was asked, and lets the rest through.
async function answer(page, answers) {
  const asked = [];
  await page.route('**/v1/**', async (route) => {
    const request = route.request();
    const { pathname, search } = new URL(request.url());
    const what = `${request.method()} ${pathname}`;
    const found = answers[what];
    if (found === undefined) return route.continue();
    if (request.method() !== 'GET') asked.push(`${what} ${/multipart/.test(request.headers()['content-type'] ?? '') ? '' : (request.postData() ?? '')}`.trim());
    const reply = typeof found === 'function' ? found(request, search) : found;
    await route.fulfill(typeof reply === 'number' ? { status: reply, json: { error: { message: 'no such route' } } } : { json: reply });
  });
  return asked;
}

const job = (more) => ({ id: 'job_1', name: 'night', state: 'running', model: 'bert', priority: 5, window: 'mon-fri 22:00-06:00', created: 1764590000, started: 1764590100, ended: null, counts: { total: 1200, done: 30, failed: 2 }, input_file_id: 'file-1', output_file_id: null, error_file_id: null, message: null, ...more });

test('a job is sent with priority and window, paused, resumed, cancelled and deleted', async () => {
  const page = await open(browser, server, {}, '/docs');
  const jobs = [job({ id: 'job_0', name: '<i>old</i>', state: 'failed', message: 'line 7: url: is no endpoint' })];
  const state = (name) => () => Object.assign(jobs.find((each) => each.id === 'job_1'), { state: name });
  const log = [1, 2, 3].map((number) => ({ number, time: 1764590100 + number, text: `line ${number} was answered` }));
  const asked = await answer(page, {
    'GET /v1/jobs': () => ({ object: 'list', data: jobs }),
    'POST /v1/files': { id: 'file-1' },
    'POST /v1/jobs': () => (jobs.unshift(job({ state: 'waiting_window' })), jobs[0]),
    'POST /v1/jobs/job_1/pause': state('paused'),
    'POST /v1/jobs/job_1/resume': state('running'),
    'POST /v1/jobs/job_1/cancel': state('cancelled'),
    'DELETE /v1/jobs/job_1': () => (jobs.shift(), { deleted: true }),
    'GET /v1/jobs/job_1/log': (_request, search) => ({ object: 'list', data: log.filter((each) => each.number >= Number(new URLSearchParams(search).get('from'))) }),
  });
  await page.goto(`${server.url}/#/jobs`);
  await page.getByRole('link', { name: '<i>old</i>' }).waitFor();
  await page.getByText('line 7: url: is no endpoint').waitFor();
  await page.getByLabel('File').setInputFiles({ name: 'night.jsonl', mimeType: 'application/jsonl', buffer: Buffer.from('{}') });
  await page.getByLabel('Model').selectOption('bert');
  await page.getByLabel('Priority').fill('5');
  await page.getByLabel('Window').fill('mon-fri 22:00-06:00');
  await check(page, 'the form of a job');
  await page.getByRole('button', { name: 'Start' }).click();
  await page.getByText('waits for its window').waitFor();
  await page.getByText('32 / 1,200 · 2 failed').first().waitFor();
  page.on('dialog', (dialog) => dialog.accept());
  await page.getByRole('button', { name: 'Pause night' }).click();
  await page.getByRole('link', { name: 'night' }).click();
  await page.getByText('paused').waitFor();
  await page.getByText(/line 3 was answered/).waitFor();
  await check(page, 'one job');
  await page.setViewportSize({ width: 360, height: 740 });
  await fits(page, 'one job');
  await page.getByRole('button', { name: 'Resume night' }).click();
  await page.getByText('running', { exact: true }).waitFor();
  await page.getByRole('button', { name: 'Cancel night' }).click();
  await page.getByText('cancelled').waitFor();
  assert.equal((await page.locator('pre.log').textContent()).match(/was answered/g).length, 3);
  await page.getByRole('button', { name: 'Delete night' }).click();
  await page.getByRole('link', { name: 'night' }).waitFor({ state: 'detached' });
  await page.locator('main[data-view=jobs] form').waitFor();
  await fits(page, 'jobs');
  assert.deepEqual(asked, [
    'POST /v1/files',
    'POST /v1/jobs {"name":"night","input_file_id":"file-1","priority":5,"window":"mon-fri 22:00-06:00","model":"bert"}',
    'POST /v1/jobs/job_1/pause', 'POST /v1/jobs/job_1/resume', 'POST /v1/jobs/job_1/cancel', 'DELETE /v1/jobs/job_1',
  ]);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('machines are drained, resumed and removed; one that joins is told how', async () => {
  const page = await open(browser, server, {}, '/docs');
  const node = (more) => ({ state: 'ready', labels: {}, version: '1.0', memory: { total: 2 ** 34, free: 2 ** 33, budget: 2 ** 33 }, cpu_load: 0.5, devices: [], replicas: [], last_seen_s: 0.4, address: '', local: false, ...more });
  const nodes = [node({ name: 'local', local: true }), node({ name: 'shed', address: 'http://10.0.0.2:9998', labels: { rack: '<b>2</b>' }, devices: [{ id: 'cuda:0', name: 'H200' }], replicas: ['smollm2-0'] })];
  const state = (name) => () => Object.assign(nodes[1], { state: name });
  const asked = await answer(page, {
    'GET /v1/nodes': () => ({ data: nodes }),
    'POST /v1/nodes/shed/drain': state('draining'),
    'POST /v1/nodes/shed/resume': state('lost'),
    'DELETE /v1/nodes/shed': () => (nodes.pop(), {}),
  });
  await page.goto(`${server.url}/#/cluster`);
  const shed = page.getByRole('region', { name: 'shed' });
  await shed.getByText('rack=<b>2</b>').waitFor();
  await shed.getByText('cuda:0 H200').waitFor();
  assert.equal(await shed.getByRole('link', { name: 'smollm2-0' }).getAttribute('href'), '#/models/smollm2');
  assert.equal(await page.getByRole('region', { name: 'local' }).getByRole('button', { name: /Remove/ }).count(), 0);
  await page.getByText(`quern worker --join ${server.url}`).waitFor();
  await check(page, 'machines');
  page.on('dialog', (dialog) => dialog.accept());
  await shed.getByRole('button', { name: 'Drain shed' }).click();
  await shed.getByText('draining').waitFor();
  await shed.getByRole('button', { name: 'Resume shed' }).click();
  await shed.getByText('lost').waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  await fits(page, 'machines');
  await shed.getByRole('button', { name: 'Remove shed' }).click();
  await shed.waitFor({ state: 'detached' });
  assert.deepEqual(asked, ['POST /v1/nodes/shed/drain', 'POST /v1/nodes/shed/resume', 'DELETE /v1/nodes/shed']);
  assert.deepEqual(page.faults, []);
  await page.context().close();
});

test('an older server: the views say what it does not offer', async () => {
  const page = await open(browser, server, {}, '/docs');
  await answer(page, { 'GET /v1/jobs': 404, 'GET /v1/nodes': 404 });
  await page.goto(`${server.url}/#/jobs`);
  await page.getByText('This server does not offer jobs with priority').waitFor();
  await page.getByText('No jobs yet.').waitFor();
  await page.goto(`${server.url}/#/cluster`);
  await page.getByText('This server does not offer: joining machines.').waitFor();
  await page.getByRole('region', { name: 'cpu' }).waitFor();
  assert.deepEqual(page.faults, []);
  await page.context().close();
});
