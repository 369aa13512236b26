export const MANIFEST_FILE = /^MANIFEST-(\d+)$/;
export const TABLE_FILE = /^(\d+)\.(?:ldb|sst)$/;
export const LOG_FILE = /^(\d+)\.log$/;

/** The number in a file name of one of these patterns; -1 for a name that does not match. */
export function numberOf(pattern: RegExp, name: string): number {
  const [, number] = pattern.exec(name) ?? [];
  return number === undefined ? -1 : Number(number);
}

/** The file of a table, by its number. */
export function tableName(number: number): string {
  return `${String(number).padStart(6, '0')}.ldb`;
}
