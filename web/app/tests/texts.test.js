// Parts without a browser: what the page reads.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

const page = readFileSync(new URL('../../index.html', import.meta.url), 'utf8');

test('the page is one file of one script, and asks nothing of other places', () => {
  assert.ok(Buffer.byteLength(page) < 900 * 1024);
  assert.equal(page.split('<script').length, 2);
  assert.equal(page.split('</script').length, 2);
  const markup = page.replace(/<script>[\s\S]*<\/script>/, '').replace(/<style>[\s\S]*<\/style>/, '');
  assert.doesNotMatch(markup, /\s(src|href)=|https?:/);
  const style = /<style>([\s\S]*)<\/style>/.exec(page)[1];
  assert.doesNotMatch(style, /url\(|@import/);
});
