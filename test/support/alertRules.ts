import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly AlertRule[] }[];
}

export const rulesPath = join(import.meta.dirname, '../../deploy/prometheus/alerts.yml');

export const readRules = (): RuleFile => parse(readFileSync(rulesPath, 'utf8')) as RuleFile;
export const alertRules = (): readonly AlertRule[] => readRules().groups.flatMap(({ rules }) => rules);
