import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin, type Rolldown } from 'vite';

const kBytesMax = 900 * 1024;

// The licences of the packages that went into the script, as these ask to be passed on.
function licenses(modules: string[]): string {
  const folders = new Set(modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(id) ?? []));
  const texts = [...folders].map((folder) => {
    const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    return `${name} ${version} (${license ?? 'as below'})\n\n${file ? readFileSync(join(folder, file), 'utf8').trim() : 'no file of its own'}\n`;
  });
  return `Packages that are part of index.html.\n\n${texts.sort().join(`\n${'-'.repeat(80)}\n\n`)}`;
}

// One file with one classic script and one style sheet inside: the server names the script's hash in its policy
// (src/server/basic/routes.cc), so nothing may stand between the tags that the browser reads as markup. In strings,
// templates and expressions "\x3c" is "<"; code itself never has these three.
function singlePage(file: string): Plugin {
  return {
    name: 'single-page',
    apply: 'build',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const modules: string[] = [];
      const parts: Record<'js' | 'css' | 'html', string[]> = { js: [], css: [], html: [] };
      for (const output of Object.values(bundle) as (Rolldown.OutputAsset | Rolldown.OutputChunk)[]) {
        if (output.type === 'chunk') {
          parts.js.push(output.code);
          modules.push(...output.moduleIds);
        }
        else if (output.fileName.endsWith('.css')) parts.css.push(String(output.source));
        else if (output.fileName.endsWith('.html')) parts.html.push(String(output.source));
        else this.error(`${output.fileName}: the page is one file`);
        delete bundle[output.fileName];
      }
      if (parts.js.length !== 1 || parts.html.length !== 1) this.error('the page has one script and one document');
      const script = parts.js[0].trim().replaceAll(/<(?=\/?script|!--)/gi, '\\x3c');
      new Function(script);  // throws where the replacement broke it
      const document = parts.html[0]
        .replace(/\s*<script[^>]*><\/script>/, '')
        .replace(/\s*<link rel="stylesheet"[^>]*>/, '')
        .replace('</head>', () => `<style>${parts.css.join('')}</style>\n</head>`)
        .replace('</body>', () => `<script>${script}</script>\n</body>`);
      if (Buffer.byteLength(document) > kBytesMax) this.error(`the page has more than ${kBytesMax} bytes`);
      writeFileSync(file, document);
      writeFileSync(join(dirname(file), 'licenses.txt'), licenses(modules));
    },
  };
}

export default defineConfig({
  plugins: [svelte(), singlePage(process.env.QUERN_PAGE ?? '../index.html')],
  base: './',
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: false,
    cssCodeSplit: false,
    write: false,
    rolldownOptions: { output: { format: 'iife', codeSplitting: false } },
  },
  // For `npm run dev`, with a server of one's own beside it.
  server: { proxy: { '^/(v1|api|token|metrics|version|health|ready)': process.env.QUERN_URL ?? 'http://127.0.0.1:9997' } },
});
