import { createLowlight } from 'lowlight';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import cpp from 'highlight.js/lib/languages/cpp';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

const kTextMax = 30_000;  // characters; longer code is shown without colours
const lowlight = createLowlight({ bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml });

export interface Run {
  text: string;
  style: string;  // classes of highlight.js, or empty
}

interface Part {
  type: string;
  value?: string;
  properties?: { className?: string[] };
  children?: Part[];
}

function collect(parts: Part[], style: string, runs: Run[]): void {
  for (const part of parts) {
    if (part.type === 'text') runs.push({ text: part.value ?? '', style });
    else collect(part.children ?? [], part.properties?.className?.join(' ') ?? style, runs);
  }
}

export function highlight(text: string, language: string): Run[] {
  const name = language.toLowerCase();
  if (text.length > kTextMax || !lowlight.registered(name)) return [{ text, style: '' }];
  const runs: Run[] = [];
  collect(lowlight.highlight(name, text).children as Part[], '', runs);
  return runs;
}
