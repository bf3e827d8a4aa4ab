// The text format of Prometheus, as far as charts need it.
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    const match = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const label of (match[2] ?? '').matchAll(/([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g)) {
      labels[label[1]] = label[2].replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c));
    }
    const value = match[3] === '+Inf' ? Infinity : Number(match[3]);
    if (!Number.isNaN(value)) samples.push({ name: match[1].replace(/^[^:]*:/, ''), labels, value });
  }
  return samples;
}

// Sum over the series of a name, of one model or (empty) of all.
export function total(samples: Sample[], name: string, model = ''): number {
  let sum = 0;
  for (const sample of samples) {
    if (sample.name === name && (model === '' || sample.labels.model_name === model)) sum += sample.value;
  }
  return sum;
}

export function largest(samples: Sample[], name: string, model = ''): number {
  let value = 0;
  for (const sample of samples) {
    if (sample.name === name && (model === '' || sample.labels.model_name === model)) value = Math.max(value, sample.value);
  }
  return value;
}

export function modelsIn(samples: Sample[]): string[] {
  return [...new Set(samples.flatMap((sample) => sample.labels.model_name ?? []))].sort();
}

// The quantile of what a histogram counted between two readings, linear inside its bucket; NaN when it counted nothing.
export function quantile(before: Sample[], now: Sample[], name: string, share: number, model = ''): number {
  const counts = new Map<number, number>();
  const add = (samples: Sample[], sign: number) => {
    for (const { name: series, labels, value } of samples) {
      if (series !== `${name}_bucket` || (model !== '' && labels.model_name !== model)) continue;
      const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
      counts.set(bound, (counts.get(bound) ?? 0) + sign * value);
    }
  };
  add(now, 1);
  add(before, -1);
  const bounds = [...counts.keys()].sort((a, b) => a - b);
  const all = counts.get(Infinity) ?? 0;
  if (!(all > 0)) return NaN;
  let low = 0;
  let below = 0;
  for (const bound of bounds) {
    const upTo = counts.get(bound)!;
    if (upTo >= share * all) {
      if (bound === Infinity) return low;
      return upTo === below ? bound : low + ((share * all - below) / (upTo - below)) * (bound - low);
    }
    low = bound;
    below = upTo;
  }
  return low;
}
