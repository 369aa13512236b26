/** A word of a name that is no base unit, and the base unit that it should be. */
const derivedUnits: Readonly<Record<string, string>> = {
  ...{ milliseconds: 'seconds', microseconds: 'seconds', nanoseconds: 'seconds', minutes: 'seconds' },
  ...{ hours: 'seconds', days: 'seconds', weeks: 'seconds', kilobytes: 'bytes', megabytes: 'bytes' },
  ...{ gigabytes: 'bytes', kibibytes: 'bytes', mebibytes: 'bytes', gibibytes: 'bytes', bits: 'bytes' },
  ...{ percent: 'ratio', percentage: 'ratio', kilometers: 'meters' },
};
const ABBREVIATED = ['s', 'ms', 'us', 'ns', 'sec', 'b', 'kb', 'mb', 'gb', 'tb', 'pb', 'm', 'h', 'd'];
const TYPES = ['counter', 'gauge', 'histogram', 'summary'];

interface Family {
  help: string | undefined;
  type: string | undefined;
  readonly samples: { readonly name: string; readonly labels: readonly string[] }[];
}

/** What Prometheus' own checker finds wrong with a page of metrics, by the same rules; nothing for a page in good order. */
export function metricsFaults(page: string): readonly string[] {
  const faults: string[] = [];
  const families = new Map<string, Family>();
  const seen = new Set<string>();
  const familyOf = (name: string): Family => {
    const known = families.get(name);
    if (known !== undefined) return known;
    const family: Family = { help: undefined, type: undefined, samples: [] };
    families.set(name, family);
    return family;
  };
  for (const line of page.split('\n').filter((one) => one !== '')) {
    const [, about, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) ?(.*)$/.exec(line) ?? [];
    if (about === undefined) {
      const [, sample = '', inside = ''] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
      if (sample === '') faults.push(`not a line of metrics: ${line}`);
      const series = line.slice(0, line.lastIndexOf(' '));
      if (seen.has(series)) faults.push(`${series} stands there twice`);
      seen.add(series);
      const labels = [...inside.matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g)].map(([, label = '']) => label);
      const base = sample.replace(/_(?:bucket|sum|count)$/, '');
      const isPart = ['histogram', 'summary'].includes(families.get(base)?.type ?? '');
      familyOf(isPart ? base : sample).samples.push({ name: sample, labels });
      continue;
    }
    const family = familyOf(name);
    const part = about === 'HELP' ? 'help' : 'type';
    if (family[part] !== undefined) faults.push(`${name} has two lines of ${about}`);
    family[part] = rest;
  }
  for (const [name, family] of families) {
    const of = (fault: string): number => faults.push(`${name} ${fault}`);
    const { type } = family;
    if (family.help === undefined || family.help === '') of('has no help text');
    if (type === undefined || ![...TYPES, 'untyped'].includes(type)) of(`is of the type ${String(type)}`);
    if (type === 'counter' && !name.endsWith('_total')) of('is a counter and does not end in _total');
    if (type !== 'counter' && name.endsWith('_total')) of('ends in _total and is no counter');
    if (type !== 'histogram' && type !== 'summary' && /_(?:count|sum|bucket)$/.test(name)) {
      of('ends like a part of a histogram');
    }
    if (name.includes(':')) of('has a colon, which recorded rules have');
    if (/[A-Z]/.test(name)) of('is not written with underscores');
    const words = name.split('_');
    for (const word of words) {
      if (derivedUnits[word] !== undefined) of(`counts ${word}, not ${derivedUnits[word]}`);
      if (TYPES.includes(word)) of(`has its type in its name: ${word}`);
    }
    const unit = words.at(name.endsWith('_total') ? -2 : -1) ?? '';
    if (ABBREVIATED.includes(unit)) of(`abbreviates its unit: ${unit}`);
    for (const label of new Set(family.samples.flatMap(({ labels }) => labels))) {
      if (label === 'le' && type !== 'histogram') of('has the label le, and is no histogram');
      if (label === 'quantile' && type !== 'summary') of('has the label quantile, and is no summary');
      if (label.startsWith('__') || !/^[a-z][a-z0-9_]*$/.test(label)) of(`has the label ${label}`);
    }
  }
  return faults;
}
