// The real server with real models, and a browser that looks at its page.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const golden = join(import.meta.dirname, '../../../tests/golden');

export class Server {
  static async start(models, ...options) {
    const server = new Server();
    server.home = mkdtempSync(join(tmpdir(), 'quern-page-'));
    server.process = spawn(process.env.QUERN_BINARY, ['serve', ...models, '--port', '0', '--store', ':memory:', ...options], {
      env: { ...process.env, QUERN_HOME: server.home },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    server.log = '';
    server.url = await new Promise((found, failed) => {
      server.process.stderr.on('data', (data) => {
        server.log += data;
        const match = /listening on (http:\S+)/.exec(server.log);
        if (match) found(match[1]);
      });
      server.process.on('exit', () => failed(new Error(`the server ended: ${server.log}`)));
    });
    return server;
  }

  async stop() {
    const ended = new Promise((done) => this.process.on('exit', done));
    this.process.kill('SIGTERM');
    await ended;
    rmSync(this.home, { recursive: true, force: true });
  }
}

export const models = {
  chat: process.env.QUERN_CHAT_MODEL || join(golden, 'models/llama'),
  embed: join(golden, 'models/bert'),
  rerank: join(golden, 'families/bert_rerank'),
};

export function launch() {
  return chromium.launch({ executablePath: process.env.QUERN_BROWSER, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-proxy-server'] });
}

// A page whose faults fail the test: what it threw, what its policy refused, what it asked of other places.
export async function open(browser, server, options = {}, path = '/') {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: 'en', ...options });
  const page = await context.newPage();
  page.faults = [];
  page.on('pageerror', (error) => page.faults.push(`threw ${error.stack ?? error}`));
  page.on('console', (line) => {
    if (/Content Security Policy|Trusted|violat/i.test(line.text())) page.faults.push(line.text());
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url) && !request.url().startsWith('blob:')) page.faults.push(`asked ${request.url()}`);
  });
  await page.goto(server.url + path);
  await page.locator('main').waitFor();
  return page;
}

export async function sse(route, deltas, status = 200) {
  const chunks = deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
  await route.fulfill({ status, contentType: 'text/event-stream', body: `${chunks.join('')}data: [DONE]\n\n` });
}
