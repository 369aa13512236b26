import type { AlertRule, RuleFile } from '../support/alertRules.js';

/** So many times sooner than as shipped: a minute is a second. */
export const FACTOR = 60;
/** Shorter ranges than this hold too few scrapes for a rate. */
const MIN_RANGE_SECONDS = 5;
const UNITS = { s: 1, m: 60, h: 3_600 } as const;

/** Times that rules have as plain seconds, and what takes their place: those of a scrub would last 24 minutes. */
const numbers: Readonly<Record<string, readonly [shipped: string, scaled: string]>> = {
  FlowIndexerHeadOld: ['> 300', '> 5'],
  FlowIndexerDiskFilling: ['24 * 3600', '24 * 60'],
  FlowIndexerScrubOverdue: ['> 86400', '> 20'],
};

/** The shipped rules with every duration divided by `FACTOR`; nothing else of them is changed. */
export function scaledRules(file: RuleFile): RuleFile {
  return { groups: file.groups.map(({ name, rules }) => ({ name, rules: rules.map(scaled) })) };
}

function scaled(rule: AlertRule): AlertRule {
  const [shipped, replaced] = numbers[rule.alert] ?? [];
  if (shipped !== undefined && rule.expr.split(shipped).length !== 2)
    throw new Error(`${rule.alert} has no ${shipped}: see test/alerts/scaledRules.ts`);
  const expr = rule.expr
    .replace(shipped ?? '', replaced ?? '')
    .replace(
      /\[(\d+)([smh])\]/g,
      (_, count: string, unit: string) => `[${atLeast(scaledSeconds(count, unit))}s]`,
    );
  const duration = /^(\d+)([smh])$/.exec(rule.for ?? '');
  if (duration === null) return { ...rule, expr };
  return { ...rule, expr, for: `${Math.max(1, scaledSeconds(duration[1] ?? '', duration[2] ?? ''))}s` };
}

function scaledSeconds(count: string, unit: string): number {
  return Math.round((Number(count) * UNITS[unit as keyof typeof UNITS]) / FACTOR);
}

const atLeast = (seconds: number): number => Math.max(MIN_RANGE_SECONDS, seconds);
